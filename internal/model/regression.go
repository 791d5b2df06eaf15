package model

// This file defines predicted values and intervals for regression.

import (
	"fmt"
	"math"
	"slices"

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
	for place, i := range CommonColumns(m.Covariance.Columns, x.Index) {
		off += x.Value[i] * r.extra[place*m.Outputs]
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

// Spread is a factor of a Residual's deviation, as a piecewise linear function of the predicted value. The factor is
// constant beyond the first and the last value of At. The mean square of the factor over all predictions is 1. A Spread
// is immutable; the nil Spread is 1 everywhere.
type Spread struct {
	At     []float64 `json:"at"` // predicted values, ascending
	Factor []float64 `json:"factor"`
}

// Of returns the factor at a predicted value.
func (s *Spread) Of(value float64) float64 {
	if s == nil || len(s.At) == 0 {
		return 1
	}
	i, _ := slices.BinarySearch(s.At, value)
	switch {
	case i == 0:
		return s.Factor[0]
	case i == len(s.At):
		return s.Factor[i-1]
	}
	t := (value - s.At[i-1]) / (s.At[i] - s.At[i-1])
	return s.Factor[i-1] + t*(s.Factor[i]-s.Factor[i-1])
}

func (s *Spread) check() error {
	if s == nil {
		return nil
	}
	if len(s.At) != len(s.Factor) {
		return fmt.Errorf("spread: %d values and %d factors", len(s.At), len(s.Factor))
	}
	for i, at := range s.At {
		if math.IsNaN(at) || i > 0 && !(at > s.At[i-1]) || !(s.Factor[i] > 0) || math.IsInf(s.Factor[i], 0) {
			return fmt.Errorf("spread: factor %v at %v in place %d", s.Factor[i], at, i)
		}
	}
	return nil
}

// NewSpread returns the Spread for mean absolute residuals (size) at ascending predicted values (at). Each value must
// represent the same number of predictions. NewSpread scales the sizes to a mean square of 1, with at least leastFactor
// each. NewSpread owns its arguments.
func NewSpread(at, size []float64) *Spread {
	square, mean := 0.0, 0.0
	for _, x := range size {
		mean += x / float64(len(size))
	}
	if len(at) < 2 || !(mean > 0) {
		return nil
	}
	for i, x := range size {
		size[i] = max(x/mean, leastFactor)
		square += size[i] * size[i] / float64(len(size))
	}
	for i := range size {
		size[i] /= math.Sqrt(square)
	}
	return &Spread{At: at, Factor: size}
}

// leastFactor is the smallest factor, used if residuals have been 0.
const leastFactor = 0.01
