// Package measure computes measures of predictions against labels, for learners that measure progressively and for
// commands that measure a file.
package measure

import (
	"math"
	"strconv"

	"blankout/internal/loss"
)

// Numbers holds sums over regression targets and their predicted values, weighted by importance. The zero value is
// ready for use.
type Numbers struct {
	Weight   float64
	Absolute float64 // sum of |y - value|
	Squared  float64 // sum of (y - value)^2
	Deviance float64 // sum of the Deviance of y and value
	Below    float64 // weight of the targets with y <= value
	// Mean is the mean of the targets. Scatter is the sum of their squared differences from Mean.
	Mean, Scatter float64
	// Asked is the weight of the targets whose prediction had an interval. Within is the weight of the targets that
	// were inside this interval.
	Asked, Within float64
}

// Add multiplies all sums by keep, and then adds a target y with its predicted value and the interval from low to high.
// low and high are NaN if there is no interval.
func (n *Numbers) Add(l loss.Loss, y, weight, value, low, high, keep float64) {
	for _, sum := range []*float64{&n.Weight, &n.Absolute, &n.Squared, &n.Deviance, &n.Below, &n.Scatter, &n.Asked, &n.Within} {
		*sum *= keep
	}
	if weight == 0 {
		return
	}
	r := y - value
	n.Weight += weight
	n.Absolute += weight * math.Abs(r)
	n.Squared += weight * r * r
	n.Deviance += weight * Deviance(l, y, value)
	if r <= 0 {
		n.Below += weight
	}
	off := y - n.Mean
	n.Mean += off * (weight / n.Weight)
	n.Scatter += weight * off * (y - n.Mean)
	if low <= high {
		n.Asked += weight
		if low <= y && y <= high {
			n.Within += weight
		}
	}
}

// Sums returns pointers to all sums.
func (n *Numbers) Sums() []*float64 {
	return []*float64{&n.Weight, &n.Absolute, &n.Squared, &n.Deviance, &n.Below, &n.Mean, &n.Scatter, &n.Asked, &n.Within}
}

// Merge adds the sums of other.
func (n *Numbers) Merge(other *Numbers) {
	if other.Weight == 0 {
		return
	}
	all := n.Weight + other.Weight
	off := other.Mean - n.Mean
	n.Scatter += other.Scatter + off*off*n.Weight*(other.Weight/all)
	n.Mean += off * (other.Weight / all)
	n.Weight = all
	n.Absolute += other.Absolute
	n.Squared += other.Squared
	n.Deviance += other.Deviance
	n.Below += other.Below
	n.Asked += other.Asked
	n.Within += other.Within
}

// Deviance returns twice the difference of the noise-free loss from its minimum for the target y. This is the squared
// error for linear regression, and the Poisson deviance for counts.
func Deviance(l loss.Loss, y, value float64) float64 {
	least := 0.0
	if bound := l.Facts().Lower; bound != nil {
		least = bound(y)
	}
	if l.Facts().Target == loss.Count {
		value = math.Log(max(value, math.SmallestNonzeroFloat64))
	}
	at, _, _ := l.At(y, value, 0)
	return max(2*(at-least), 0)
}

// MAE returns the mean absolute error. All measures return NaN without events.
func (n *Numbers) MAE() float64 { return n.Absolute / n.Weight }

// RMSE returns the root mean squared error.
func (n *Numbers) RMSE() float64 { return math.Sqrt(n.Squared / n.Weight) }

// R2 returns the coefficient of determination: 1 minus the squared error divided by the squared error of predicting the
// targets' mean. It returns NaN if all targets are equal.
func (n *Numbers) R2() float64 {
	if n.Scatter == 0 {
		return math.NaN()
	}
	return 1 - n.Squared/n.Scatter
}

// Coverage returns the fraction of targets at or below the predicted value for a quantile loss. For other losses it
// returns the fraction of targets within their interval.
func (n *Numbers) Coverage(l loss.Loss) float64 {
	if _, quantile := l.(loss.Quantile); quantile {
		return n.Below / n.Weight
	}
	return n.Within / n.Asked
}

// NumbersReport has the measures of regression with stable JSON names for scripts. Undefined measures are nil.
type NumbersReport struct {
	MAE      *float64 `json:"mae"`
	RMSE     *float64 `json:"rmse"`
	R2       *float64 `json:"r2"`
	Deviance *float64 `json:"deviance"` // mean deviance, see Deviance
	// Coverage is the fraction of targets within their interval. For quantile:T it is the fraction of targets at or
	// below the predicted value.
	Coverage *float64 `json:"coverage"`
}

// Report returns the measures under a loss.
func (n *Numbers) Report(l loss.Loss) NumbersReport {
	return NumbersReport{Defined(n.MAE()), Defined(n.RMSE()), Defined(n.R2()), Defined(n.Deviance / n.Weight), Defined(n.Coverage(l))}
}

// Defined returns a pointer to x, or nil if x is infinite or NaN.
func Defined(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}

// Apart formats two numbers for one sentence, with at least the given number of significant digits. It adds digits, up
// to ten, until the texts of different numbers differ.
func Apart(a, b float64, digits int) (string, string) {
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', digits, 64) }
	for a != b && text(a) == text(b) && digits < 10 {
		digits++
	}
	return text(a), text(b)
}
