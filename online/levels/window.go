package levels

// This file solves windows of the latest events exactly, beside or instead of the steps of the rule (package refresh).

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/refresh"
)

// parts returns how many parts of a row, from the weights on, have a value by level and output.
func (c *Settings) parts() int { return c.Rule.Parts + (&refresh.Refresh{Settings: c.Window}).Parts() }

// Windows says whether windows of events are solved.
func (c *Settings) Windows() bool { return c.Window.Size > 0 }

// odd says whether a part of a row changes its sign with the weights; sums of squares do not.
func (e *Expert) odd(part int) bool { return part != 1 && !(e.Windows() && part == e.layout.Refresh) }

// setIntercept makes b an intercept, and center where a window begins it.
func (e *Expert) setIntercept(intercepts []float64, j int, b, center float64) {
	e.rule.Set(intercepts, j, b)
	e.window.CenterOf(intercepts)[j] = center
}

// Learned takes an event that has been learned with a weight into the window, and solves the window when it is time. The model
// standardizes events as they are learned, output returns that which learns a class, and dead what a column reads when its
// feature is dead, standardized.
func (e *Expert) Learned(x *event.Example, weight float64, m *model.Linear, intercepts []float64, output func(class int) int, dead func(column uint32) float64) {
	if !e.Windows() || !e.window.Add(x, weight) {
		return
	}
	w := refresh.Weights{Table: m.Rows, Bias: intercepts, Active: e.active, Growth: e.growth, Output: output, Dead: dead, Model: m}
	for v := range e.levels {
		w.Levels = append(w.Levels, refresh.Level{Noise: e.Noises[v], Inverse: e.levels[v].Inverse})
	}
	e.window.Solve(w)
}

// Failures returns how many windows had no solution and changed nothing.
func (e *Expert) Failures() uint64 { return e.window.Failures }

// gather adds the curvature of an event that is remeasured to what is known of those before the window.
func (e *Expert) gather(in *encode.Input, own *Scores, target []float64, weight float64) {
	if !e.Windows() {
		return
	}
	s, others := &e.step, e.others()*e.Outputs
	e.derive(own, target, weight)
	e.place(in, own, in.Rows)
	for j := range s.H {
		if s.H[j] = 0; j < others && j%e.Outputs < e.active {
			_, _, dv := e.Loss.At(s.Y[j], s.F[j], max(s.Variance[j], refresh.LeastVariance))
			s.H[j] = 2 * weight * dv
		}
	}
	if e.silent != nil {
		e.takeSilent(in, in.Rows)
		h := s.H[others:][:e.active]
		for k := range h {
			h[k] = (1 + target[k]) / 2
		}
		e.silent.event.Curvatures(h, h)
		for k := range h {
			h[k] *= weight
		}
	}
	s.Growth = e.growth
	e.layout.Gather(&s.Step)
}
