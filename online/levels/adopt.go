package levels

// This file replaces the weights by those of another solver.

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/schedule"
)

// Adopt sets the iterates and averages to the given weights, by column, noise level and output; intercept is true for
// the intercepts. A weight stays unchanged if the function weight reports that it is not known. All adaptation to the
// old weights and the accumulators are discarded. The caller must recompute the accumulators, with Remeasure for each
// event and then Fit.
//
// An average is over the last fraction 1/(1+p) of the steps (package schedule). The adopted weights count as the
// iterate of every earlier step. So the average continues as if it had covered 1+p times as many steps.
func (e *Expert) Adopt(t *model.Table, intercepts []float64, weight func(column uint32, intercept bool, level, output int) (w float64, known bool)) {
	place := func(row []float64, column uint32, intercept bool) {
		w := e.layout.Weights(row)
		was := slices.Clone(w)
		for part := range e.parts() {
			clear(e.layout.Part(row, part))
		}
		for j := range w {
			known := false
			if w[j], known = weight(column, intercept, j/e.Outputs, j%e.Outputs); !known {
				w[j] = was[j]
			}
		}
		e.optimizer.Start(row)
		copy(e.window.CenterOf(row), w)
	}
	for v := range e.levels {
		e.levels[v].Adopt(e.steps)
		clear(e.levels[v].squares)
	}
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		row := t.Touch(column)
		place(row, column, false)
		for j, w := range e.layout.Weights(row) {
			e.levels[j/e.Outputs].squares[j%e.Outputs] += w * w
		}
	}
	if e.Intercept {
		place(intercepts, 0, true)
	}
	e.inverseDecay = 1
	e.window.Clear()
}

// Remeasure adds an event to the accumulators as if it had been learned, but changes no weight. target holds y by
// output.
func (e *Expert) Remeasure(in *encode.Input, own *Scores, target []float64, weight float64) {
	s := &e.step
	e.Score(in, own)
	e.gather(in, own, target, weight)
	parts := min(math.Ceil(weight), schedule.MostImportance) // like Update
	for range int(parts) {
		if e.silent != nil {
			e.takeSilent(in, in.Rows)
		}
		e.derive(own, target, weight/parts)
		if e.silent != nil {
			e.deriveSilent(target, weight/parts)
		}
		clear(s.MinusEta)
		for j := range s.Inverse {
			s.Inverse[j] = e.levels[j/e.Outputs].Inverse
		}
		s.Importance, s.Count, s.InverseDecay, s.NoOvershoot = weight/parts, e.steps, e.inverseDecay, false
		e.place(in, own, in.Rows)
		if e.optimizer.Step(&s.Step); e.silent != nil {
			e.stepSilent(weight / parts)
		}
	}
}

// Fit adapts the remaining state of the optimizer to the new weights.
func (e *Expert) Fit(t *model.Table, intercepts []float64) {
	e.each(t, intercepts, func(row []float64, intercept bool) { e.optimizer.Forget(row, intercept, 1) })
}
