package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// testModel returns a model of two outputs with 20 random support vectors.
func testModel(t *testing.T, k Kernel) (m *Model, vectors []event.Vec, coef []float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		var x event.Vec
		for c := range uint32(6) {
			if r.IntN(3) > 0 {
				x.Index, x.Value = append(x.Index, c), append(x.Value, math.Abs(r.NormFloat64()))
			}
		}
		vectors, coef = append(vectors, x), append(coef, r.NormFloat64(), r.NormFloat64())
	}
	head := model.Head{Schema: event.NewSchema(20, []string{"-1", "1"}, 2), Loss: "dropsvm", Noise: "none", Outputs: 2, Intercept: []float64{0.5, -1}}
	m = must.Get(NewModel(head, k, vectors, coef))(t)
	return m, vectors, coef
}

// slow computes the kernel of two vectors by its definition, column by column.
func slow(k Kernel, x, y event.Vec) float64 {
	sum := func(x, y event.Vec) (s float64) {
		for i, c := range x.Index {
			if j := slices.Index(y.Index, c); j >= 0 {
				s += k.Pair(x.Value[i], y.Value[j])
			}
		}
		return s
	}
	return k.Of(sum(x, y), sum(x, x), sum(y, y))
}

func TestModelScores(t *testing.T) {
	for _, k := range []Kernel{Linear{}, RBF{1.5}, Polynomial{3}, Chi2{1.2}} {
		m, vectors, coef := testModel(t, k)
		must.Require(t, m.Support() == 20, "%d support vectors, want 20", m.Support())
		each := must.Get(m.EachBlock())(t)
		blocks := slices.Collect(each)
		again := must.Get(ReadModel(blocks))(t)
		for i, x := range vectors {
			e := event.Example{Features: x}
			want := []float64{0.5, -1}
			for j, y := range vectors {
				v := slow(k, x, y)
				want[0] += coef[2*j] * v
				want[1] += coef[2*j+1] * v
			}
			got := m.Score(&e, make([]float64, 2))
			must.Near(t, got, want, 1e-12, k, "scores of example", i)
			read := again.Score(&e, make([]float64, 2))
			must.Require(t, slices.Equal(read, got), "%s: scores %v after reading, %v before", k, read, got)
			// A feature in a column that no support vector has changes only |x|.
			other := e
			other.Features = e.Features.Clone()
			other.Features.Index = append(other.Features.Index, 9999)
			other.Features.Value = append(other.Features.Value, 2)
			far := m.Score(&other, make([]float64, 2))
			switch k.(type) {
			case Linear, Polynomial:
				must.Require(t, slices.Equal(far, got), "%s: an unknown column moves the score from %v to %v", k, got, far)
			default:
				shrink := k.Of(0, 0, map[bool]float64{true: 2, false: 4}[k.String()[0] == 'c'])
				must.Require(t, math.Abs(far[0]-0.5-shrink*(got[0]-0.5)) <= 1e-12, "%s: an unknown column moves the score from %v to %v", k, got, far)
			}
			// Half of the features are missing, so the present features count double.
			half := e
			half.Features = e.Features.Clone()
			for j := range half.Features.Value {
				half.Features.Value[j] /= 2
			}
			double := m.score(half.Features, 2, make([]float64, 2))
			must.Near(t, double, got, 1e-12, k, "rescaled")
		}
	}
}

func TestReadModelRefuses(t *testing.T) {
	m, _, _ := testModel(t, RBF{1.5})
	each := must.Get(m.EachBlock())(t)
	blocks := slices.Collect(each)
	for i := range blocks {
		must.Fails(t, must.Err(ReadModel(slices.Delete(slices.Clone(blocks), i, i+1))), "read without the block", blocks[i].Name)
		for _, n := range []int{1, 4, 8} {
			cut := slices.Clone(blocks)
			cut[i].Data = cut[i].Data[:len(cut[i].Data)-n]
			must.Fails(t, must.Err(ReadModel(cut)), "read with the last", n, "bytes of", blocks[i].Name, "cut off")
		}
	}
	nan := slices.Clone(blocks)
	last := &nan[len(nan)-1]
	last.Data = slices.Repeat([]byte{0xff}, len(last.Data))
	must.Fails(t, must.Err(ReadModel(nan)), "read coefficients that are not numbers")
	nan = slices.Clone(blocks)
	nan[3].Data = slices.Repeat([]byte{0xff}, len(nan[3].Data))
	must.Fails(t, must.Err(ReadModel(nan)), "read columns out of range")
	for i, name := range []string{1: "columns", 2: "ends", 3: "index"} {
		if name == "" {
			continue
		}
		turned := slices.Clone(blocks) // swap the first two numbers
		turned[i].Data = slices.Concat(turned[i].Data[4:8], turned[i].Data[:4], turned[i].Data[8:])
		must.Fails(t, must.Err(ReadModel(turned)), "read support/", name, "out of order")
	}
}

// TestModelStandardizes checks that a model file keeps the statistics of the Scaler.
func TestModelStandardizes(t *testing.T) {
	m, _, _ := testModel(t, RBF{1.5})
	m.Scaler.Mode = model.StandardizeAll
	m.Layout = model.Layout{Width: model.ScalerWidth}
	m.Rows = model.NewTable(model.ScalerWidth)
	for c := range uint32(6) {
		copy(m.Rows.Touch(c), []float64{10, 0, 1, 3, 0.25}) // mean 3, scale 4
	}
	each := must.Get(m.EachBlock())(t)
	blocks := slices.Collect(each)
	again := must.Get(ReadModel(blocks))(t)
	e := event.Example{Features: event.Vec{Index: []uint32{0, 2}, Value: []float64{7, 1}}}
	want := m.ScoreVec(event.Vec{Index: []uint32{0, 2}, Value: []float64{1, -0.5}}, make([]float64, 2))
	for _, k := range []*Model{m, again} {
		must.EqualSlices(t, k.Score(&e, make([]float64, 2)), want, "scores")
	}
}
