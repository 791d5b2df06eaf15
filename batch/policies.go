package batch

// This file records which fields are missing in each event. It applies a model's missing policies when weights are
// measured on the events.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// interned has a value for each row. It stores equal values only once, because there are few distinct values.
type interned[K comparable] struct {
	of    []uint32 // index in kinds, by row
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

// measured has the events on which weights are measured. They are predicted with a model's missing policies.
type measured struct {
	*Data
	missing  []model.MissingCount // missing counts by row
	parts    []string             // by row: model.ColumnRoles if columns are imputed, else ""
	level    []int                // noise level that predicts the event, by row, see model.MissingHandling
	policies *model.Missing
	// The field covariance imputes missing numbers; nil if the model has no covariance. The field place has the index
	// in covariance of each compact column, -1 for columns that covariance does not have.
	covariance *model.Covariance
	place      []int
	target     loss.Target // kind of target
}

// cost returns the cost of a prediction for event i. For classification the cost is 1 if the prediction is wrong, else
// 0. For regression it is the squared error.
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

// error converts a sum of costs and a sum of weights to an error. The error is in percent or, for regression, the root
// mean squared error.
func (m measured) error(cost, weight float64) float64 {
	if m.target != loss.Sign {
		return math.Sqrt(max(cost/weight, 0))
	}
	return 100 * cost / weight
}

// measured returns the events of the given rows.
func (v *Evidence) measured(rows []int) measured {
	m := measured{Data: v.all().Subset(rows), policies: v.live.Missing, target: v.live.Target()}
	for _, row := range rows {
		m.missing = append(m.missing, v.missing.kinds[v.missing.of[row]])
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

// imputes reports whether missing numbers are imputed at some missing fraction.
func (m measured) imputes() bool {
	return m.covariance != nil && m.policies != nil && slices.ContainsFunc(m.policies.Policies[:], func(s model.PolicyWeights) bool { return s[2]+s[3] > 0 })
}

// answer returns how the model scores event i.
func (m measured) answer(i int) model.MissingHandling {
	var roles model.ColumnRoles
	if m.parts[i] != "" {
		roles = model.ColumnRoles(m.parts[i])
	}
	a := m.policies.Handling(m.missing[i], roles)
	a.Level = m.level[i]
	return a
}

// scale returns the factor by which the features of event i are multiplied.
func (m measured) scale(i int) float64 { return m.answer(i).Scale }

// deleted returns two values for event i after a fraction of its features was deleted. The result scale is the factor
// of the remaining features. The result fill is the weight of imputation in the score.
func (m measured) deleted(i int, fraction float64) (scale, fill float64) {
	if fraction == 0 {
		return m.scale(i), 0
	}
	var some model.ColumnRoles
	k := m.missing[i].Deleted(fraction)
	if m.covariance != nil && m.policies.ImputeWeight(k) > 0 {
		some = model.ColumnRoles{} // the caller knows which columns to impute
	}
	a := m.policies.Handling(k, some)
	return a.Scale, a.Imputes()
}
