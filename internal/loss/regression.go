package loss

import "math"

// Quadratic is E (f~ - y)^2 = (f - y)^2 + v, exact for every noise (van der
// Maaten et al. 2013, section 3.1).
type Quadratic struct{}

func (Quadratic) At(y, f, v float64) (value, df, dv float64) {
	return (f-y)*(f-y) + v, 2 * (f - y), 1
}
func (Quadratic) At2(_, _, _ float64) (ff, fv, vv float64) { return 2, 0, 0 }
func (Quadratic) Facts() Facts {
	return Facts{Target: Real, Convex: true, CleanConvex: true, LabelFree: true, Cost: 1}
}
func (Quadratic) String() string { return "quadratic" }

// Linear is the log-loss of linear regression with its noising penalty, half of Quadratic: (f - y)^2/2 + v/2 (Wager et
// al. 2013, A(f) = f^2/2).
type Linear struct{}

func (Linear) At(y, f, v float64) (value, df, dv float64) {
	return 0.5*(f-y)*(f-y) + 0.5*v, f - y, 0.5
}
func (Linear) At2(_, _, _ float64) (ff, fv, vv float64) { return 1, 0, 0 }
func (Linear) Facts() Facts {
	return Facts{Target: Real, Regression: true, Convex: true, CleanConvex: true, LabelFree: true, Cost: 1}
}
func (Linear) String() string { return "linear" }

// Huber is the loss of Huber (1964), expected over f~ ~ N(f, v). The loss is m^2/2 for |m| <= D and D |m| - D^2/2
// beyond, with m = y - f. The derivatives, with s = sqrt(v), a = (-D - m)/s and b = (D - m)/s, are
//
//	d/dm = m (Phi(b) - Phi(a)) + s (phi(a) - phi(b)) + D Phi(-b) - D Phi(a),
//	d/dv = (Phi(b) - Phi(a))/2.
//
// The value is the sum of the expectations of the parabola and of the two lines, each over its own range of m.
type Huber struct{ D float64 }

// huberTerms holds the terms of the loss and its derivatives.
type huberTerms struct {
	m, s, a, b                   float64
	inside, below, above         float64 // probabilities of |m~| <= D, m~ < -D and m~ > D
	densityBelow, densityAbove   float64 // phi(a), phi(b)
	weightedBelow, weightedAbove float64 // a phi(a), b phi(b); 0 for large |a|, |b|
}

func (l Huber) terms(y, f, v float64) huberTerms {
	t := huberTerms{m: y - f, s: math.Sqrt(v)}
	if v <= 0 {
		switch {
		case t.m > l.D:
			t.above = 1
		case t.m < -l.D:
			t.below = 1
		default:
			t.inside = 1
		}
		return t
	}
	t.a, t.b = (-l.D-t.m)/t.s, (l.D-t.m)/t.s
	t.below, t.densityBelow = normal(t.a)
	t.above, t.densityAbove = normal(-t.b)
	// Compute Phi(b) - Phi(a) in the tail where both values are small.
	if t.a > 0 {
		low, _ := normal(-t.a)
		t.inside = low - t.above
	} else {
		high, _ := normal(t.b)
		t.inside = high - t.below
	}
	if t.densityBelow > 0 {
		t.weightedBelow = t.a * t.densityBelow
	}
	if t.densityAbove > 0 {
		t.weightedAbove = t.b * t.densityAbove
	}
	return t
}

func (l Huber) At(y, f, v float64) (value, df, dv float64) {
	t := l.terms(y, f, v)
	parabola := 0.0
	if t.inside > 0 {
		parabola = 0.5 * ((t.m*t.m+v)*t.inside + 2*t.m*t.s*(t.densityBelow-t.densityAbove) + v*(t.weightedBelow-t.weightedAbove))
	}
	lines := l.D * ((t.m-l.D/2)*t.above + t.s*t.densityAbove + (-t.m-l.D/2)*t.below + t.s*t.densityBelow)
	slope := t.m*t.inside + t.s*(t.densityBelow-t.densityAbove) + l.D*(t.above-t.below)
	return max(parabola+lines, 0), -slope, 0.5 * t.inside
}

func (l Huber) At2(y, f, v float64) (ff, fv, vv float64) {
	t := l.terms(y, f, v)
	if t.s == 0 {
		return t.inside, 0, 0
	}
	return t.inside, (t.densityAbove - t.densityBelow) / (2 * t.s), (t.weightedBelow - t.weightedAbove) / (4 * v)
}

