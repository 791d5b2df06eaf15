package loss

// This file implements the hinge loss: its Gaussian expectation and its bound.

import "math"

// HingeGaussian is E max(0, Ell - y f~) for f~ ~ N(f, v). It equals z Phi(z/s) + s phi(z/s) with z = Ell - y f and s =
// sqrt(v). At v = 0 it is the hinge, whose derivative at the margin is defined as the mean of the two sides.
type HingeGaussian struct{ Ell float64 }

func (l HingeGaussian) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	value = z*p + s*phi
	if s > 0 {
		dv = phi / (2 * s)
	}
	return max(value, 0), -y * p, dv
}

func (l HingeGaussian) At2(y, f, v float64) (ff, fv, vv float64) {
	ff, fv, vv = smoothStep2(l.Ell-y*f, v)
	return ff, -y * fv, vv
}

// The field Clean is Chen's bound, which equals the hinge at v = 0. The smoothed curvature of the bound decreases
// slowly away from the margin, which suits Newton's method better.
func (l HingeGaussian) Facts() Facts {
	facts := HingeChen(l).Facts()
	facts.Clean = HingeChen(l)
	return facts
}

func (l HingeGaussian) String() string { return "hinge:gaussian" + formatEll(l.Ell) }

// HingeChen is the bound of Chen et al. 2014 (section 3.2) on the expected hinge loss: (z + sqrt(z^2 + v))/2 with z =
// Ell - y f. The factor 1/2 makes it equal to the hinge at v = 0.
type HingeChen struct{ Ell float64 }

func (l HingeChen) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	s := math.Sqrt(z*z + v)
	if s == 0 {
		return 0, -y / 2, 0
	}
	if z < 0 { // z + s cancels; it equals v/(s - z)
		value = 0.5 * v / (s - z)
	} else {
		value = 0.5 * (z + s)
	}
	return value, -0.5 * y * (1 + z/s), 0.25 / s
}

func (l HingeChen) At2(y, f, v float64) (ff, fv, vv float64) {
	z := l.Ell - y*f
	s := math.Sqrt(z*z + v)
	if s == 0 {
		return 0, 0, 0
	}
	// Divide step by step, because s^3 underflows long before the quotients do.
	return 0.5 * (v / s / s) / s, 0.25 * y * (z / s) / s / s, -0.125 / s / s / s
}

func (l HingeChen) Facts() Facts {
	return Facts{Convex: true, CleanConvex: true, Kink: func(y float64) float64 { return l.Ell / y }, Margin: l.Ell, Cost: 2}
}

func (l HingeChen) String() string { return "hinge:chen" + formatEll(l.Ell) }

func checkMargin(ell float64) error {
	return unless(ell > 0 && ell < 1e15, "the margin %v is not a positive number", ell)
}

func formatEll(ell float64) string {
	if ell == 1 {
		return ""
	}
	return ":" + format(ell)
}

// smoothStep returns Phi(u/s), phi(u/s) and s = sqrt(v). At v = 0 it is the step function, with the value 1/2 at the
// step.
func smoothStep(u, v float64) (cdf, phi, s float64) {
	if v <= 0 {
		switch {
		case u > 0:
			return 1, 0, 0
		case u < 0:
			return 0, 0, 0
		}
		return 0.5, 0, 0
	}
	s = math.Sqrt(v)
	a := u / s
	return 0.5 * Erfc(-a/math.Sqrt2), Exp(-0.5*a*a) / math.Sqrt(2*math.Pi), s // without a call of normal, because it is called often
}

// smoothStep2 returns the second derivatives of u Phi(u/s) + s phi(u/s) with s = sqrt(v): by (u, u), by (u, v) and by
// (v, v).
func smoothStep2(u, v float64) (uu, uv, vv float64) {
	_, phi, s := smoothStep(u, v)
	if phi == 0 { // also avoids 0/0 in the quotients below
		return 0, 0, 0
	}
	a := u / s
	return phi / s, -phi * a / (2 * v), phi * (a*a - 1) / (4 * v * s)
}

// SquaredHinge is E max(0, z~)^2 for z~ ~ N(z, v), z = Ell - y f: with s = sqrt(v)
//
//	(z^2 + v) Phi(z/s) + z s phi(z/s),  d/dz = 2 (z Phi + s phi),  d/dv = Phi.
//
// At v = 0 it is the loss of the support vector machine that LIBLINEAR calls L2-loss.
type SquaredHinge struct{ Ell float64 }

func (l SquaredHinge) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	hinge := max(z*p+s*phi, 0) // the expected hinge, which rounding may make negative far from the margin
	return max(z*hinge+v*p, 0), -2 * y * hinge, p
}

func (l SquaredHinge) At2(y, f, v float64) (ff, fv, vv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	if phi == 0 { // also avoids 0/0 in the quotients below
		return 2 * p, 0, 0
	}
	return 2 * p, -y * phi / s, -0.5 * phi * (z / s) / v
}

func (SquaredHinge) Facts() Facts { return Facts{Convex: true, CleanConvex: true, Cost: 1} }

// Conjugate implements the interface Conjugate. At a = -y p with p >= 0 the conjugate is p^2/4 - Ell p.
func (l SquaredHinge) Conjugate(y, a float64) (nearest, value float64) {
	p := max(-y*a, 0)
	return -y * p, p * (0.25*p - l.Ell)
}

func (l SquaredHinge) String() string { return "squared-hinge:gaussian" + formatEll(l.Ell) }
