package batch

// This file keeps which fields events lack, and applies a model's rules for missing fields
// when weights are measured on them.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// interned holds a value for each row and stores equal values once. Few are distinct.
type interned[K comparable] struct {
	of    []uint32 // by row, its place in kinds
	kinds []K
	place map[K]uint32
}

func (l *interned[K]) add(k K) {
	at, ok := l.place[k]
	if !ok {
		if l.place == nil {
			l.place = map[K]uint32{}
		}
		at = uint32(len(l.kinds))
		l.kinds, l.place[k] = append(l.kinds, k), at
	}
	l.of = append(l.of, at)
}

// measured is the events on which weights are measured, answered by a model's rules for
// missing fields.
type measured struct {
	*Data
	lacks []model.Lack // by row
	parts []string     // by row, model.Parts of those that are filled in; else ""
	level []int        // by row, see model.Answer
	rules *model.Missing
	// Missing numbers are filled in by the covariance; nil if the model has none. place says
	// where it has each compact column, -1 for one that it does not hold.
	covariance *model.Covariance
	place      []int
	target     loss.Target // what labels are
}

// cost returns the cost of an answer to event i: of classes 1 if it is wrong, else 0; of numbers
// the squared error.
func (m measured) cost(i int, scores []float64) float64 {
	if m.target != loss.Sign {
		off := m.Target(i) - model.ValueOf(m.target, scores[0])
		return off * off
	}
	if model.Predict(scores) != m.Label(i) {
		return 1
	}
	return 0
}

// error turns a sum of costs over a weight of events into the error in percent or, of numbers,
// the root of the mean squared error.
func (m measured) error(cost, weight float64) float64 {
	if m.target != loss.Sign {
		return math.Sqrt(max(cost/weight, 0))
	}
	return 100 * cost / weight
}

// measured returns the events of the given rows.
func (v *Evidence) measured(rows []int) measured {
	m := measured{Data: v.all().Subset(rows), rules: v.live.Missing, target: v.live.Target()}
	for _, row := range rows {
		m.lacks = append(m.lacks, v.lacks.kinds[v.lacks.of[row]])
		m.parts = append(m.parts, v.parts.kinds[v.parts.of[row]])
		m.level = append(m.level, v.levels[row])
	}
	if c := v.live.Covariance; c != nil {
		m.covariance = c
		for i := range m.Columns() {
			at, ok := slices.BinarySearch(c.Columns, m.Column(i))
			if !ok {
				at = -1
			}
			m.place = append(m.place, at)
		}
	}
	return m
}

// fills reports whether numbers of dead fields are filled in at some share.
func (m measured) fills() bool {
	return m.covariance != nil && m.rules != nil && slices.ContainsFunc(m.rules.Policies[:], func(s model.PolicyWeights) bool { return s[2] > 0 })
}

// answer returns how event i is answered.
func (m measured) answer(i int) model.Answer {
	var parts model.Parts
	if m.parts[i] != "" {
		parts = model.Parts(m.parts[i])
	}
	a := m.rules.Answer(m.lacks[i], parts)
	a.Level = m.level[i]
	return a
}

// scale returns the factor by which the features of event i are multiplied.
func (m measured) scale(i int) float64 { return m.answer(i).Scale }

// deleted returns by what the features of event i are multiplied that are left after a share of
// them has died, and what share of the score filling in the others then has.
func (m measured) deleted(i int, share float64) (scale, fill float64) {
	if share == 0 {
		return m.scale(i), 0
	}
	var some model.Parts
	k := m.lacks[i].Deleted(share)
	if m.covariance != nil && m.rules.Fills(k) > 0 {
		some = model.Parts{} // which ones the caller knows
	}
	a := m.rules.Answer(k, some)
	return a.Scale, a.Shares[2]
}
