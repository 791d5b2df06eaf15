package mixture

import (
	"math"
	"testing"
)

// TestSplineKeeps checks that a forecast is first the mean over all samples, and later the mean over about the last
// forecastMemory samples.
func TestSplineKeeps(t *testing.T) {
	var f ErrorCurve
	last := 0.0
	for _, samples := range []float64{0, 100, 1000, 10_000} {
		f.samples[3] = samples
		keep := f.keep(3)
		if want := 1 - 1/(8+samples/forecastDecay); math.Abs(keep-want) > 1e-15 || !(keep > last) {
			t.Errorf("after %v samples the next one leaves %v, want %v", samples, keep, want)
		}
		last = keep
	}
	f.samples[3] = 1e12
	if keep := f.keep(3); keep != 1-1.0/forecastMemory {
		t.Errorf("in the end a sample leaves %v", keep)
	}
	if x := (&ErrorCurve{}).At(3); x == x {
		t.Errorf("nothing has been forecast, and it is %v", x)
	}
}
