package papers

import (
	"math"
	"testing"

	"blankout/batch"
)

// TestEqualLoss checks that penalties are compared at equal negative log-likelihood, whatever the steps of training
// are.
func TestEqualLoss(t *testing.T) {
	at := func(logLoss, ratio float64) penaltyTrace {
		return penaltyTrace{LogLoss: logLoss, R: 2, Penalties: batch.Penalties{Quadratic: 2 * ratio}}
	}
	trace := []penaltyTrace{at(400, 1), at(100, 1), at(25, 0.25), at(90, 7), at(20, 0.2)}
	for _, c := range []struct{ logLoss, want float64 }{{500, 1}, {400, 1}, {200, 1}, {100, 1}, {50, 0.5}, {25, 0.25}, {1, 0.2}} {
		if got := ratioAt(trace, c.logLoss); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("at %g: %g, want %g", c.logLoss, got, c.want)
		}
	}
	if got := nearUntil(trace, 800, 10); got < 80 || got > 81 { // 100 / 1.25, because the ratio decreases as fast as the loss
		t.Errorf("near until %g", got)
	}
	if got := nearUntil(trace[:2], 800, 200); got < 200 || got > 202.1 {
		t.Errorf("near to the end: %g", got)
	}
}
