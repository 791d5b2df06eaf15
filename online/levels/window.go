package levels

// This file solves windows of the latest events by IRLS (iteratively reweighted least squares, package refresh). The
// windows supplement or replace the optimizer's steps.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/refresh"
)

// parts returns the number of values that a row has per noise level and output.
func (c *Settings) parts() int {
	return c.Optimizer.Parts + (&refresh.Refresh{Settings: c.Window}).Parts()
}

// Windows reports whether windows of events are solved by IRLS.
func (c *Settings) Windows() bool { return c.Window.Size > 0 }

// signed reports whether the values of a part change sign when the weights do. Accumulators keep their sign.
func (e *Expert) signed(part int) bool {
	return part != 1 && !(e.Windows() && part == e.layout.Refresh)
}

// setIntercept sets the intercept with index j, if there are intercepts, to b. center becomes its value at the start of the
// window.
func (e *Expert) setIntercept(intercepts []float64, j int, b, center float64) {
	if e.Intercept {
		e.optimizer.Set(intercepts, j, b)
		e.window.CenterOf(intercepts)[j] = center
	}
}

// Learned adds a learned event to the window. If the window is complete, Learned solves it. m standardizes events,
// output returns the output of a class, and dead returns the standardized value of a silently missing column.
func (e *Expert) Learned(x *event.Example, weight float64, m *model.Linear, intercepts []float64, output func(class int) int, dead func(column uint32) float64) {
	if !e.Windows() || !e.window.Add(x, weight) {
		return
	}
	w := refresh.Weights{Table: m.Rows, Bias: intercepts, Active: e.active, InverseDecay: e.inverseDecay, Output: output, Dead: dead, Model: m}
	for v := range e.levels {
		w.Levels = append(w.Levels, refresh.Level{Noise: e.Noises[v], Inverse: e.levels[v].Inverse})
	}
	e.window.Solve(w)
}

// Failures returns the number of windows that had no solution. Such windows change nothing.
func (e *Expert) Failures() uint64 { return e.window.Failures }
