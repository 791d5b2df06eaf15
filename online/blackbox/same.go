package blackbox

// This file compares learners.

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// state returns all blocks of a learner.
func state(t *testing.T, l Learner) []event.Block {
	t.Helper()
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for i := range blocks {
		blocks[i].Data = bytes.Clone(blocks[i].Data)
	}
	return blocks
}

// sameState fails the test unless two learners are equal to the bit.
func sameState(t *testing.T, what string, a, b []event.Block) {
	t.Helper()
	names := func(blocks []event.Block) (out []string) {
		for _, x := range blocks {
			out = append(out, x.Name)
		}
		return out
	}
	if x, y := names(a), names(b); !slices.Equal(x, y) {
		t.Fatalf("%s: blocks %v and %v", what, x, y)
	}
	for i := range a {
		if x, y := a[i].Data, b[i].Data; !bytes.Equal(x, y) {
			at := 0
			for at < min(len(x), len(y)) && x[at] == y[at] {
				at++
			}
			t.Fatalf("%s: block %q differs from byte %d of %d on", what, a[i].Name, at, len(x))
		}
	}
}

// near says whether scores are equal but for a relative difference.
func near(a, b []float64, tolerance float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= tolerance*(1+math.Abs(y)) })
}

// same says whether scores are equal to the bit.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// score returns what a model scores.
func score(m *model.Linear, e *event.Example) []float64 {
	return slices.Clone(m.Score(e, make([]float64, m.Outputs)))
}

// predict returns a copy of what a learner predicts.
func predict(l Learner, e *event.Example) []float64 { return slices.Clone(l.Predict(e)) }

// wrong says whether scores predict another class than the label of e.
func wrong(l Learner, scores []float64, e *event.Example) bool {
	return l.Decision().Predict(scores) != e.Label
}