func (l Huber) Facts() Facts {
	return Facts{Target: Real, Regression: true, Convex: true, CleanConvex: true, Cost: 1}
}

func (l Huber) String() string { return "huber:" + format(l.D) }

func (l Huber) check() error {
	return unless(l.D > 0 && l.D < math.MaxFloat64, "d = %v is not a positive number", l.D)
}

// Quantile is the loss whose minimum is the T-quantile of a number (Koenker & Bassett 1978). It is T m for positive m =
// y - f, and (1 - T) |m| for negative m. The expectation over f~ ~ N(f, v) is
//
//	E max(0, m~) - (1 - T) m = m Phi(m/s) + s phi(m/s) - (1 - T) m,  s = sqrt(v).
//
// At v = 0 the slope at the kink is the mean of the slopes on both sides.
type Quantile struct{ T float64 }

func (l Quantile) At(y, f, v float64) (value, df, dv float64) {
	m := y - f
	p, phi, s := smoothStep(m, v)
	if s > 0 {
		dv = phi / (2 * s)
	}
	// Compute Phi(-m/s) without cancellation, because it may be small.
	q, _, _ := smoothStep(-m, v)
	return max(l.T*m*p-(1-l.T)*m*q+s*phi, 0), (1-l.T)*q - l.T*p, dv
}

func (l Quantile) At2(y, f, v float64) (ff, fv, vv float64) {
	ff, fv, vv = smoothStep2(y-f, v)
	return ff, -fv, vv
}

// The field Clean is a bound that equals the loss at v = 0. The smoothed curvature of the bound decreases slowly away
// from the kink, which suits Newton's method better, as for the hinge.
func (l Quantile) Facts() Facts {
	return Facts{Target: Real, Regression: true, Convex: true, CleanConvex: true, Kink: func(y float64) float64 { return y }, Cost: 1, Clean: quantileBound{2 * l.T, 1, l}}
}

func (l Quantile) String() string { return "quantile:" + format(l.T) }

func (l Quantile) check() error {
	return unless(l.T > 0 && l.T < 1, "t = %v must lie between 0 and 1", l.T)
}

// Absolute is E |y - f~| for f~ ~ N(f, v), twice the Quantile loss with T = 1/2:
//
//	s (2 phi(z) + z (2 Phi(z) - 1)),  z = (y - f)/s,  s = sqrt(v).
type Absolute struct{}

func (Absolute) At(y, f, v float64) (value, df, dv float64) {
	value, df, dv = Quantile{0.5}.At(y, f, v)
	return 2 * value, 2 * df, 2 * dv
}

func (Absolute) At2(y, f, v float64) (ff, fv, vv float64) {
	ff, fv, vv = Quantile{0.5}.At2(y, f, v)
	return 2 * ff, 2 * fv, 2 * vv
}

func (Absolute) Facts() Facts {
	facts := Quantile{0.5}.Facts()
	facts.Clean = quantileBound{1, 2, Absolute{}}
	return facts
}

func (Absolute) String() string { return "absolute" }

// quantileBound is scale/2 (sqrt(m^2 + v) + (tilt - 1) m) with m = y - f. By Jensen's inequality it is an upper bound
// of a loss, which the field of stores.
type quantileBound struct {
	tilt, scale float64
	of          Loss
}

func (l quantileBound) At(y, f, v float64) (value, df, dv float64) {
	m, h := y-f, l.scale/2
	s := math.Sqrt(m*m + v)
	if s == 0 {
		return 0, -h * (l.tilt - 1), 0
	}
	return max(h*(s+(l.tilt-1)*m), 0), -h * (m/s + l.tilt - 1), h / (2 * s)
}

func (l quantileBound) At2(y, f, v float64) (ff, fv, vv float64) {
	m, h := y-f, l.scale/2
	s := math.Sqrt(m*m + v)
	if s == 0 {
		return 0, 0, 0
	}
	// Divide step by step, because s^3 underflows long before the quotients do.
	return h * (v / s / s) / s, 0.5 * h * (m / s) / s / s, -0.25 * h / s / s / s
}

func (l quantileBound) Facts() Facts {
	facts := l.of.Facts()
	facts.Clean = nil
	return facts
}

func (l quantileBound) String() string { return l.of.String() }

// normal returns Phi(u) and phi(u).
func normal(u float64) (cdf, density float64) {
	return 0.5 * Erfc(-u/math.Sqrt2), Exp(-0.5*u*u) / math.Sqrt(2*math.Pi)
}

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
