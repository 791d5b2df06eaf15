package levels

// This file lets an Expert learn in a group of learners, and merges what other members of the group have learned
// (package deltas).

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/deltas"
	"blankout/online/encode"
	"blankout/online/schedule"
)

// Join makes the Expert learn for the group during an interval. If in is nil, the Expert no longer learns for a group.
// During an interval averages and iterates are compared, but the choice between them is made when the intervals of the
// group are merged.
func (e *Expert) Join(in *deltas.Interval) { e.interval = in }

// InverseDecay returns the factor by which new terms of the accumulators are multiplied.
func (e *Expert) InverseDecay() float64 { return e.inverseDecay }

// IntervalSettings returns the Expert's settings that an interval needs.
func (e *Expert) IntervalSettings(halfLife float64) deltas.Settings {
	return deltas.Settings{Layout: e.layout, Eta: e.Rate, Start: e.Start, HalfLife: halfLife}
}

// weigh sets the importance of each row of the step, see deltas.Interval.
func (e *Expert) weigh(in *encode.Input, own *Scores) {
	s := &e.step
	if e.interval.Weigh(&s.Step); own.together == nil {
		return
	}
	roots := s.Roots // roots in the order of the columns
	e.step.roots = append(e.step.roots[:0], roots...)
	for i := range in.Features() {
		e.step.roots[own.together.groups.Row(i)] = roots[i]
	}
	s.Roots = e.step.roots
}

// Sums holds the counts of an Expert that are merged by addition.
type Sums struct {
	Steps  uint64
	Active int
	levels []schedule.Schedule
}

// Sums returns a copy of the Expert's counts.
func (e *Expert) Sums() Sums {
	s := Sums{Steps: e.steps, Active: e.active}
	for v := range e.levels {
		s.levels = append(s.levels, e.levels[v].Schedule)
	}
	return s
}

// State encodes or decodes the Sums.
func (s *Sums) State(c *coder.Coder) {
	c.Uint(&s.Steps)
	c.Int(&s.Active)
	for v := range s.levels {
		s.levels[v].SumsState(c)
	}
}

// AddChanges adds changes to a row: the changes of the weights, multiplied by ratio, and of the accumulators. The
// averages do not change, so the lags change with the weights.
func (e *Expert) AddChanges(row, changes []float64, ratio float64) {
	w, m, lag := e.layout.Weights(row), e.layout.Accumulators(row), e.layout.Lags(row)
	for j := range w {
		u := changes[j] * ratio
		w[j] += u
		lag[j] = math.FMA(-u, e.levels[j/e.Outputs].Inverse, lag[j])
		m[j] += changes[e.layout.N+j] * e.inverseDecay
	}
}

// AddShift adds shift times the weight changes of a column to the intercepts. This is needed if the column has another
// center here than for the author of the changes.
func (e *Expert) AddShift(intercepts, changes []float64, shift float64) {
	if shift == 0 || !e.Intercept {
		return
	}
	b, lag := e.layout.Weights(intercepts), e.layout.Lags(intercepts)
	for j := range b {
		u := changes[j] * shift
		b[j] += u
		lag[j] = math.FMA(-u, e.levels[j/e.Outputs].Inverse, lag[j])
	}
}

// Merge adds the changes of the counts and of the adaptation in an interval, from base to now. compared is the number
// of comparisons in the interval. Merge then chooses between averages and iterates.
func (e *Expert) Merge(base, now *Sums, compared uint64, t *model.Table, intercepts []float64) {
	steps := now.Steps - base.Steps
	e.steps += steps
	for v := range e.levels {
		lv := &e.levels[v]
		lv.Merge(&base.levels[v], &now.levels[v], steps, compared)
		for range steps {
			if lv.Advance() {
				e.rebase(v, t, intercepts)
			}
		}
	}
}
