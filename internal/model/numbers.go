package model

// This file holds what models say where the targets are numbers.

import (
	"math"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Residual says how far targets have been from the values predicted for them, so that a
// prediction can tell its interval. Where the targets are counts, both are of the
// residuals divided by the root of the value (Pearson's): the variance of a count grows
// with what is expected. What events lacked is not among it: the variance that a score has
// for that (see ScoreVariance) has been taken from the squares, and Interval adds that of its event.
type Residual struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	// ByValue is by what the deviation is multiplied at a value, nil where that is not known.
	ByValue *Spread `json:"by_value,omitempty"`
}

// IntervalShare is the share of targets that an interval is made to cover where Sets do not say so, and
// intervalWidth how many deviations to either side of its middle do, were the residuals
// normal.
const IntervalShare, intervalWidth = 0.9, 1.6448536269514722

// Value returns the number that a score predicts: the score itself or, of counts, its
// exponential.
func (h *Head) Value(score float64) float64 { return ValueOf(h.Target(), score) }

// Target returns what the model's labels are, Sign where they are classes.
func (h *Head) Target() loss.Target { return loss.LabelsOf(h.Loss) }

// ValueOf is Head.Value for targets of a kind.
func ValueOf(t loss.Target, score float64) float64 {
	if t == loss.Count {
		return loss.Exp(score)
	}
	return score
}

// Lacked is what an event lacks by what it opens of an interval.
type Lacked struct {
	Variance float64 // of the score, see ScoreVariance
	Range    int     // see Answer
}

// Interval returns the bounds between which the target of an event with that value lies
// in a share Sets.Coverage of cases, or in nine of ten if residuals are normal and go on as they were; NaN
// for a model without a Residual. by is the ScoreVariance of the event.
func (h *Head) Interval(value float64, by Lacked) (low, high float64) {
	if h.Residual == nil {
		return math.NaN(), math.NaN()
	}
	limit := -1.0
	if h.Sets != nil {
		limit = h.Sets.Limits[by.Range]
	}
	return h.Residual.Interval(h.Target(), value, by.Variance, limit)
}

// Interval is Head.Interval for targets of a kind, and a limit as Sets has it: -1 is that of normal
// residuals. It contains the value.
func (r Residual) Interval(t loss.Target, value, v, limit float64) (low, high float64) {
	middle, unit, deviation := r.around(t, value, v)
	if limit < 0 {
		limit = intervalWidth
	}
	width := unit * limit * deviation
	if low, high = min(middle-width, value), max(middle+width, value); t == loss.Count {
		low = max(low, 0)
	}
	return low, high
}

// around returns the middle of the interval of a value, the unit of residuals there, and their deviation.
func (r Residual) around(t loss.Target, value, v float64) (middle, unit, deviation float64) {
	unit = pearson(t, value)
	deviation = r.Deviation * r.ByValue.Of(value)
	return value + unit*r.Mean, unit, math.Sqrt(deviation*deviation + r.Lacking(t, value, v))
}

// Score returns how many deviations a target is off the middle of the interval of a value.
func (r Residual) Score(t loss.Target, y, value, v float64) float64 {
	middle, unit, deviation := r.around(t, value, v)
	if off := math.Abs(y - middle); off > 0 {
		return off / (unit * deviation)
	}
	return 0
}

// Of returns the residual of a target as a Residual measures it.
func (Residual) Of(t loss.Target, y, value float64) float64 { return (y - value) / pearson(t, value) }

// Unit returns what a Residual measures residuals in at a value.
func (Residual) Unit(t loss.Target, value float64) float64 { return pearson(t, value) }

// maxVariance bounds that of the score of a count, whose value grows with its exponential.
const maxVariance = 10

// Lacking returns by how much the variance v of a score raises that of a residual: of a
// count, whose logarithm is normal, the variance is value^2 (e^v - 1).
func (Residual) Lacking(t loss.Target, value, v float64) float64 {
	if t == loss.Count {
		return value * math.Expm1(min(v, maxVariance))
	}
	return v
}

// ScoreVariance returns the variance that the score of an event has for the numbers that
// are known to be missing from it, where labels are numbers: what is left open by filling
// in and, as far as the event is answered as it is, the square of what would have been filled in
// too. It is 0 where nothing is missing, or the model has no Covariance.
func ScoreVariance(m Model, e *event.Example) Lacked {
	linear, ok := m.(*Linear)
	if r := m.About().Answer(e).Range; r == 0 || !ok || linear.Covariance == nil {
		return Lacked{Range: r}
	}
	return linear.VarianceLacking(linear.Standardized(e, event.Vec{}), e)
}

// VarianceLacking is ScoreVariance for what ScoreLacking takes.
func (m *Linear) VarianceLacking(x event.Vec, e *event.Example) Lacked {
	a := m.Answer(e)
	by := Lacked{Range: a.Range}
	if a.Range == 0 {
		return by
	}
	fill := 0.0
	if a.Parts != nil {
		fill = a.Shares[2]
	} else if m.Covariance != nil {
		asFilled := m.Head
		asFilled.Missing = m.Missing.Forced(MissingImpute)
		a.Parts = asFilled.Answer(e).Parts
	}
	if a.Parts == nil {
		return by
	}
	r := m.At(a).repaired(x, a.Parts)
	off := r.shift[0]
	for place, value := range m.Covariance.each(x) {
		off += value * r.extra[place*m.Outputs]
	}
	off *= 1 - fill
	by.Variance = r.variance[0] + off*off
	return by
}

// pearson returns what residuals at a value are measured in.
func pearson(t loss.Target, value float64) float64 {
	if t == loss.Count {
		return math.Sqrt(max(value, 1e-30))
	}
	return 1
}
