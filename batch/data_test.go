package batch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// randomExamples draws n examples with at most columns features each.
func randomExamples(r *rand.Rand, n, columns int, value func(i int) float64) []event.Example {
	es := make([]event.Example, n)
	for i := range es {
		es[i] = event.Example{Label: r.IntN(3) - 1, Weight: 1, Offset: int64(i)}
		for d := range columns {
			if r.IntN(4) == 0 {
				es[i].Features.Index = append(es[i].Features.Index, uint32(d*d*d*7))
				es[i].Features.Value = append(es[i].Features.Value, value(i))
			}
		}
	}
	return es
}

// gather adds examples that several goroutines pack concurrently. For 0 goroutines it adds them one by one.
func gather(es []event.Example, goroutines int) (*Data, error) {
	b := Builder{Threads: goroutines}
	if goroutines == 0 {
		for i := range es {
			if err := b.Add(&es[i]); err != nil {
				return nil, err
			}
		}
		return b.Data(nil), nil
	}
	parts := slices.Collect(slices.Chunk(es, (len(es)+goroutines-1)/goroutines))
	packed := make([]*Packed, len(parts))
	var done sync.WaitGroup
	for k, part := range parts {
		done.Go(func() { packed[k] = b.Pack(part) })
	}
	done.Wait()
	for k, part := range parts {
		for i := range part {
			if err := b.AddPacked(packed[k], i, &part[i]); err != nil {
				return nil, err
			}
		}
	}
	return b.Data(nil), nil
}

func TestDataKeepsWhatWasAdded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, value := range map[string]func(int) float64{
		"binary":  func(int) float64 { return 1 },
		"float32": func(int) float64 { return float64(r.IntN(9)) / 4 },
		"float64": func(int) float64 { return r.NormFloat64() },
		"widening": func(i int) float64 {
			return []float64{1, float64(r.IntN(9)), r.NormFloat64()}[i/100]
		},
	} {
		es := randomExamples(r, 300, 200, value)
		es[7].Weight = 2.5
		for _, goroutines := range []int{0, 1, 2, 50} {
			d := must.Get(gather(es, goroutines))(t)
			order := r.Perm(300)
			sub := d.Subset(order)
			for i := range es {
				x := es[i].Features
				row := d.Row(i)
				must.Require(t, row.Len() == x.Len() && d.Label(i) == es[i].Label && d.Weight(i) == es[i].Weight, "%s: row %d: %d entries, label %d, weight %v", name, i, row.Len(), d.Label(i), d.Weight(i))
				w := make([]float64, d.Columns())
				row.AddTo(w, 2)
				square := 0.0
				for j := range x.Index {
					must.Require(t, d.Column(int(row.Index[j])) == x.Index[j] && row.At(j) == x.Value[j] && w[row.Index[j]] == 2*x.Value[j],
						"%s: row %d entry %d: (%d, %v), want (%d, %v)", name, i, j, d.Column(int(row.Index[j])), row.At(j), x.Index[j], x.Value[j])
					square += 2 * x.Value[j] * x.Value[j]
				}
				got := row.Dot(w)
				must.Require(t, math.Abs(got-square) <= 1e-12*square, "%s: row %d: dot %v, want %v", name, i, got, square)
			}
			for j, i := range order {
				must.Require(t, sub.Label(j) == es[i].Label && sub.Weight(j) == es[i].Weight && sub.Row(j).Len() == es[i].Features.Len(), "%s: subset row %d is not row %d", name, j, i)
			}
		}
	}
}

func TestBuilderRefusesBadExamples(t *testing.T) {
	one := event.Vec{Index: []uint32{3}, Value: []float64{1}}
	for name, e := range map[string]event.Example{
		"refused":    {Weight: 1, Refused: &event.Refusal{Reason: event.ReasonSyntax}},
		"weight":     {Features: one, Weight: -1},
		"not finite": {Features: event.Vec{Index: []uint32{3}, Value: []float64{math.Inf(1)}}, Weight: 1},
		"order":      {Features: event.Vec{Index: []uint32{3, 3}, Value: []float64{1, 1}}, Weight: 1},
		"label":      {Features: one, Weight: 1, Label: -2},
	} {
		e.Offset = 7
		es := []event.Example{{Features: one, Weight: 1}, e, {Features: one, Weight: 1}}
		_, err := gather(es, 0)
		_, packed := gather(es, 1)
		must.True(t, err != nil && packed != nil && err.Error() == packed.Error() && strings.Contains(err.Error(), "offset 7:"), "%s: %v, packed %v", name, err, packed)
	}
}

func TestSumIsTheSameForAnyNumberOfThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	es := randomExamples(r, 2000, 40, func(int) float64 { return r.NormFloat64() })
	d := eventtest.Data(t, new(Builder), nil, es...)
	var want []float64
	for threads := 1; threads <= 5; threads++ {
		s := NewSummer(d, d.Columns(), threads)
		must.Require(t, len(s.partial) >= 8, "%d groups: too few to show anything", len(s.partial))
		out := make([]float64, d.Columns(), d.Columns()+1)
		rows := 0
		total := s.Sum(out, func(lo, hi int, acc []float64) float64 {
			v := 0.0
			for i := lo; i < hi; i++ {
				d.Row(i).AddTo(acc, 1/float64(i+1))
				v += 1 / float64(i+1)
			}
			return v
		})
		s.Each(func(_, lo, hi int) {
			if threads == 1 {
				rows += hi - lo
			}
		})
		must.Require(t, threads != 1 || rows == d.Rows(), "the groups cover %d of %d rows", rows, d.Rows())
		out = append(out, total)
		if want == nil {
			want = out
		}
		for i := range want {
			must.Require(t, out[i] == want[i], "%d threads: coordinate %d is %v, with one thread %v", threads, i, out[i], want[i])
		}
	}
}

// TestPackedRowsPassedOver adds some rows of a Packed and skips the other rows, including the first. It checks that the
// Data equals the Data of the added rows alone.
func TestPackedRowsPassedOver(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	es := randomExamples(r, 300, 200, func(int) float64 { return r.NormFloat64() })
	for _, part := range []int{7, 100, 300} {
		var b, plain Builder
		for of := range slices.Chunk(es, part) {
			p := b.Pack(of)
			for i := range of {
				if i%4 == 0 {
					continue
				}
				must.Do(t, errors.Join(b.AddPacked(p, i, &of[i]), plain.Add(&of[i])))
			}
		}
		got, want := b.Data(nil), plain.Data(nil)
		must.Require(t, got.Rows() == want.Rows(), "%d rows, want %d", got.Rows(), want.Rows())
		for i := range got.Rows() {
			a, b := got.Vec(i, event.Vec{}), want.Vec(i, event.Vec{})
			must.Require(t, slices.Equal(a.Index, b.Index) && slices.Equal(a.Value, b.Value) && got.Label(i) == want.Label(i), "parts of %d: row %d is %v, want %v", part, i, a, b)
		}
	}
}

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
						z := sum / math.Sqrt(squares)
						must.True(t, math.Abs(z) <= 5.5, "q = %v, seed %d: entry %d and entry %d of %s: correlation at %.1f standard errors", q, seed, j, k, name, z)
					}
				}
				for j := range entries {
					mean := 0.0
					for i := range n {
						mean += other[i][j]
					}
					z := mean / math.Sqrt(n)
					must.True(t, math.Abs(z) <= 5, "q = %v, seed %d: entry %d of %s survives at %.1f standard errors from its chance", q, seed, j, name, z)
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
			fields := must.Map(e.Index, d.fields.of)
			before := slices.Clone(e.Value)
			c.Vec(e, fields, i, 0)
			row := copies.Row(i)
			for j := range row.Index {
				must.Require(t, row.At(j) == e.Value[j], "%v, example %d, column %d: %v in corrupted data, %v drawn", noise, i, e.Index[j], row.At(j), e.Value[j])
				if e.Value[j] != before[j] {
					changed++
				}
			}
		}
		must.True(t, changed != 0, "%v has changed nothing", noise)
	}
}
