package loss

// This file implements the losses of Poisson regression.

import "math"

// maxLog is the logarithm of a count of 1e30, the largest label.
const maxLog = 69.07755278982137

// expected returns e^z with its slope and curvature. Beyond maxLog it returns the tangent at maxLog, which is convex
// and keeps gradients finite.
func expected(z float64) (value, slope, curvature float64) {
	if z > maxLog {
		e := Exp(maxLog)
		return e * (1 + z - maxLog), e, 0
	}
	e := Exp(z)
	return e, e, e
}

// PoissonGaussian is Poisson regression, e^f - y f for counts y >= 0, expected over f~ ~ N(f, v): e^(f + v/2) - y f. It
// is convex, because it is the exponential of a convex function plus a linear term.
type PoissonGaussian struct{}

func (PoissonGaussian) At(y, f, v float64) (value, df, dv float64) {
	e, slope, _ := expected(f + 0.5*v)
	return e - y*f, slope - y, 0.5 * slope
}
func (PoissonGaussian) At2(_, f, v float64) (ff, fv, vv float64) {
	_, _, e := expected(f + 0.5*v)
	return e, 0.5 * e, 0.25 * e
}
func (PoissonGaussian) Facts() Facts {
	return Facts{Target: Count, Regression: true, Convex: true, CleanConvex: true, Lower: poissonLower, LabelFree: true, Cost: 1}
}
func (PoissonGaussian) String() string { return "poisson:gaussian" }

// poissonLower returns the minimum of e^f - y f, which is at f = log y.
func poissonLower(y float64) float64 {
	if y == 0 {
		return 0
	}
	return y - y*math.Log(y)
}

// PoissonQuadratic is Poisson regression with the quadratic noising penalty
// (Wager et al. 2013, A(f) = e^f): e^f - y f + e^f v/2 for counts y >= 0.
type PoissonQuadratic struct{}

func (PoissonQuadratic) At(y, f, v float64) (value, df, dv float64) {
	e, slope, curvature := expected(f)
	return e - y*f + 0.5*slope*v, slope - y + 0.5*curvature*v, 0.5 * slope
}
func (PoissonQuadratic) At2(_, f, v float64) (ff, fv, vv float64) {
	_, _, e := expected(f)
	return e + 0.5*e*v, 0.5 * e, 0
}
func (PoissonQuadratic) Facts() Facts {
	return Facts{Target: Count, Regression: true, CleanConvex: true, Lower: poissonLower, LabelFree: true, Cost: 1}
}
func (PoissonQuadratic) String() string { return "poisson:quadratic-noising" }
