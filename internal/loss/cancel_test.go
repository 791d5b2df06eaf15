package loss

import (
	"math"
	"testing"
)

// TestCancellation evaluates losses where the direct formulas would lose digits by cancellation. It checks that all
// digits are correct.
func TestCancellation(t *testing.T) {
	// The expected values are tanh(s/2)/s and its derivative by s^2, ((1 - tanh^2) s/2 - tanh)/(2 s^3).
	for _, s := range []float64{1e-9, 1e-3, 0.01, 0.03, 0.0499999, 0.05, 0.0500001, 0.1, 1, 5, 40} {
		ratio := func(s float64) float64 { return math.Tanh(s/2) / s }
		got, slope := tanhRatio(s, math.Exp(-s))
		if want := ratio(s); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("tanh(s/2)/s at %v: %v, want %v", s, got, want)
		}
		if s < 0.02 {
			continue // the expression below cancels
		}
		th := math.Tanh(s / 2)
		if want := ((1-th*th)/2*s - th) / (2 * s * s * s); math.Abs(slope/want-1) > 1e-9 {
			t.Errorf("its derivative by s^2 at %v: %v, want %v", s, slope, want)
		}
	}
	if got, slope := tanhRatio(0, 1); got != 0.5 || slope != -1.0/24 {
		t.Errorf("at 0: %v and %v, want 1/2 and -1/24", got, slope)
	}
	// Far from the margin, (z + sqrt(z^2 + v))/2 equals v/(4 |z|).
	for _, z := range []float64{-1e3, -1e6, -1e12} {
		const v = 2
		value, _, _ := HingeChen{1}.At(1, 1-z, v)
		if want := v / (4 * -z); math.Abs(value/want-1) > 1e-6 {
			t.Errorf("hinge:chen at z = %v: %v, want %v", z, value, want)
		}
	}
}
