package loss

// This file holds the loss of Poisson regression.

import "math"

// PoissonQuadratic is Poisson regression with the quadratic noising penalty
// (Wager et al. 2013, A(f) = e^f): e^f - y f + e^f v/2 for counts y >= 0.
type PoissonQuadratic struct{}

func (PoissonQuadratic) At(y, f, v float64) (value, df, dv float64) {
	e := math.Exp(f)
	return e - y*f + 0.5*e*v, e - y + 0.5*e*v, 0.5 * e
}
func (PoissonQuadratic) At2(_, f, v float64) (ff, fv, vv float64) {
	e := math.Exp(f)
	return e + 0.5*e*v, 0.5 * e, 0
}
func (PoissonQuadratic) Facts() Facts {
	return Facts{Target: Count, Regression: true, CleanConvex: true, Lower: math.Inf(-1), LabelFree: true, Cost: 1}
}
func (PoissonQuadratic) String() string { return "poisson:quadratic-noising" }
