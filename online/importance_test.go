package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/optimizers"
)

func classifier(t *testing.T, rule string, classes int) *online.Learner {
	t.Helper()
	c := online.DefaultConfig()
	if c.Optimizer = rule; rule == "irls" {
		c.IRLSBatch = 200
	}
	if rule == "dropout-descent" || rule == "irls" {
		c.Noise = "dropout:0.3"
	}
	return newLearner(t, c, eventtest.Schema(2, "", []string{"a", "b", "c"}[:classes]...))
}

func labeled(r *rand.Rand, classes int) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	label := 0
	if x > 0 {
		label = 1
	}
	if classes == 3 && z > 1 {
		label = 2
	}
	return eventtest.Event(label, x, z)
}

// TestOneWrongEventOfGreatWeight adds one mislabeled event with a large weight at different positions of the stream.
// The learner must recover from it at each position.
func TestOneWrongEventOfGreatWeight(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for i, rule := range optimizers.Names() {
		for j, classes := range []int{2, 3} {
			if !longtest.Some(i+j, 2) {
				continue
			}
			clean := 0.0
			for k, at := range []int{-1, 0, 2000} {
				if k > 0 && !longtest.Some(i/2+k, 2) {
					continue
				}
				l, r := classifier(t, rule, classes), rand.New(rand.NewPCG(1, 2))
				for i := range 12000 {
					e := labeled(r, classes)
					if i == at {
						e.Weight, e.Label = 1e6, 1-min(e.Label, 1)
					}
					l.Learn(e, nil)
				}
				wrong, m := 0.0, l.Snapshot().Model()
				for range 4000 {
					e := labeled(r, classes)
					scores := m.Score(e, make([]float64, m.Outputs))
					if model.Predict(scores) != e.Label {
						wrong += 100. / 4000
					}
				}
				if at < 0 {
					clean = wrong
				}
				if wrong > clean+0.6 {
					t.Errorf("%s, %d classes, at %d: %.2f %% wrong, without %.2f", rule, classes, at, wrong, clean)
				}
			}
		}
	}
}
