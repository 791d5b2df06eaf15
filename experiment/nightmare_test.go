package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout"
)

// TestCorruptedCopies: the copies without their zeros are those that batch draws.
func TestCorruptedCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var examples []blankout.Example
	for i := range 20 {
		e := blankout.Example{Label: i % 2, Weight: 2}
		for d := range uint32(30) {
			if r.IntN(2) == 0 {
				e.Features.Index, e.Features.Value = append(e.Features.Index, d), append(e.Features.Value, 1+float64(d))
			}
		}
		examples = append(examples, e)
	}
	clean, err := dataOf(Binary(), examples)
	if err != nil {
		t.Fatal(err)
	}
	noise := blankout.Dropout{Q: 0.7}
	want, err := clean.Corrupted(noise, 5, 9)
	if err != nil {
		t.Fatal(err)
	}
	got, err := corruptedCopies(nil, examples, noise, 5, 9)
	if err != nil || got.Rows() != want.Rows() {
		t.Fatal(got.Rows(), err)
	}
	for i := range got.Rows() {
		var a, b []float64
		for j, row := range []interface {
			Len() int
			At(int) float64
		}{got.Row(i), want.Row(i)} {
			for k := range row.Len() {
				if v := row.At(k); v != 0 && j == 0 {
					a = append(a, v)
				} else if v != 0 {
					b = append(b, v)
				}
			}
		}
		if !slices.Equal(a, b) || got.Weight(i) != want.Weight(i) || got.Label(i) != want.Label(i) {
			t.Fatalf("row %d: %v of weight %g, want %v of %g", i, a, got.Weight(i), b, want.Weight(i))
		}
	}
}

// TestTune: each level takes the setting of the least validation error, of equal
// ones that of the lower log-loss, whatever the test images say.
func TestTune(t *testing.T) {
	c := nightmareConfig{Levels: []float64{0, 0.5}}
	contenders := []contender{{method: "a", setting: "1"}, {method: "a", setting: "2"}, {method: "b", setting: "3"}}
	cells := []nightmareCell{
		{Validation: []float64{10, 20}, LogLoss: []float64{1, 1}, Test: [][]float64{{12, 14}, {1, 1}}},
		{Validation: []float64{11, 20}, LogLoss: []float64{1, 0.5}, Test: [][]float64{{0, 0}, {30, 32}}},
		{Validation: []float64{50, 60}, LogLoss: []float64{2, 2}, Test: [][]float64{{51, 51}, {61, 61}}},
	}
	got := tune(c, contenders, cells)
	if len(got) != 2 || !slices.Equal(got[0].errors, []float64{13, 31}) || !slices.Equal(got[0].settings, []string{"1", "2"}) || !slices.Equal(got[1].errors, []float64{51, 61}) {
		t.Errorf("%+v", got)
	}
}

// TestWords: the words do not depend on the number of threads, an image has as many
// as patches, in the quarters as in the whole; k-means finds clouds, and the nearest
// centre is the one found the slow way.
func TestWords(t *testing.T) {
	s := &Setting{Seed: 1, Threads: 2}
	c := cifarConfig{Side: 3, Stride: 4, Words: 7, Patches: 400, Rounds: 4}
	r := rand.New(rand.NewPCG(3, 4))
	images := make([][]byte, 5)
	for i := range images {
		images[i] = make([]byte, 1+3*cifarSide*cifarSide)
		for j := range images[i][1:] {
			images[i][1+j] = byte(128 + 60*math.Sin(float64(j*(i+1))/17) + 20*r.NormFloat64())
		}
	}
	w, err := learnWords(t.Context(), s, c, images)
	if err != nil {
		t.Fatal(err)
	}
	again, err := learnWords(t.Context(), &Setting{Seed: 1, Threads: 1}, c, images)
	if err != nil || !slices.Equal(w.half, again.half) {
		t.Errorf("other words on one thread: %v", err)
	}
	places := 0
	for at := 0; at <= cifarSide-c.Side; at += c.Stride {
		places++
	}
	for i, image := range images {
		v := w.count(image)
		dense := make([]float64, 5*c.Words)
		for j, d := range v.Index {
			dense[d] = v.Value[j]
		}
		all := 0.0
		for k := range c.Words {
			if sum := dense[k] + dense[c.Words+k] + dense[2*c.Words+k] + dense[3*c.Words+k]; sum != dense[4*c.Words+k] {
				t.Errorf("image %d, word %d: %g in the quarters, %g in the whole", i, k, sum, dense[4*c.Words+k])
			}
			all += dense[4*c.Words+k]
		}
		if all != float64(places*places) {
			t.Errorf("image %d: %g words in %d patches", i, all, places*places)
		}
	}
	// k-means alone: of three clouds the three means, and every point's nearest.
	x := mat.NewDense(300, 2, nil)
	for i := range 300 {
		x.SetRow(i, []float64{float64(i%3)*10 + r.NormFloat64(), r.NormFloat64()})
	}
	centres, err := kMeans(t.Context(), s, x, 3, 20, rand.New(rand.NewPCG(5, 6)))
	if err != nil {
		t.Fatal(err)
	}
	var first []float64
	half := make([]float64, 3)
	for k, c := range centres {
		first = append(first, c[0])
		half[k] = (c[0]*c[0] + c[1]*c[1]) / 2
	}
	for i := range 300 {
		p, best := x.RawRowView(i), 0
		for k, c := range centres {
			if math.Hypot(p[0]-c[0], p[1]-c[1]) < math.Hypot(p[0]-centres[best][0], p[1]-centres[best][1]) {
				best = k
			}
		}
		if got := closest(centres, half, p); got != best {
			t.Fatalf("point %v: centre %d, want %d", p, got, best)
		}
	}
	slices.Sort(first)
	for k, m := range first {
		if math.Abs(m-10*float64(k)) > 0.5 {
			t.Errorf("centres %v, want 0, 10 and 20", first)
		}
	}
}
