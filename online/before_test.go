package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/online"
	"blankout/online/mixture"
	"blankout/online/scaling"
)

// Learn returns the same bits as Predict, for each event, also when the event changes scales, adds columns, or changes
// which experts are used.
func TestLearnReturnsPrediction(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*online.Config){
		"plain": func(c *online.Config) { *c = plain() }, "experts": func(*online.Config) {}, "all scaled": func(c *online.Config) { c.Standardize = "all" },
		"silent": func(c *online.Config) { c.Noise = "silent:0.5" }, "groups": func(c *online.Config) { c.Noise = "group:0.3" },
	} {
		for kind, draw := range streams {
			s := draw(5)
			c := online.DefaultConfig()
			set(&c)
			l := newLearner(t, c, s.schema)
			learnsAsPredicted(t, name+", "+kind, l, s.next)
		}
		for _, classes := range []int{0, 2, 4} {
			s, draw := readingsOf(5, classes)
			c := online.DefaultConfig()
			if set(&c); classes == 0 && name == "groups" {
				continue // noise of groups is for classes
			}
			if classes == 0 {
				c.Loss = "squared"
			}
			learnsAsPredicted(t, name+", readings", newLearner(t, c, s), draw)
		}
	}
}

func learnsAsPredicted(t *testing.T, name string, l *online.Learner, draw func() *event.Example) {
	t.Helper()
	for n := range 1500 {
		e := draw()
		want := slices.Clone(l.Predict(e).Scores)
		got := l.Learn(e, nil).Scores
		if len(got) != len(want) || slices.Contains(want, mixture.NoClass) {
			continue // a class has arrived
		}
		for k := range want {
			if n == scaling.CurveEvents && math.Abs(got[k]-want[k]) < 1e-12 {
				continue // features are summed in another order because new ones die with them
			}
			if math.Float64bits(got[k]) != math.Float64bits(want[k]) {
				t.Errorf("%s: event %d, output %d: Predict says %v, Learn %v", name, n, k, want[k], got[k])
				return
			}
		}
	}
}
