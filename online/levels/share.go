package levels

// This file has an Expert learn for several, and takes up what others have learned (package share).

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/schedule"
	"blankout/online/share"
)

// Share has the Expert make steps that count for others, too, as an interval says; nil ends that. Averages and iterates are
// then compared, and others choose.
func (e *Expert) Share(in *share.Interval) { e.shared = in }

// Growth returns by what is multiplied what is added to sums over events.
func (e *Expert) Growth() float64 { return e.growth }

// ShareSettings are what an interval needs to know.
func (e *Expert) ShareSettings(halfLife float64) share.Settings {
	return share.Settings{Layout: e.layout, Eta: e.Rate, Start: e.Start, HalfLife: halfLife}
}

// weigh says how often the rows of the step count.
func (e *Expert) weigh(in *encode.Input, own *Scores) {
	s := &e.step
	if e.shared.Weigh(&s.Step); own.together == nil {
		return
	}
	roots := s.Roots // in the order of the columns
	e.step.roots = append(e.step.roots[:0], roots...)
	for i := range in.Features() {
		e.step.roots[own.together.groups.Row(i)] = roots[i]
	}
	s.Roots = e.step.roots
}

// Sums are what an Expert has counted that is merged by addition.
type Sums struct {
	Steps  uint64
	Active int
	levels []schedule.Pace
}

// Sums returns a copy of the Expert's.
func (e *Expert) Sums() Sums {
	s := Sums{Steps: e.steps, Active: e.active}
	for v := range e.levels {
		s.levels = append(s.levels, e.levels[v].Pace)
	}
	return s
}

// State codes the Sums.
func (s *Sums) State(c *coder.Coder) {
	c.Uint(&s.Steps)
	c.Int(&s.Active)
	for v := range s.levels {
		s.levels[v].SumsState(c)
	}
}

// AddChanges adds a row's u and ΔG, u multiplied by ratio. The average stays what it was: what changes the weight changes the
// lag.
func (e *Expert) AddChanges(row, changes []float64, ratio float64) {
	w, m, lag := e.layout.Weights(row), e.layout.Preconditioner(row), e.layout.Lags(row)
	for j := range w {
		u := changes[j] * ratio
		w[j] += u
		lag[j] = math.FMA(-u, e.levels[j/e.Outputs].Inverse, lag[j])
		m[j] += changes[e.layout.N+j] * e.growth
	}
}

// AddShift has the intercepts take up by how much the center of a column differs where these changes of its weights come from.
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

// Merge takes up what an interval has adapted and counted between base and now, of so many comparisons, and which of average
// and iterate is published.
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
