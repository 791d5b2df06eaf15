package papers

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestCorruptedCopies checks that the copies equal the copies of package batch, except that they omit zeros.
func TestCorruptedCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var examples []event.Example
	for i := range 20 {
		e := event.Example{Label: i % 2, Weight: 2}
		for d := range uint32(30) {
			if r.IntN(2) == 0 {
				eventtest.Put(&e, d, 1+float64(d))
			}
		}
		examples = append(examples, e)
	}
	clean := dataOf(Binary(), examples)
	noise := loss.Dropout{Q: 0.7}
	want := must.Get(clean.Corrupted(noise, 5, 9))(t)
	got := (&corruption{noise: dropout, rates: []float64{noise.Q}, copies: 5, seed: 9}).data(Binary(), nil, examples)
	must.Require(t, got.Rows() == want.Rows(), "%v rows", got.Rows())
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
		must.Require(t, slices.Equal(a, b) && got.Weight(i) == want.Weight(i) && got.Label(i) == want.Label(i), "row %d: %v of weight %g, want %v of %g", i, a, got.Weight(i), b, want.Weight(i))
	}
}

// TestTune checks that each level uses the setting with the smallest validation error, or the first such setting if
// several are equal. The test errors must have no effect on the choice. Methods must be compared only above a given
// level.
func TestTune(t *testing.T) {
	c := nightmareConfig{Levels: []float64{0, 0.6, 0.7}, Test: 2}
	contenders := []contender{{method: "a", setting: "1"}, {method: "a", setting: "2"}, {method: "b", setting: "3"}}
	cell := func(validation []float64, wrong ...mistakes) nightmareCell {
		return nightmareCell{Validation: [ways][]float64{asIs: validation}, Wrong: [ways][]mistakes{asIs: wrong}}
	}
	cells := []nightmareCell{
		cell([]float64{10, 20, 30}, mistakes{1, 1}, mistakes{1, 0}, mistakes{0, 1}),
		cell([]float64{11, 20, 29}, mistakes{0, 0}, mistakes{0, 0}, mistakes{1, 1}),
		cell([]float64{50, 60, 70}, mistakes{1, 1}, mistakes{0, 0}, mistakes{0, 1}),
	}
	got := tune(c, asIs, contenders, cells)
	must.True(t, len(got) == 2 && slices.Equal(got[0].settings, []string{"1", "1", "2"}) && slices.Equal(got[0].wrong[2], mistakes{1, 1}) && slices.Equal(got[1].settings, []string{"3", "3", "3"}),
		"%+v", got)
	// At the two levels above 0.5, method a has two more mistakes than b on the first image, and the same number of
	// mistakes on the second image.
	d := c.less(got[0], got[1], 0.5)
	must.True(t, d.Mean == 50, "difference %v, want 50", d)
}

// TestUpdateColumns checks the three presentations. Surviving pixels are scaled as in training, or are unchanged. In
// the third presentation dead pixels have their mean, while dark pixels of the image are still dark. Each presentation
// must change the prediction of the test's model, which has an intercept.
func TestUpdateColumns(t *testing.T) {
	c := nightmareConfig{Levels: []float64{0, 0.5}}
	m := model.NewLinear(Binary(), "hinge", "none", [][]float64{{1.5, 1.5}}, []float64{-2})
	image := event.Example{Features: event.Vec{Index: []uint32{0}, Value: []float64{1}}, Label: 0}
	images := must.List(400, func(int) event.Example { return image })
	wrong := c.corruptedMistakes(m, []float64{0, 2}, images, 3)
	for as, want := range [ways][2]float64{divided: {0, 50}, asIs: {0, 0}, atMeans: {0, 50}} {
		for level, fraction := range want {
			got := wrong[as][level].error()
			must.True(t, math.Abs(got-fraction) <= 8 && (fraction != 0 || got == 0), "%s, level %g: %g %% wrong, want about %g", shownAs[as], c.Levels[level], got, fraction)
		}
	}
	lit := model.NewLinear(Binary(), "hinge", "none", [][]float64{{3, 0}}, []float64{-2})
	images[0].Label = 1
	must.True(t, c.corruptedMistakes(lit, []float64{0, 2}, images[:1], 3)[atMeans][0][0] == 0, "a lit pixel that lives is dark")
	got := columnMeans(images, mnistPixels)
	must.True(t, got[0] == 1 && got[1] == 0 && len(got) == mnistPixels, "means %v, want 1 of the first pixel", got)
}

