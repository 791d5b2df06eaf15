// Package measure holds measures of predictions against labels, classes or numbers, for
// learners that measure as they go and for commands that measure a file.
package measure

import (
	"math"

	"blankout/internal/loss"
)

// Numbers are sums over targets that are numbers and the values predicted for them, each
// weighted by importance. The zero value is ready for use.
type Numbers struct {
	Weight   float64
	Absolute float64 // of |y - value|
	Squared  float64 // of (y - value)^2
	Deviance float64 // of twice the loss above its least, see Deviance
	Below    float64 // weight of the targets at or below the value
	// Mean of the targets, and the sum of their squared differences from it.
	Mean, Scatter float64
	// The weight of the targets for which there was an interval, and of those within theirs.
	Asked, Within float64
}

// Add counts in a target y for which a value was predicted, and the interval from low to
// high, NaN where there was none. What was counted before is kept by that share.
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

// Sums returns where every sum is.
func (n *Numbers) Sums() []*float64 {
	return []*float64{&n.Weight, &n.Absolute, &n.Squared, &n.Deviance, &n.Below, &n.Mean, &n.Scatter, &n.Asked, &n.Within}
}

// Merge adds what other has counted.
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

// Deviance is twice what a loss without noise is above its least for the target y: the
// squared error of linear regression, the Poisson deviance of counts.
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

// MAE returns the mean absolute error, NaN without events, as the others do.
func (n *Numbers) MAE() float64 { return n.Absolute / n.Weight }

// RMSE returns the root of the mean squared error.
func (n *Numbers) RMSE() float64 { return math.Sqrt(n.Squared / n.Weight) }

// R2 returns the coefficient of determination, 1 less the squared error as a share of that
// of the targets' mean; NaN where all targets are equal.
func (n *Numbers) R2() float64 {
	if n.Scatter == 0 {
		return math.NaN()
	}
	return 1 - n.Squared/n.Scatter
}

// Coverage returns the share of the targets that were at or below the value, of a loss of
// quantiles, else of those within their interval.
func (n *Numbers) Coverage(l loss.Loss) float64 {
	if _, quantile := l.(loss.Quantile); quantile {
		return n.Below / n.Weight
	}
	return n.Within / n.Asked
}

// NumbersReport holds the measures of numbers with the names that scripts rely on. What is
// undefined is nil.
type NumbersReport struct {
	MAE      *float64 `json:"mae"`
	RMSE     *float64 `json:"rmse"`
	R2       *float64 `json:"r2"`
	Deviance *float64 `json:"deviance"` // mean, see Deviance
	// Coverage is the share of the targets within their interval, of quantile:T of those at
	// or below the value.
	Coverage *float64 `json:"coverage"`
}

// Report returns the measures under a loss.
func (n *Numbers) Report(l loss.Loss) NumbersReport {
	return NumbersReport{Defined(n.MAE()), Defined(n.RMSE()), Defined(n.R2()), Defined(n.Deviance / n.Weight), Defined(n.Coverage(l))}
}

// Defined returns x for a report, nil if it is infinite or no number.
func Defined(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}
