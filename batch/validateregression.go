package batch

// This file validates regression models, in the unit in which they learn.

import (
	"cmp"
	"math"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// unit is a Unit together with the kind of target and the loss.
type unit struct {
	targetUnit
	low, high float64
	loss      loss.Loss // loss for targets and predictions in their original unit
}

// unit returns the unit in which the live model learns its targets, or nil for classification.
func (v *Evidence) unit(c ValidateConfig) *unit {
	target := v.live.Target()
	if target == loss.Sign {
		return nil
	}
	u := &unit{targetUnit: targetUnit{target, c.Unit.Center, cmp.Or(c.Unit.Scale, 1)}, low: c.Unit.Low, high: c.Unit.High}
	if u.low == u.high {
		u.low, u.high = math.Inf(-1), math.Inf(1)
	}
	u.loss, _ = loss.Parse(v.live.Loss) // no error: Target has parsed this name
	return u
}

// standardLoss returns the name of the loss for targets and predictions that are in the unit.
func (u *unit) standardLoss() string {
	if h, ok := u.loss.(loss.Huber); ok {
		return loss.Huber{D: h.D / u.scale}.String()
	}
	return u.loss.String()
}

// problem returns the regression problem of d, with the targets in units of u. The result ok is false if all targets
// are equal.
func (u *unit) problem(d *Data) (p Subproblem, ok bool) {
	p = Subproblem{Positive: 0, Negative: -1, Y: make([]float64, d.Rows())}
	least, most := math.Inf(1), math.Inf(-1)
	for i := range p.Y {
		if d.Label(i) < 0 {
			p.Y[i] = math.NaN()
			continue
		}
		y := min(max(d.Target(i), u.low), u.high)
		if d.Weight(i) > 0 {
			least, most = min(least, y), max(most, y)
		}
		p.Y[i] = u.standard(y)
	}
	return p, least < most
}

// standardWeights converts weights for the original targets to weights for targets in the unit. The result has the columns
// of d, and the intercept if there is one. A nil unit does not change the weights.
func (u *unit) standardWeights(d *Data, own linear, c Config) linear {
	if u == nil {
		return own
	}
	out := make(linear, len(own))
	for k, w := range own {
		if c.Intercept == NoIntercept {
			w = w[:d.Columns()]
		}
		out[k] = u.weightsIn(w, d.Columns())
	}
	return out
}

// own is the inverse of standardWeights. The result always has an intercept, because the unit has a center.
func (u *unit) own(d *Data, standard linear) linear {
	out := make(linear, len(standard))
	for k, w := range standard {
		out[k] = u.weightsOut(append(w[:d.Columns():d.Columns()], standard.intercept(d, k)), d.Columns())
	}
	return out
}

// measureNumbers measures the predictions of the weights, in the original unit of the targets.
func (w linear) measureNumbers(d measured, m *model.Linear, u *unit, rest func(row int)) *measure.NumbersReport {
	var sums measure.Numbers
	scores := make([]float64, 1)
	for i := range d.Rows() {
		rest(i)
		value := m.Value(w.scores(d, i, scores)[0])
		low, high := m.Interval(value, model.MissingVariance{})
		sums.Add(u.loss, d.Target(i), d.Weight(i), value, low, high, 1)
	}
	r := sums.Report(u.loss)
	return &r
}

// residual returns the distribution of the residuals of the events, or nil if the events have no weight.
func (e *Exact) residual(u *unit, d measured) *model.Residual {
	var r residuals
	scores := make([]float64, 1)
	for i := range d.Rows() {
		r.add(u.target, d.Target(i), e.Value(e.weights.scores(d, i, scores)[0]), 0, d.Weight(i))
	}
	return r.all()
}
