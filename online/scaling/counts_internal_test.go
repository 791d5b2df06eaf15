package scaling

import (
	"bytes"
	"math"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
)

// TestCounts checks which numeric fields count, that a field's score of a reading stays the same when its treatment
// changes, and that the state comes back.
func TestCounts(t *testing.T) {
	const column = 10
	every := func(k int, values ...float64) func(i int) []float64 {
		return func(i int) []float64 {
			if i%k > 0 {
				return nil
			}
			return values[i/k%len(values) : i/k%len(values)+1]
		}
	}
	for _, c := range []struct {
		name   string
		draw   func(i int) []float64 // the reading of event i, if it has one
		counts bool
		turns  int
	}{
		{"flag", every(3, 1), true, 1}, {"count", every(3, 1, 1, 2, 1, 3), true, 1}, {"in half of the events", every(2, 1), true, 1},
		{"rating", every(3, 3, 4, 2, 5, 1), false, 0}, {"fraction", every(3, 0.5, 1), false, 0}, {"negative", every(3, -1, 1), false, 0},
		{"always", every(1, 1, 0, 1, 2), false, 0},
		{"two of four", func(i int) []float64 { return []float64{1, 2}[:(i/2+1)%2] }, true, 1},
		{"count, then a fraction", func(i int) []float64 {
			if i < 40 {
				return every(3, 1, 2)(i)
			}
			return every(3, 0.5)(i)
		}, false, 2},
	} {
		s, stats := New(Settings{}, model.StandardizeAuto, false), make([]float64, model.ScalerWidth)
		s.AddField(event.Sparse, "")
		s.AddField(event.Numeric, "")
		turns, weight, intercept := 0, 0.7, 0.2
		score := func(x float64) float64 { return intercept + weight*s.Scaler.Deviations(stats, x) }
		for i := range 400 {
			e := &event.Example{Field: []uint16{}}
			for _, x := range c.draw(i) {
				eventtest.Put(e, column, x, 1)
			}
			due := s.WatchCounts(e)
			for _, x := range e.Features.Value {
				s.Observe(column, stats, x, s.Scaler.Deviations(stats, x), s.Treat(s.Kinds[1], false, false, true), 1)
			}
			if s.Events++; due {
				varied, before := stats[model.StatInverse] > 0, score(2)
				gone := s.TurnCounts(func(uint32) []float64 { return stats }, func(_ []float64, ratio, shift float64) {
					intercept += shift * weight
					weight *= ratio
				})
				if turns++; varied && math.Abs(score(2)-before) > 1e-12 || (len(gone) == 1) != (s.Kinds[1] == countKind) {
					t.Errorf("%s, event %d: the score of 2 was %v, is %v; gone %v", c.name, i, before, score(2), gone)
				}
			}
			if i == 30 || i == 300 { // a restart
				var a, b coder.Coder
				s.countsState(&a)
				again := New(Settings{}, model.StandardizeAuto, false)
				d := coder.Read(a.Out)
				again.countsState(d)
				again.AddField(event.Sparse, "")
				again.AddField(event.Numeric, "")
				if again.countsState(&b); !d.Done() || !bytes.Equal(a.Out, b.Out) || again.Kinds[1] != s.Kinds[1] {
					t.Errorf("%s: the state does not come back: kind %v for %v", c.name, again.Kinds[1], s.Kinds[1])
				}
				again.Events = s.Events
				s = again
			}
		}
		if counts := s.Kinds[1] == countKind; counts != c.counts || turns != c.turns || s.counts.open != 0 {
			t.Errorf("%s: counts %v, after %d turns, %d fields are open", c.name, counts, turns, s.counts.open)
		}
	}
}
