package online

import (
	"math"
	"slices"
	"testing"

	"blankout/online/synthetic"
)

// Beside the second-order expert a refresh leaves the hats alone that are no level's.
func TestRefreshBesideExpert(t *testing.T) {
	s := synthetic.NewTides(5, 2, 0)
	l := tidesLearner(t, s, func(c *Config) { c.IRLSBatch, c.IRLSWindow = 100, 400 })
	for range 2000 {
		l.Learn(s.Next(), nil)
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
		l, s := mustNew(t, c, classes), synthetic.NewStream(6, classes)
		for i := range 41 {
			e := s.Next()
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
