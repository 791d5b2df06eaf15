package batch

// This file scales the targets of a regression while the solver runs.

import (
	"cmp"
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// targetUnit standardizes the targets y of a regression to (y - center)/scale while the solver runs. So the effect of
// the penalty, the tolerance and the threshold of huber does not depend on the unit of the targets. The solution for a
// y + b is a times the solution for y, plus b. For counts the center is 0 and the scale is their mean.
type targetUnit struct {
	target        loss.Target
	center, scale float64
}

// unitClip is the largest distance of a target from the median, in deviations, that is used for the unit, as in
// online/regression. Larger distances are clipped.
const unitClip = 8

// newTargetUnit returns the unit of the targets y (NaN for rows without a target) with these weights, for a loss. If
// the intercept is not free, it could not undo a shift. Then the center is 0, and for counts the scale is 1.
func newTargetUnit(y []float64, weight func(i int) float64, l loss.Loss, intercept Intercept) targetUnit {
	facts := l.Facts()
	u := targetUnit{target: facts.Target, scale: 1}
	var known []float64
	for i, value := range y {
		if !math.IsNaN(value) && weight(i) > 0 {
			known = append(known, value)
		}
	}
	if len(known) == 0 || facts.Target == loss.Count && intercept != FreeIntercept {
		return u
	}
	median := medianOf(known)
	spread := 0.0
	if facts.Target != loss.Count {
		off := make([]float64, len(known))
		for i, value := range known {
			off[i] = math.Abs(value - median)
		}
		spread = 1.4826 * medianOf(off)
	}
	var sum, mean, squares float64
	for i, value := range y {
		w := weight(i)
		if math.IsNaN(value) || w <= 0 {
			continue
		}
		if spread > 0 {
			value = min(max(value, median-unitClip*spread), median+unitClip*spread)
		}
		sum += w
		step := value - mean
		mean += step * w / sum
		squares += w * step * (value - mean)
	}
	scale := math.Sqrt(squares / sum)
	if facts.Target == loss.Count {
		scale = mean
	} else if intercept == FreeIntercept {
		u.center = mean
	}
	if scale > 0 && !math.IsInf(scale, 0) {
		u.scale = scale
	}
	return u
}

func medianOf(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	n := len(list)
	return list[(n-1)/2]/2 + list[n/2]/2
}

// slope returns the factor that converts weights from the unit to the original targets.
func (u targetUnit) slope() float64 {
	if u.target == loss.Count {
		return 1
	}
	return u.scale
}

// shift returns the intercept for the original targets that corresponds to the score 0 in the unit.
func (u targetUnit) shift() float64 {
	if u.target == loss.Count {
		return math.Log(u.scale)
	}
	return u.center
}

// standard converts a target to the unit.
func (u targetUnit) standard(y float64) float64 {
	if u.target != loss.Count {
		y -= u.center
	}
	return y / u.scale
}

// in converts targets to the unit, in place.
func (u targetUnit) in(y []float64) {
	for i := range y {
		y[i] = u.standard(y[i])
	}
}

// weightsIn returns the parameters w converted to the unit. An element after the columns is the intercept.
func (u targetUnit) weightsIn(w []float64, columns int) []float64 {
	out := slices.Clone(w)
	if len(w) > columns {
		out[columns] -= u.shift()
	}
	for i := range out {
		out[i] /= u.slope()
	}
	return out
}

// weightsOut is the inverse of weightsIn.
func (u targetUnit) weightsOut(w []float64, columns int) []float64 {
	out := slices.Clone(w)
	for i := range out {
		out[i] *= u.slope()
	}
	if len(w) > columns {
		out[columns] += u.shift()
	}
	return out
}

// back converts a solution in the unit to the original targets. The objective, which is lambda |w|^2 + kappa sum loss in
// the unit, becomes with the scale s
//
//	lambda |w|^2 + kappa sum loss       of squared and huber, whose losses are multiplied by s^2,
//	lambda |w|^2 + kappa s sum loss     of absolute and quantile, whose losses are multiplied by s,
//	lambda |w|^2 + kappa/s sum (exp f - y (f - log s))   of counts.
func (u targetUnit) back(r *Result, columns int) {
	r.W = u.weightsOut(r.W, columns)
	r.Objective *= u.slope() * u.slope()
	r.Gap *= u.slope() * u.slope()
}

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
