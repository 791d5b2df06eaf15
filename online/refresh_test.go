package online

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/longtest"
)

// refreshing returns a learner that only refreshes.
func refreshing(t *testing.T, loss, noise string, size, reach, classes int) *Learner {
	t.Helper()
	c := DefaultConfig()
	c.Optimizer, c.Loss, c.Noise, c.Standardize = "irls", loss, noise, "scale"
	c.IRLSBatch, c.IRLSWindow, c.Average, c.Adapt = size, reach, 0, false
	return mustNew(t, c, classes)
}

// A window that slides over everything so far ends where one refresh of all
// events does; one that events have left is nearer to it than windows of its own.
func TestSlidingWindow(t *testing.T) {
	longtest.NotRaced(t)
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
							l.Learn(e, nil)
						}
					}
					var off [3]float64
					size := 0.0
					for range 500 {
						e := s.next()
						want := append([]float64(nil), scoresOf(reference, e)...)
						for i, l := range []*Learner{all, slides, tumbles} {
							for k, f := range scoresOf(l, e) {
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
					if f := all.Report().RefreshFailures + slides.Report().RefreshFailures; f > 0 {
						t.Errorf("%d refreshes failed", f)
					}
				})
			}
		}
	}
}

// Beside the second-order expert a refresh leaves the hats alone that are no level's.
func TestRefreshBesideExpert(t *testing.T) {
	s := newTides(5, 2, 0)
	l := s.learner(t, func(c *Config) { c.IRLSBatch, c.IRLSWindow = 100, 400 })
	for range 2000 {
		l.Learn(s.next(), nil)
	}
	l.publishSecond()
	hats := 0
	for slot := range l.table.Len() {
		column, row := l.table.Column(slot)
		if !l.scaling.OwnHats()(column) {
			continue
		}
		if l.own(row)[0] != 0 {
			hats++
		}
		for j, w := range l.weights(row) {
			if w != 0 {
				t.Errorf("level and output %d have weight %v of a hat that is the expert's", j, w)
			}
		}
	}
	if hats == 0 || l.Report().RefreshFailures > 0 || l.second.share(&l.shares.InForce[0]) < 0.1 {
		t.Errorf("%d hats of the expert, %d failures, a share of %v", hats, l.Report().RefreshFailures, l.second.share(&l.shares.InForce[0]))
	}
}

// A learner that only refreshes publishes what its first refresh finds, and not an average over the
// iterates of before, which are 0.
func TestFirstRefreshIsPublished(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := DefaultConfig()
		c.Optimizer, c.IRLSBatch, c.Noise = "irls", 40, "dropout:0.3"
		l, s := mustNew(t, c, classes), newStream(6, classes)
		for i := range 41 {
			e := s.next()
			scores := scoresOf(l, e)
			zero := !slices.ContainsFunc(scores, func(f float64) bool { return f != 0 })
			if classes == 2 && zero != (i < 40) { // of three unmet classes the intercepts are not 0
				t.Fatalf("%d classes, after %d events: scores %v", classes, i, scores)
			}
			if i == 40 {
				iterate, average := 0.0, 0.0
				for slot := range l.table.Len() {
					column, _ := l.table.Column(slot)
					row := l.table.Row(column)
					for j, w := range l.layout.Weights(row)[:l.n] {
						iterate += w * w
						a := w + l.levels[j/l.k].LagShare()*l.layout.Lags(row)[j]
						average += a * a
					}
				}
				if !(average > .98*iterate && iterate > 0) {
					t.Errorf("%d classes: published are weights of norm %v, found %v", classes, math.Sqrt(average), math.Sqrt(iterate))
				}
			}
			l.Learn(e, nil)
		}
	}
}
