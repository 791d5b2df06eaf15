package batch

// This file validates models whose labels are numbers, in the unit in which they learn.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// unit is a Unit for targets of a kind.
type unit struct {
	Unit
	target loss.Target
	loss   loss.Loss // for targets and values in their own unit
}

// unit returns what the live model measures its targets in, nil where labels are classes.
func (v *Evidence) unit(c ValidateConfig) *unit {
	target := v.live.Target()
	if target == loss.Sign {
		return nil
	}
	u := &unit{Unit: c.Unit, target: target}
	if u.Scale == 0 {
		u.Scale = 1
	}
	if u.Low == u.High {
		u.Low, u.High = math.Inf(-1), math.Inf(1)
	}
	u.loss, _ = loss.Parse(v.live.Loss) // Target has read it
	return u
}

// standardLoss names the loss for targets and values in the unit.
func (u *unit) standardLoss() string {
	if h, ok := u.loss.(loss.Huber); ok {
		return loss.Huber{D: h.D / u.Scale}.String()
	}
	return u.loss.String()
}

// slope is what weights are multiplied by from the unit to the targets' own.
func (u *unit) slope() float64 {
	if u.target == loss.Count {
		return 1
	}
	return u.Scale
}

// shift is the intercept, in the targets' own unit, of the score 0 in u.
func (u *unit) shift() float64 {
	if u.target == loss.Count {
		return math.Log(u.Scale)
	}
	return u.Center
}

// problem returns the targets in the unit; ok is false if all are equal.
func (u *unit) problem(d *Data) (p Subproblem, ok bool) {
	p = Subproblem{Positive: 0, Negative: -1, Y: make([]float64, d.Rows())}
	least, most := math.Inf(1), math.Inf(-1)
	for i := range p.Y {
		if d.Label(i) < 0 {
			p.Y[i] = math.NaN()
			continue
		}
		y := min(max(d.Target(i), u.Low), u.High)
		if d.Weight(i) > 0 {
			least, most = min(least, y), max(most, y)
		}
		if u.target != loss.Count {
			y -= u.Center
		}
		p.Y[i] = y / u.Scale
	}
	return p, least < most
}

// standard returns weights for targets in the unit, of columns of d and, unless there is
// none, the intercept. With a nil unit they are the same.
func (u *unit) standard(d *Data, own linear, c Config) linear {
	if u == nil {
		return own
	}
	out := make(linear, len(own))
	for k, w := range own {
		for _, x := range w[:d.Columns()] {
			out[k] = append(out[k], x/u.slope())
		}
		if c.Intercept != NoIntercept {
			out[k] = append(out[k], (w[d.Columns()]-u.shift())/u.slope())
		}
	}
	return out
}

// own is the inverse of standard. The result has an intercept, for the unit has a center.
func (u *unit) own(d *Data, standard linear) linear {
	out := make(linear, len(standard))
	for k, w := range standard {
		for _, x := range w[:d.Columns()] {
			out[k] = append(out[k], x*u.slope())
		}
		out[k] = append(out[k], u.shift()+u.slope()*standard.intercept(d, k))
	}
	return out
}

// measureNumbers measures the values that weights predict, in the targets' unit.
func (w linear) measureNumbers(d measured, m *model.Linear, u *unit, rest func(row int)) *measure.NumbersReport {
	var sums measure.Numbers
	scores := make([]float64, 1)
	for i := range d.Rows() {
		rest(i)
		value := m.Value(w.scores(d, i, scores)[0])
		low, high := m.Interval(value, model.Lacked{})
		sums.Add(u.loss, d.Target(i), d.Weight(i), value, low, high, 1)
	}
	r := sums.Report(u.loss)
	return &r
}

// residual returns what is left of the targets of the events, nil if they have no weight.
func (e *Exact) residual(u *unit, d measured) *model.Residual {
	var r residuals
	scores := make([]float64, 1)
	for i := range d.Rows() {
		r.add(u.target, d.Target(i), e.Value(e.weights.scores(d, i, scores)[0]), 0, d.Weight(i))
	}
	return r.all()
}
