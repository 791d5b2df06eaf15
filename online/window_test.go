package online_test

// This file tests windows of events that IRLS solves exactly.

import (
	"fmt"
	"math"
	"testing"

	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

// refreshing returns a learner that learns only by refreshes (IRLS).
func refreshing(t *testing.T, loss, noise string, size, reach, classes int) *learner {
	t.Helper()
	c := online.DefaultConfig()
	c.Optimizer, c.Loss, c.Noise, c.Standardize = "irls", loss, noise, "scale"
	c.IRLSBatch, c.IRLSWindow, c.Average, c.Adapt = size, reach, 0, false
	return streamed(t, c, classes)
}

// TestSlidingWindow checks that a sliding window over all events gives the result of one refresh of all events. A
// shorter sliding window must give a result that is closer to it than the result of separate windows.
func TestSlidingWindow(t *testing.T) {
	t.Parallel()
	const n = 480
	for i, loss := range []string{"logistic", "hinge", "logistic:chen", "t-logistic:1.5"} {
		for _, noise := range []string{"none", "dropout:0.5"} {
			for _, classes := range []int{2, 3} {
				t.Run(fmt.Sprint(loss, "/", noise, "/", classes), func(t *testing.T) {
					if (noise == "none") == (classes == 2) || (i%2 == 0) != (classes == 2) {
						longtest.Only(t) // one of four combinations is enough
					}
					reference := refreshing(t, loss, noise, n, 0, classes)
					all := refreshing(t, loss, noise, 40, n, classes)
					slides := refreshing(t, loss, noise, 40, 200, classes)
					tumbles := refreshing(t, loss, noise, 40, 0, classes)
					s := synthetic.NewStream(4, classes)
					for range n {
						e := s.Next()
						for _, l := range []*learner{reference, all, slides, tumbles} {
							l.Learn(e, nil)
						}
					}
					var off [3]float64
					size := 0.0
					for range 500 {
						e := s.Next()
						want := append([]float64(nil), alone(reference.Predict(e)).Scores...)
						for i, l := range []*learner{all, slides, tumbles} {
							for k, f := range alone(l.Predict(e)).Scores {
								off[i] += (f - want[k]) * (f - want[k])
							}
						}
						for _, f := range want {
							size += f * f
						}
					}
					for i := range off {
						off[i] = math.Sqrt(off[i] / size)
					}
					// The t-logistic loss has several minima, and each refresh makes three theta-steps.
					within := 0.01
					if loss == "t-logistic:1.5" {
						within = 0.1
					}
					if !(off[0] < within) {
						t.Errorf("a window of everything is off by %.3g", off[0])
					}
					if !(off[1] < off[2]) {
						t.Errorf("off by %.3g with a window of 200, by %.3g with one of 40", off[1], off[2])
					}
					if f := all.Report().RefreshFailures + slides.Report().RefreshFailures; f > 0 {
						t.Errorf("%d refreshes failed", f)
					}
				})
			}
		}
	}
}
