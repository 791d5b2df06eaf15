package loss

// This file implements the loss of probit regression.

import "math"

// Probit is the loss of probit regression, -log Phi(y f), plus half the variance of the score. The curvature of -log
// Phi is between 0 and 1, so E -log Phi(y f~) <= -log Phi(y f) + v/2 for any unbiased noise. The loss is convex. Ding &
// Vishwanathan 2010 use the name probit for another loss, Erf.
type Probit struct{}

func (Probit) At(y, f, v float64) (value, df, dv float64) {
	value, ratio := logPhi(y * f)
	return -value + 0.5*v, -y * ratio, 0.5
}

func (Probit) At2(y, f, _ float64) (ff, fv, vv float64) {
	u := y * f
	if u < -probitTail {
		// The direct formula lambda (lambda + u) cancels, so this uses its series 1 - 1/u^2 + 6/u^4 - 50/u^6 + ...
		r := 1 / (u * u)
		return 1 - r*(1-r*(6-r*(50-r*518))), 0, 0
	}
	_, ratio := logPhi(u)
	return ratio * (ratio + u), 0, 0
}

func (Probit) Facts() Facts {
	return Facts{Convex: true, CleanConvex: true, LabelFree: true, Probability: true, Cost: 1}
}

func (Probit) String() string { return "probit" }

// probitTail is the argument from which eight terms of the asymptotic series of the normal tail are accurate to the
// last digit.
const probitTail = 20

// logPhi returns log Phi(u) and phi(u)/Phi(u).
func logPhi(u float64) (value, ratio float64) {
	const logRoot2Pi = 0.918938533204672741780329736406
	if u < -probitTail {
		// Phi(u) = phi(u)/|u| (1 - 1/u^2 + 3/u^4 - 15/u^6 ...), where the numerators are products of odd numbers.
		r, term, sum := 1/(u*u), 1.0, 1.0
		for k := 1.0; k < 16; k += 2 {
			term *= -k * r
			sum += term
		}
		return -0.5*u*u - logRoot2Pi - math.Log(-u) + math.Log(sum), -u / sum
	}
	phi := Exp(-0.5*u*u - logRoot2Pi)
	if u > 0 {
		q := 0.5 * Erfc(u/math.Sqrt2)
		return math.Log1p(-q), phi / (1 - q)
	}
	p := 0.5 * Erfc(-u/math.Sqrt2)
	return math.Log(p), phi / p
}

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
