package online

// This file keeps what the levels and the experts say of an event before it is learned: of one that waits for
// its label, or at an earlier state (see horizon). What they have lost at it is told by that, and not by what
// they have learned meanwhile.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/rows"
)

// scoresEnd stands behind the scores that an event was given; none is so large.
const scoresEnd = math.MaxFloat64

// arrival is what was said of an event before the moment at which it is learned.
type arrival struct {
	own     []float64 // see say: of the event at hand; nil where what is said now counts
	scores  int       // of the event at that moment
	experts []float64 // the part of own that is the experts'
	// after is how many events had been learned when an event that comes with its label later was
	// answered, -1 where it is answered now.
	after float64

	// Room.
	features         event.Vec
	rows             [][]float64
	x, noBasis       []float64
	iterate, lag, q  []float64
	published        []float64
	buffer, standard []float64 // for own, and for it in the Learner's unit
}

// Arrive appends to out what LearnLater takes of an event whose label will come later: the scores that
// Score gives it, scoresEnd, and what say appends. It learns nothing.
func (l *Learner) Arrive(e *event.Example, out []float64) []float64 {
	at := len(out)
	out = slices.Grow(out, l.Outputs())[:at+l.Outputs()]
	l.Score(e, out[at:])
	if l.shared() || len(l.levels) == 1 && !l.second.knows() {
		if l.set.numbers {
			out = append(out, scoresEnd, float64(l.events))
		}
		return out
	}
	return l.teller().say(e, append(out, scoresEnd))
}

// say appends how many events have been learned, and what iterates, averages and experts say of an event: by
// level and output, and by expert and output. Numbers are in the unit of the labels.
func (l *Learner) say(e *event.Example, out []float64) []float64 {
	m := model.Linear{Head: model.Head{Scaler: l.scaling.Scaler, Layout: model.Layout{Width: l.table.Width()}}, Rows: l.table}
	a := &l.arrived
	e = l.declare(e)
	a.features = m.Standardized(e, event.Vec{Index: a.features.Index[:0], Value: a.features.Value[:0]})
	out = append(out, float64(l.events))
	at := len(out)
	out = l.sayLevels(out)
	if l.second.knows() {
		l.mixOf(l.shares.InForce[0].Levels, l.averaged(out[at:]), l.second.base)
		l.second.expert.Score(a.features.Index, a.features.Value, l.second.base, l.second.scores)
		out = l.second.expert.Said(out)
	}
	if l.set.numbers {
		for i, f := range out[at:] {
			out[at+i] = l.unit.Score(f)
		}
	}
	return out
}

// sayLevels appends the scores that iterates and averages give the features at hand.
func (l *Learner) sayLevels(out []float64) []float64 {
	a := &l.arrived
	a.rows, a.noBasis, a.x = a.rows[:0], a.noBasis[:0], a.x[:0]
	a.iterate, a.lag, a.q = zeros(a.iterate, l.n), zeros(a.lag, l.n), zeros(a.q, l.n)
	for i, column := range a.features.Index {
		if row := l.table.Row(column); row != nil {
			a.rows, a.noBasis, a.x = append(a.rows, row), append(a.noBasis, 0), append(a.x, a.features.Value[i])
		}
	}
	if l.set.intercept {
		a.rows, a.noBasis, a.x = append(a.rows, l.bias), append(a.noBasis, 0), append(a.x, 1)
	}
	rows.Sum(a.rows, rows.FirstPart, l.n, a.x, a.noBasis, a.iterate, a.lag, a.q)
	out = append(out, a.iterate...)
	for j, f := range a.iterate {
		out = append(out, f+l.levels[j/l.k].Coefficient*a.lag[j])
	}
	return out
}

// averaged returns what the levels publish where their iterates and averages say this, borrowed.
func (l *answering) averaged(said []float64) []float64 {
	out := l.arrived.published[:0]
	for j, f := range said[:l.n] {
		out = append(out, f+l.levels[j/l.k].AverageShare()*(said[l.n+j]-f))
	}
	l.arrived.published = out
	return out
}

// LearnLater learns an event whose label has come later than the event. Told is what Arrive has appended
// when the event came, or its scores alone: those are what the progressive measures count, and what
// moves the shares and decides between averages and iterates. What the weights say now is added to fresh; where
// labels are numbers its Wrong takes the absolute error.
func (l *Learner) LearnLater(e *event.Example, told []float64, fresh *measure.Classes) []float64 {
	scores := told
	l.arrived.after = -1
	if i := slices.Index(told, scoresEnd); i >= 0 {
		// Where nothing has been learned since, what is said now is the same, to the last digit.
		if scores = told[:i]; len(told) > i+1 {
			l.arrived.after = told[i+1]
		}
		if len(told) > i+1 && told[i+1] != float64(l.events) {
			l.arrived.own, l.arrived.scores = told[i+2:], i
		}
	}
	return l.learnAs(e, scores, fresh)
}

// answeredAfter returns how many events had been met when the event at hand was answered.
func (l *answering) answeredAfter() uint64 {
	if after := l.arrived.after; after >= 0 {
		return uint64(after)
	}
	return l.events - 1
}

// heed has what was said of the event at hand count, if it was of the outputs that there are: an
// event from before there were as many classes counts as one that came now.
func (l *answering) heed() {
	a, n := &l.arrived, 2*l.n
	l.now.told, a.experts = nil, nil
	if a.scores != l.young.Scores(l.k) || len(a.own) != n && !(l.second.knows() && len(a.own) == n+l.second.expert.Count()*l.k) {
		return
	}
	if l.set.numbers {
		a.standard = a.standard[:0]
		for _, f := range a.own {
			a.standard = append(a.standard, l.unit.Own(f))
		}
		a.own = a.standard
	}
	l.now.told, a.experts = a.own[:n], a.own[n:]
}

// said returns what the levels say of the event at hand, or have said of it earlier, and the experts, nil
// where they say it now.
func (l *answering) said() (levels, experts []float64) {
	if l.now.told == nil {
		return l.now.published, nil
	}
	return l.averaged(l.now.told), l.arrived.experts
}
