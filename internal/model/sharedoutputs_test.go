package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// sharing returns a model of four scores: the second and third share an output, and the last has none.
func sharing() *Linear {
	m := NewLinear(event.NewSchema(4, []string{"a", "b", "c", "d"}, 4), "logistic", "none", [][]float64{{1, 2}, {3, -4}}, []float64{0, 0})
	m.Outputs, m.Intercept, m.Layout.Outputs = 4, []float64{0.5, -1, -2, -30}, []int{0, 1, 1, -1}
	return m
}

// TestSharedOutputs checks that classes that share an output share its weights, but have separate intercepts.
func TestSharedOutputs(t *testing.T) {
	m := sharing()
	level := Level{Noise: "none", Intercept: []float64{1, 1, 2, -30}, Layout: Layout{Width: 2, Stats: -1, Outputs: []int{1, 0, 0, -1}}}
	m.Levels = []Level{level}
	m.Missing = NewMissing(EveryRange(MissingNone), nil, nil, nil).WithLevels([]int{0, 0, 1, 1, 1, 1})
	data := must.Get(m.EachBlock())(t)
	var blocks []event.Block
	for b := range data {
		blocks = append(blocks, b)
	}
	read := must.Get(ReadLinear(blocks))(t)
	e := &event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{1, 2}}}
	for name, m := range map[string]*Linear{"made": m, "read": read, "apart": m.WithSeparateOutputs(), "compact": m.Compact()} {
		for level, want := range [][]float64{{5.5, -6, -7, -30}, {-4, 6, 7, -30}} {
			for k, f := range m.At(MissingHandling{Level: level}).ScoreVec(e.Features, make([]float64, 4)) {
				if math.Abs(f-want[k]) > 1e-12 {
					t.Errorf("%s, level %d: score %d is %v, want %v", name, level, k, f, want[k])
				}
			}
		}
		if m.Weight(1, 2) != -4 || m.Weight(1, 3) != 0 {
			t.Errorf("%s: weights %v and %v", name, m.Weight(1, 2), m.Weight(1, 3))
		}
	}
	if out := m.WithSeparateOutputs(); out.Layout.Outputs != nil || out.Layout.Width != 8 || out.WithSeparateOutputs() != out {
		t.Errorf("apart: %+v", out.Layout)
	}
}

// TestCompact checks that a compact model returns the same bits as the model with a learner's rows. The rows of the
// compact model must contain only weights and statistics.
func TestCompact(t *testing.T) {
	const k, width = 2, ScalerWidth + 10
	part := func(fraction float64, weight, lag int, average float64) Part {
		return Part{Factor: fraction, Weight: ScalerWidth + weight, Lag: ScalerWidth + lag, Average: average}
	}
	mixed := Layout{Width: width, Scale: 3, Mix: []Part{part(0.3, 0, 4, 0.7), part(0.6, 2, 6, 0), {Factor: 0.1, Weight: ScalerWidth + 8}}}
	alone := Layout{Width: width, Scale: 3, Weight: ScalerWidth + 2, Lag: ScalerWidth + 6, Average: 0.25}
	for _, stats := range []int{0, -1} {
		mixed.Stats, alone.Stats = stats, stats
		m := &Linear{Head: Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Outputs: k, Intercept: []float64{1, -2}, Layout: mixed}, Rows: NewTable(width)}
		m.Levels = []Level{{Noise: "none", Intercept: []float64{3, 4}, Layout: alone}}
		r := rand.New(rand.NewPCG(1, 2))
		var x event.Vec
		for column := range uint32(7) {
			row := m.Rows.Touch(column)
			for i := range row {
				row[i] = r.NormFloat64()
			}
			x.Index, x.Value = append(x.Index, column), append(x.Value, r.NormFloat64())
		}
		c := m.Compact()
		if want := 2*k + (1+stats)*ScalerWidth; c.Layout.Width != want || c.Rows.Width() != want || c.Layout.Mix != nil {
			t.Errorf("layout %+v, want a width of %d", c.Layout, want)
		}
		for level := range 2 {
			got := c.At(MissingHandling{Level: level}).ScoreVec(x, make([]float64, k))
			if want := m.At(MissingHandling{Level: level}).ScoreVec(x, make([]float64, k)); !slices.Equal(got, want) {
				t.Errorf("level %d scores %v, want %v", level, got, want)
			}
		}
		if stats == 0 && !slices.Equal(c.Rows.Row(3)[:ScalerWidth], m.Rows.Row(3)[:ScalerWidth]) {
			t.Error("other statistics")
		}
		if m.Levels[0].Layout.Width != width {
			t.Error("the model itself has changed")
		}
	}
}

func TestSharedOutputsFit(t *testing.T) {
	for name, outputs := range map[string][]int{"beyond the row": {0, 1, 2, -1}, "too few": {0, 1, 1}, "negative": {0, 1, 1, -2}} {
		m := sharing()
		if m.Layout.Outputs = outputs; m.Layout.fits(4) {
			t.Errorf("%s: %v fits", name, outputs)
		}
	}
	if !sharing().Layout.fits(4) {
		t.Error("it does not fit")
	}
}
