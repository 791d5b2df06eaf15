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
	answers  bool         // it is answered by what follows
	answer   []float64    // its scores
	features blankout.Vec // of it, standardised
}

// fillsIn says whether the covariance is gathered. Several learners of one model gather
// none.
func (l *answering) fillsIn() bool { return l.set.fills && l.share == nil }

// fillAnswer finds the scores that filling in gives the event at hand, if the model
// answers it so. It comes before anything of the event is learned.
func (l *answering) fillAnswer(e *blankout.Example) {
	if l.filling.Covariance == nil || l.fields.Missing.Rules[l.fields.Range-1][2] == 0 {
		return
	}
	m := l.modelOf(l.mixed(l.fields.Range))
	a := m.Answer(e)
	if a.Parts == nil {
		return
	}
	l.filling.answers = true
	f := &l.filling
	f.features = m.Standardised(e, blankout.Vec{Index: f.features.Index[:0], Value: f.features.Value[:0]})
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	m.ClassScores(m.AnswerOutputs(f.features, a, f.answer))
}

// blockFill is the block of the state that this file keeps.
const blockFill = "gathered"
