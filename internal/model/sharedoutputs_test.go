package model

import (
	"math"
	"testing"

	"blankout/internal/event"
)

// sharing returns a model of four scores: the second and third have one output, and the last has none.
func sharing() *Linear {
	m := NewLinear(event.NewSchema(4, []string{"a", "b", "c", "d"}, 4), "logistic", "none", [][]float64{{1, 2}, {3, -4}}, []float64{0, 0})
	m.Outputs, m.Intercept, m.Layout.Outputs = 4, []float64{0.5, -1, -2, -30}, []int{0, 1, 1, -1}
	return m
}

// Scores whose classes share an output have its weights, and intercepts of their own.
func TestSharedOutputs(t *testing.T) {
	m := sharing()
	level := Level{Noise: "none", Intercept: []float64{1, 1, 2, -30}, Layout: Layout{Width: 2, Stats: -1, Outputs: []int{1, 0, 0, -1}}}
	m.Levels = []Level{level}
	m.Missing = NewMissing(EveryRange(MissingNone), nil, nil, nil).WithLevels([]int{0, 0, 1, 1, 1, 1})
	data, err := m.EachBlock()
	if err != nil {
		t.Fatal(err)
	}
	var blocks []event.Block
	for b := range data {
		blocks = append(blocks, b)
	}
	read, err := ReadLinear(blocks)
	if err != nil {
		t.Fatal(err)
	}
	e := &event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{1, 2}}}
	for name, m := range map[string]*Linear{"made": m, "read": read, "apart": m.Apart()} {
		for level, want := range [][]float64{{5.5, -6, -7, -30}, {-4, 6, 7, -30}} {
			for k, f := range m.At(Answer{Level: level}).ScoreVec(e.Features, make([]float64, 4)) {
				if math.Abs(f-want[k]) > 1e-12 {
					t.Errorf("%s, level %d: score %d is %v, want %v", name, level, k, f, want[k])
				}
			}
		}
		if m.Weight(1, 2) != -4 || m.Weight(1, 3) != 0 {
			t.Errorf("%s: weights %v and %v", name, m.Weight(1, 2), m.Weight(1, 3))
		}
	}
	if out := m.Apart(); out.Layout.Outputs != nil || out.Layout.Width != 8 || out.Apart() != out {
		t.Errorf("apart: %+v", out.Layout)
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
