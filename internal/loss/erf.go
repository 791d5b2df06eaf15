package loss

// This file implements the bounded loss erf.

import "math"

// Erf is the probit loss of Ding & Vishwanathan 2010 (section 5), 1 - erf(2 y f), expected over f~ ~ N(f, v):
//
//	1 - erf(u),  u = 2 y f/sqrt(1 + 8 v).
//
// The loss is between 0 and 2 and not convex. For large negative margins it hardly increases further, so wrong labels
// have little influence. Noise decreases the loss for negative margins: dv is negative if y f is negative. (Probit,
// -log Phi(y f), is another loss.)
type Erf struct{}

func (Erf) At(y, f, v float64) (value, df, dv float64) {
	r := 1 / (1 + 8*v)
	u := 2 * y * f * math.Sqrt(r)
	slope := -2 / math.SqrtPi * Exp(-u*u) // derivative of the loss by u
	return Erfc(u), slope * 2 * y * math.Sqrt(r), -4 * slope * u * r
}

func (Erf) At2(y, f, v float64) (ff, fv, vv float64) {
	r := 1 / (1 + 8*v)
	u := 2 * y * f * math.Sqrt(r)
	slope := -2 / math.SqrtPi * Exp(-u*u)
	// Use du/df = 2 y sqrt(r) and du/dv = -4 u r; the slope's derivative is -2 u slope.
	ff = -2 * u * slope * 4 * r
	fv = slope * 2 * y * math.Sqrt(r) * 4 * r * (2*u*u - 1)
	vv = slope * 16 * r * r * u * (3 - 2*u*u)
	return ff, fv, vv
}

func (Erf) Facts() Facts { return Facts{Falls: true, Cost: 1} }

func (Erf) String() string { return "erf" }
