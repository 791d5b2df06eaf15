package levels

// This file has the noise level with silent noise (loss.Silent), which is the last level. Only its gradient differs
// from the gradients of other levels. Its weights are in the same rows, and scales, averages and rates are handled in
// the same way.

import (
	"blankout/internal/loss"
	"blankout/online/encode"
	"blankout/online/rows"
	"blankout/online/silent"
)

// silentLevel is the noise level with silent noise.
type silentLevel struct {
	event silent.Event
	rows  rows.Event
}

// Silent returns the silent noise. some reports whether a level has silent noise.
func (e *Expert) Silent() (n loss.Silent, some bool) {
	if e.silent == nil {
		return n, false
	}
	return e.silent.event.Noise, true
}

// others returns the number of levels whose noise is not silent. isSilent reports whether the given level has silent
// noise.
func (e *Expert) others() int {
	if e.silent != nil {
		return len(e.levels) - 1
	}
	return len(e.levels)
}

func (e *Expert) isSilent(level int) bool { return level == e.others() }

// takeSilent prepares the silent level for an event with these rows.
func (e *Expert) takeSilent(in *encode.Input, of [][]float64) {
	s := e.silent
	if s.rows = (rows.Event{Rows: of, Intercepts: true, X: in.X}); !e.Intercept {
		s.rows.Rows, s.rows.Intercepts = of[:in.Features()], false
	}
	var units []int32
	if s.event.Noise.Groups {
		units = in.Units
	}
	s.event.Take(&s.rows, in.Dead, units)
}

// deriveSilent computes the derivatives of the expected losses of the silent level.
func (e *Expert) deriveSilent(target []float64, weight float64) {
	s, at := &e.step, e.silent.event.First
	copy(s.Y[at:], target[:e.Outputs])
	s.slopes[len(e.levels)-1] = e.silent.event.Begin(s.Y[at:][:e.active], weight, s.value[at:])
}

// stepSilent makes the step of the silent level, after deriveSilent.
func (e *Expert) stepSilent(weight float64) {
	s, at := &e.step, e.silent.event.First
	e.silent.rows.Ridge = e.ridges(e.silent.rows.Rows)
	e.silent.event.Step(s.Y[at:][:e.active], silent.Settings{
		Eta: -s.MinusEta[at], Start: e.Start, InverseDecay: e.inverseDecay, Inverse: s.Inverse[at], Importance: weight, Proximal: e.Adapts && e.Outputs == 1 || s.NoOvershoot,
	})
}
