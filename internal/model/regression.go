package model

// This file defines predicted values and intervals for regression.

import (
	"math"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Residual is the distribution of the residuals (target minus predicted value), for prediction intervals. For counts,
// residuals are divided by the root of the predicted value (Pearson), because the variance of a count grows with its
// mean. The error due to missing fields is not included: the ScoreVariance of an event has been subtracted from its
// squared residual.
type Residual struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	// ByValue is the factor of the deviation at a predicted value; nil if unknown.
	ByValue *Spread `json:"by_value,omitempty"`
}

// intervalWidth is the half-width of an interval without Sets, in standard deviations. Such an interval covers 0.9 of normal
// residuals.
const intervalWidth = 1.6448536269514722

// Value returns the value that a score predicts: the score itself or, for counts, its exponential.
func (h *Head) Value(score float64) float64 { return ValueOf(h.Target(), score) }

// Target returns the kind of the model's labels, or Sign for classification.
func (h *Head) Target() loss.Target { return loss.LabelsOf(h.Loss) }

// ValueOf is Head.Value for a kind of targets.
func ValueOf(t loss.Target, score float64) float64 {
	if t == loss.Count {
		return loss.Exp(score)
	}
	return score
}

// MissingVariance determines how the missing fields of an event widen an interval.
type MissingVariance struct {
	Variance float64 // variance of the score, see ScoreVariance
	Range    int     // range of the missing fraction, see MissingHandling.Range
}

// Interval returns the prediction interval of a predicted value. The coverage of the interval is Sets.Coverage. Without
// Sets, it is 90 % if residuals are normal and stationary. It returns NaN for a model without a Residual. by is the
// ScoreVariance of the event.
func (h *Head) Interval(value float64, by MissingVariance) (low, high float64) {
	if h.Residual == nil {
		return math.NaN(), math.NaN()
	}
	limit := -1.0
	if h.Sets != nil {
		limit = h.Sets.Limits[by.Range]
	}
	return h.Residual.Interval(h.Target(), value, by.Variance, limit)
}

// Interval is Head.Interval for a kind of targets and a limit from Sets; the limit -1 assumes normal residuals. The
// interval always contains the value.
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

// around returns the middle of the interval for a value, and the unit and the standard deviation of residuals at this
// value.
func (r Residual) around(t loss.Target, value, v float64) (middle, unit, deviation float64) {
	unit = pearson(t, value)
	deviation = r.Deviation * r.ByValue.Of(value)
	return value + unit*r.Mean, unit, math.Sqrt(deviation*deviation + r.Increase(t, value, v))
}

// Score returns the distance of a target from the middle of the interval for a value, in standard deviations.
func (r Residual) Score(t loss.Target, y, value, v float64) float64 {
	middle, unit, deviation := r.around(t, value, v)
	if off := math.Abs(y - middle); off > 0 {
		return off / (unit * deviation)
	}
	return 0
}

// Of returns the residual y - value in the unit of a Residual.
func (Residual) Of(t loss.Target, y, value float64) float64 { return (y - value) / pearson(t, value) }

// Unit returns the unit of residuals at a predicted value.
func (Residual) Unit(t loss.Target, value float64) float64 { return pearson(t, value) }

// maxVariance is the largest variance of a count's score, because the value grows with the score's exponential.
const maxVariance = 10

// Increase returns the increase of a residual's variance due to the variance v of the score. For a count, whose
// predicted logarithm is normal, the increase is value^2 (e^v - 1).
func (Residual) Increase(t loss.Target, value, v float64) float64 {
	if t == loss.Count {
		return value * math.Expm1(min(v, maxVariance))
	}
	return v
}

// ScoreVariance returns the variance of an event's regression score due to missing numbers. The variance is the sum of
// two parts: the variance of the imputed values and, for the policies that do not impute, the square of the imputed
// values' contribution. The variance is 0 if nothing is missing, or if the model has no Covariance.
func ScoreVariance(m Model, e *event.Example) MissingVariance {
	linear, ok := m.(*Linear)
	if r := m.About().Handling(e).Range; r == 0 || !ok || linear.Covariance == nil {
		return MissingVariance{Range: r}
	}
	return linear.VarianceMissing(linear.Standardized(e, event.Vec{}), e)
}

// VarianceMissing is ScoreVariance for the arguments of ScoreMissing.
func (m *Linear) VarianceMissing(x event.Vec, e *event.Example) MissingVariance {
	a := m.Handling(e)
	by := MissingVariance{Range: a.Range}
	if a.Range == 0 {
		return by
	}
	fill := 0.0
	if a.Roles != nil {
		fill = a.Imputes()
	} else if m.Covariance != nil {
		asFilled := m.Head
		asFilled.Missing = m.Missing.Forced(MissingImpute)
		a.Roles = asFilled.Handling(e).Roles
	}
	if a.Roles == nil {
		return by
	}
	r := m.At(a).imputedWeightsOf(x, a.Roles)
	off := r.shift[0]
	for place, value := range m.Covariance.each(x) {
		off += value * r.extra[place*m.Outputs]
	}
	off *= 1 - fill
	by.Variance = r.variance[0] + off*off
	return by
}

// pearson returns the unit of residuals at a predicted value.
func pearson(t loss.Target, value float64) float64 {
	if t == loss.Count {
		return math.Sqrt(max(value, 1e-30))
	}
	return 1
}