// TestChains checks that each contender follows the contender with the level before and the same cost. Only a contender
// that follows another contender may start from the previous weights.
func TestChains(t *testing.T) {
	contenders := nightmareContenders(&Setting{Size: Default}, &nightmareConfig{Tol: 1e-6})
	follows := 0
	for i, x := range contenders {
		if x.follows {
			follows++
			before := contenders[i-1]
			must.True(t, before.method == x.method && before.batch.Cost == x.batch.Cost && before.batch.Noise != x.batch.Noise, "%s, %s follows %s, %s", x.method, x.setting, before.method, before.setting)
		}
	}
	// number of levels after the first, by cost
	want := 8 * (5 + 5 + 2 + 4 + 3)
	must.True(t, follows == want, "%d contenders start from others' weights, want %d", follows, want)
	r := rand.New(rand.NewPCG(7, 8))
	var examples []event.Example
	for i := range 60 {
		e := event.Example{Label: i % 2, Weight: 1}
		for d := range uint32(8) {
			eventtest.Put(&e, d, r.Float64()+float64(i%2)*0.3)
		}
		examples = append(examples, e)
	}
	d := dataOf(Binary(), examples)
	x := contenders[slices.IndexFunc(contenders, func(x contender) bool { return x.method == dropoutLogistic })+1]
	exact := must.Get(batch.Train(t.Context(), d, *x.batch))(t)
	for _, x.follows = range []bool{true, false} {
		w := [][]float64{make([]float64, len(exact.Problems[0].W))}
		for i := range w[0] {
			w[0][i] = 0.5
		}
		must.Do(t, must.Err2(x.train(t.Context(), Binary(), d, examples, &w)))
		far := 0.0
		for i, v := range exact.Problems[0].W {
			far = max(far, math.Abs(v-w[0][i]))
		}
		must.True(t, (far > 0) == x.follows && far <= 1e-2,
			"follows %t: weights end %g from those that started at zero: want equal bits where it follows none, other bits within the tolerance where it does", x.follows, far)
	}
}

// TestWords checks that the words do not depend on the number of threads. The quarters of an image together must have
// as many patches as the whole image. The centers of k-means must be the centers of the clouds. The nearest center must
// equal the result of a slow search.
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
	w := must.Get(learnWords(t.Context(), s, c, images))(t)
	again, err := learnWords(t.Context(), &Setting{Seed: 1, Threads: 1}, c, images)
	must.True(t, err == nil && slices.Equal(w.half, again.half), "other words on one thread: %v", err)
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
			must.Equal(t, dense[k]+dense[c.Words+k]+dense[2*c.Words+k]+dense[3*c.Words+k], dense[4*c.Words+k], "image", i, "word", k)
			all += dense[4*c.Words+k]
		}
		must.True(t, all == float64(places*places), "image %d: %g words in %d patches", i, all, places*places)
	}
	// Test k-means alone. For three clouds it must find the three means, and the nearest mean of every point.
	x := mat.NewDense(300, 2, nil)
	for i := range 300 {
		x.SetRow(i, []float64{float64(i%3)*10 + r.NormFloat64(), r.NormFloat64()})
	}
	centers := must.Get(kMeans(t.Context(), s, x, 3, 20, rand.New(rand.NewPCG(5, 6))))(t)
	var first []float64
	half := make([]float64, 3)
	for k, c := range centers {
		first = append(first, c[0])
		half[k] = (c[0]*c[0] + c[1]*c[1]) / 2
	}
	for i := range 300 {
		p, best := x.RawRowView(i), 0
		for k, c := range centers {
			if math.Hypot(p[0]-c[0], p[1]-c[1]) < math.Hypot(p[0]-centers[best][0], p[1]-centers[best][1]) {
				best = k
			}
		}
		got := closest(centers, half, p)
		must.Require(t, got == best, "point %v: center %d, want %d", p, got, best)
	}
	slices.Sort(first)
	for k, m := range first {
		must.True(t, math.Abs(m-10*float64(k)) <= 0.5, "centers %v, want 0, 10 and 20", first)
	}
}

// TestFigureOfNightmares checks that each statement of the figure is a single claim of the paper, although images are
// presented in several ways.
func TestFigureOfNightmares(t *testing.T) {
	c := nightmareConfig{Levels: []float64{0, 0.6}, Test: 3}
	all := append(slices.Clone(nightmarePaper), hingeNormal, logisticL2, blankoutPass, adaGradPass)
	methods := must.Map(all, func(m string) tuned { return tuned{method: m, wrong: []mistakes{{0, 1, 0}, {1, 1, 0}}} })
	s := &Setting{Size: Default}
	for as := range shownAs {
		s.nightmareClaims(c, as, methods)
	}
	count := map[string]int{}
	for _, claim := range s.result.Claims {
		if !claim.Own {
			count[claim.Claim]++
			must.True(t, claim.Where == shownAs[asIs] && claim.Paper != "", "a claim of the paper: %+v", claim)
		}
	}
	must.True(t, len(count) == 4, "claims of the paper, and how often: %v", count)
	for statement, n := range count {
		must.True(t, n == 1, "%q is %d claims of the paper", statement, n)
	}
}
