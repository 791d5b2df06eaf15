package loss

// This file implements the Huber loss.

import (
	"fmt"
	"math"
)

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
	if !(l.D > 0 && l.D < math.MaxFloat64) {
		return fmt.Errorf("d = %v is not a positive number", l.D)
	}
	return nil
}
