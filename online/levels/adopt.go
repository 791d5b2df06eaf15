package levels

// This file takes over weights that were found otherwise.

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/schedule"
)

// Adopt makes the given weights, by column (row nil is that of the intercepts), level and output, the iterates and the
// averages; those that are not known stay. Nothing is left of what was adapted to other weights, nor of what steps are
// divided by: that has to be found anew by Remeasure, and then by Fit.
//
// In the average the weights count as an iterate for each step so far: of these the average over the stream reaches back
// over a share 1/(1+p) (package schedule), and so it goes on as if it had seen 1+p times as many.
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
		e.rule.Start(row)
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
	e.growth = 1
	e.window.Clear()
}

// Remeasure adds an event to what steps are divided by, as if it had been learned, and moves no weight. Target is y of each
// output.
func (e *Expert) Remeasure(in *encode.Input, own *Scores, target []float64, weight float64) {
	s := &e.step
	e.Score(in, own)
	e.gather(in, own, target, weight)
	parts := min(math.Ceil(weight), schedule.MostImportance) // as an event is learned
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
		s.Importance, s.Count, s.Growth, s.Young = weight/parts, e.steps, e.growth, false
		e.place(in, own, in.Rows)
		if e.rule.Step(&s.Step); e.silent != nil {
			e.stepSilent(weight / parts)
		}
	}
}

// Fit makes what a rule keeps beside its weights fit them.
func (e *Expert) Fit(t *model.Table, intercepts []float64) {
	e.each(t, intercepts, func(row []float64, intercept bool) { e.rule.Forget(row, intercept, 1) })
}
