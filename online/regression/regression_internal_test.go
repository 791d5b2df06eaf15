package regression

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
)

// TestSpread checks that outliers do not change the spread of a sample if at most one number in sixteen is an outlier.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{3, 8, 15, 16, 40, sampleSize} {
		sample := make([]float64, n)
		for i := range sample {
			sample[i] = 5 + 2*r.NormFloat64()
		}
		for i := range max(1, n/16) {
			sample[i] = 1e30
		}
		if s := spreadOf(sample); s.inflated() || s.scale() > 6 || math.Abs(s.median-5) > 3 {
			t.Errorf("%d numbers: %+v", n, s)
		}
	}
	zeros := make([]float64, sampleSize)
	zeros[3], zeros[9] = 7, 9
	if s := spreadOf(zeros); !s.inflated() || s.others != 8 || s.differ != 2 || math.Abs(s.scale()-8*math.Sqrt(2./64)) > 1e-12 {
		t.Errorf("zeros: %+v", s)
	}
	if s := spreadOf(nil); s.scale() != 0 {
		t.Errorf("nothing: %+v", s)
	}
}

// TestClipReturnsTargets checks that clipping an outlier returns a valid target for any earlier residuals. A valid
// target is finite, and at least 0 for counts.
func TestClipReturnsTargets(t *testing.T) {
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		for _, mean := range []float64{-1e47, 0, 1e47} {
			r := Residual{samples: 100}
			r.Mean, r.Deviation = mean, 3
			for _, value := range []float64{0, 1e-30, 1, 1e100} {
				for _, y := range []float64{0, 1, 1e30} {
					if got := r.Clip(of, y, value, 0); math.IsNaN(got) || math.IsInf(got, 0) || of == loss.Count && got < 0 {
						t.Errorf("%v, mean %v: %v at a prediction of %v counts as %v", of, mean, y, value, got)
					}
				}
			}
		}
	}
}
