package blankout

// This file holds what models say where the targets are numbers.

import (
	"math"

	"blankout/loss"
)

// Residual says how far targets have been from the values predicted for them, so that a
// prediction can tell its interval. Where the targets are counts, both are of the
// residuals divided by the root of the value (Pearson's): the variance of a count grows
// with what is expected.
type Residual struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
}

// IntervalShare is the share of targets that an interval is made to cover, and
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
		return math.Exp(score)
	}
	return score
}

// Interval returns the bounds between which the target of an event with that value lies
// in nine of ten cases, if residuals go on as they were; NaN for a model without a Residual.
func (h *Head) Interval(value float64) (low, high float64) {
	if h.Residual == nil {
		return math.NaN(), math.NaN()
	}
	return h.Residual.Interval(h.Target(), value)
}

// Interval is Head.Interval for targets of a kind.
func (r Residual) Interval(t loss.Target, value float64) (low, high float64) {
	unit := pearson(t, value)
	middle, width := value+unit*r.Mean, unit*intervalWidth*r.Deviation
	if low, high = middle-width, middle+width; t == loss.Count {
		low = max(low, 0)
	}
	return low, high
}

// Of returns the residual of a target as a Residual measures it.
func (Residual) Of(t loss.Target, y, value float64) float64 { return (y - value) / pearson(t, value) }

// pearson returns what residuals at a value are measured in.
func pearson(t loss.Target, value float64) float64 {
	if t == loss.Count {
		return math.Sqrt(max(value, 1e-9))
	}
	return 1
}
