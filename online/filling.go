package online

// This file fills in numbers that an event lacks.

import (
	"slices"

	"blankout"
	"blankout/model"
	"blankout/online/fill"
)

// filling is how the Learner fills in.
type filling struct {
	fill.Gatherer
	gathers  bool // the event at hand is gathered
	grouping *model.Grouping
	answer   []float64    // scores of the event at hand
	features blankout.Vec // of it, standardised
}

// fillsIn says whether the covariance is gathered. Several learners of one model gather
// none.
func (l *answering) fillsIn() bool { return l.set.fills && l.share == nil }

// fillAnswer finds the scores that filling in gives the event at hand, if the model
// answers it so. It comes before anything of the event is learned.
func (l *answering) fillAnswer(e *blankout.Example) {
	now := &l.missing.event
	if l.filling.Covariance == nil || l.missing.model.Rules[now.within-1][2] == 0 {
		return
	}
	m := l.modelOf(l.mixed(now.within))
	a := m.Answer(e)
	if a.Parts == nil {
		return
	}
	now.filled = true
	f := &l.filling
	f.features = m.Standardised(e, blankout.Vec{Index: f.features.Index[:0], Value: f.features.Value[:0]})
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	m.ClassScores(m.AnswerOutputs(f.features, a, f.answer))
}

// blockFill is the block of the state that this file keeps.
const blockFill = "gathered"
