package online

// This file keeps what the levels and the experts say of an event that will wait for its label: what
// they have lost at it is told by that, and not by what they have learned meanwhile.

import (
	"math"
	"slices"

	"blankout"
	"blankout/measure"
	"blankout/model"
	"blankout/online/rows"
)

// scoresEnd stands behind the scores that an event was given; none is so large.
const scoresEnd = math.MaxFloat64

// arrival is what is known of an event that came before its label.
type arrival struct {
	features blankout.Vec
	rows     [][]float64
	noBasis  []float64
	lag, q   []float64
	own      []float64 // see Arrive: of the event at hand; empty where it was not told
}

// Arrive appends to out what LearnLater takes of an event whose label will come later: the scores that
// Score gives it, scoresEnd, how many events have been learned, and the scores of each level and of each expert
// beside them, by output. It learns nothing.
func (l *Learner) Arrive(e *blankout.Example, out []float64) []float64 {
	at := len(out)
	out = slices.Grow(out, l.k)[:at+l.k]
	m := model.Linear{Head: l.head(l.schema), Rows: l.table}
	m.Score(e, out[at:])
	if l.shared() || len(l.levels) == 1 && !l.second.knows() {
		return out
	}
	a := &l.arrived
	a.features = m.Standardised(e, blankout.Vec{Index: a.features.Index[:0], Value: a.features.Value[:0]})
	out = l.saidByLevels(append(out, scoresEnd, float64(l.events)))
	if l.second.knows() {
		l.mixOf(l.shares.InForce[0].Levels, out[len(out)-l.n:], l.second.base)
		l.second.expert.Score(a.features.Index, a.features.Value, l.second.base, l.second.scores)
		out = l.second.expert.Said(out)
	}
	return out
}

// saidByLevels appends what each level would publish of the features at hand, by level and output.
func (l *Learner) saidByLevels(out []float64) []float64 {
	a, at := &l.arrived, len(out)
	a.rows, a.noBasis, a.lag, a.q = a.rows[:0], a.noBasis[:0], zeros(a.lag, l.n), zeros(a.q, l.n)
	x := a.features.Value[:0:0]
	for i, column := range a.features.Index {
		if row := l.table.Row(column); row != nil {
			a.rows, a.noBasis, x = append(a.rows, row), append(a.noBasis, 0), append(x, a.features.Value[i])
		}
	}
	if l.set.intercept {
		a.rows, a.noBasis, x = append(a.rows, l.bias), append(a.noBasis, 0), append(x, 1)
	}
	out = append(out, make([]float64, l.n)...)
	f := out[at:]
	rows.Sum(a.rows, rows.FirstPart, l.n, x, a.noBasis, f, a.lag, a.q)
	for j := range f {
		f[j] += l.levels[j/l.k].LagShare() * a.lag[j]
	}
	return out
}

// LearnLater learns an event whose label has come later than the event. Told is what Arrive has appended
// when the event came, or its scores alone: those are what the progressive measures count, and what
// moves the shares. What the weights say now is added to fresh; where labels are numbers its Wrong
// takes the absolute error.
func (l *Learner) LearnLater(e *blankout.Example, told []float64, fresh *measure.Classes) []float64 {
	scores := told
	if i := slices.Index(told, scoresEnd); i >= 0 {
		// Where nothing has been learned since, what is said now is the same, to the last digit.
		if scores = told[:i]; len(told) > i+1 && told[i+1] != float64(l.events) {
			l.arrived.own = told[i+2:]
		}
	}
	now := l.learn(e, scores, fresh)
	l.arrived.own = nil
	l.settle()
	l.freeze()
	return now
}

// said returns what the levels say of the event at hand, or have said when it came, and the experts, nil
// where they say it now. An event from before there were as many classes counts as one that came now.
func (l *answering) said() (levels, experts []float64) {
	own := l.arrived.own
	if len(own) == l.n || l.second.knows() && len(own) == l.n+l.second.expert.Count()*l.k {
		return own[:l.n], own[l.n:]
	}
	return l.now.published, nil
}
