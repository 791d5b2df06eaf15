package loss

// This file implements the losses of the median and of other quantiles.

import (
	"fmt"
	"math"
)

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
	if !(l.T > 0 && l.T < 1) {
		return fmt.Errorf("t = %v must lie between 0 and 1", l.T)
	}
	return nil
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
