package batch

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestCorrupterDrawsIndependently checks that the masks of neighboring examples, copies and seeds are independent for
// any pair of entries. Sums over copies must have the variance of independent draws.
func TestCorrupterDrawsIndependently(t *testing.T) {
	const n, entries = 6000, 6
	masks := func(q float64, seed uint64, example, copy func(i int) int) [][]float64 {
		c := Corrupter{Noise: loss.Dropout{Q: q}, Seed: seed, Keep: true}
		out := make([][]float64, n)
		for i := range out {
			x := event.Vec{Index: make([]uint32, entries), Value: make([]float64, entries)}
			for j := range x.Value {
				x.Index[j], x.Value[j] = uint32(j), 1
			}
			c.Vec(x, nil, example(i), copy(i))
			for j, v := range x.Value {
				x.Value[j] = (v - (1 - q)) / math.Sqrt(q*(1-q))
			}
			out[i] = x.Value
		}
		return out
	}
	count := func(i int) int { return i }
	next := func(i int) int { return i + 1 }
	none := func(int) int { return 0 }
	third := func(i int) int { return i / 3 }
	inThird := func(i int) int { return i % 3 }
	for _, q := range []float64{0.2, 0.5, 0.8} {
		for seed := range uint64(3) {
			base := masks(q, seed, count, none)
			for name, other := range map[string][][]float64{
				"itself":           base,
				"the next example": masks(q, seed, next, none),
				"the next copy":    masks(q, seed, count, func(int) int { return 1 }),
				"the next seed":    masks(q, seed+1, count, none),
				"copies":           masks(q, seed, none, next),
				"a few copies":     masks(q, seed, third, inThird),
			} {
				for j := range entries {
					for k := range entries {
						if name == "itself" && j == k {
							continue
						}
						sum, squares := 0.0, 0.0
						for i := range n {
							p := base[i][j] * other[i][k]
							sum += p
							squares += p * p
						}
						if z := sum / math.Sqrt(squares); math.Abs(z) > 5.5 {
							t.Errorf("q = %v, seed %d: entry %d and entry %d of %s: correlation at %.1f standard errors", q, seed, j, k, name, z)
						}
					}
				}
				for j := range entries {
					mean := 0.0
					for i := range n {
						mean += other[i][j]
					}
					if z := mean / math.Sqrt(n); math.Abs(z) > 5 {
						t.Errorf("q = %v, seed %d: entry %d of %s survives at %.1f standard errors from its chance", q, seed, j, name, z)
					}
				}
			}
		}
	}
}

// TestCorrupterDrawsAsCorruptedData checks that Corrupter and Data.Corrupted draw the same copies. The cases include
// group noise with one rate or several rates, and products of two groups.
func TestCorrupterDrawsAsCorruptedData(t *testing.T) {
	x, y := drawProblem(t, 3, 400, 6, false)
	d := denseData(t, x, y)
	for _, noise := range []loss.Noise{loss.Dropout{Q: 0.4}, loss.GroupDropout{Q: 0.2, Groups: 0.4}, loss.GroupDropout{Q: 0.1, Rates: ownRates}} {
		copies := must.Get(d.Corrupted(noise, 1, 7))(t)
		c := Corrupter{Noise: noise, Seed: 7, Grouping: model.NewGrouping(d.Schema)}
		changed := 0
		for i := range d.Rows() {
			e := d.Vec(i, event.Vec{})
			var fields []uint16
			for _, column := range e.Index {
				fields = append(fields, d.fields.of(column))
			}
			before := slices.Clone(e.Value)
			c.Vec(e, fields, i, 0)
			row := copies.Row(i)
			for j := range row.Index {
				if row.At(j) != e.Value[j] {
					t.Fatalf("%v, example %d, column %d: %v in corrupted data, %v drawn", noise, i, e.Index[j], row.At(j), e.Value[j])
				}
				if e.Value[j] != before[j] {
					changed++
				}
			}
		}
		if changed == 0 {
			t.Errorf("%v has changed nothing", noise)
		}
	}
}
