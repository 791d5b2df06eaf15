package online

import (
	"fmt"
	"math"
	"testing"

	"blankout/internal/longtest"
)

// refreshing returns a learner that only refreshes.
func refreshing(t *testing.T, loss, noise string, size, reach, classes int) *Learner {
	t.Helper()
	c := DefaultConfig()
	c.Rule, c.Loss, c.Noise, c.Standardise = "irls", loss, noise, "scale"
	c.Refresh, c.RefreshWindow, c.Average, c.Adapt = size, reach, 0, false
	return mustNew(t, c, classes)
}

// A window that slides over everything so far ends where one refresh of all
// events does; one that events have left is nearer to it than windows of its own.
func TestSlidingWindow(t *testing.T) {
	const n = 480
	for _, loss := range []string{"logistic", "hinge", "logistic:chen", "t-logistic:1.5"} {
		for _, noise := range []string{"none", "dropout:0.5"} {
			for _, classes := range []int{2, 3} {
				t.Run(fmt.Sprint(loss, "/", noise, "/", classes), func(t *testing.T) {
					if (noise == "none") == (classes == 2) {
						longtest.Only(t) // half of them show most
					}
					reference := refreshing(t, loss, noise, n, 0, classes)
					all := refreshing(t, loss, noise, 40, n, classes)
					slides := refreshing(t, loss, noise, 40, 200, classes)
					tumbles := refreshing(t, loss, noise, 40, 0, classes)
					s := newStream(4, classes)
					for range n {
						e := s.next()
						for _, l := range []*Learner{reference, all, slides, tumbles} {
							l.Learn(e)
						}
					}
					var off [3]float64
					size := 0.0
					for range 500 {
						e := s.next()
						want := append([]float64(nil), reference.Score(e, make([]float64, reference.k))...)
						for i, l := range []*Learner{all, slides, tumbles} {
							for k, f := range l.Score(e, make([]float64, l.k)) {
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
					// t-logistic regression has several minima; three theta-steps each time.
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
					if f := all.Metrics().RefreshFailures + slides.Metrics().RefreshFailures; f > 0 {
						t.Errorf("%d refreshes failed", f)
					}
				})
			}
		}
	}
}
