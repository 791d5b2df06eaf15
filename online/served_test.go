package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/online"
)

// TestExpertsAreWeighedAsServed checks that experts get no weight for what calibration makes good anyway. A line separates
// the classes and one label of ten is wrong, so that only the steepness of the scores is to be corrected.
func TestExpertsAreWeighedAsServed(t *testing.T) {
	longtest.NotRaced(t)
	lost := func(optimizer string) (sum float64) {
		for seed := range uint64(3) {
			c := online.DefaultConfig()
			c.Optimizer = optimizer
			l := newLearner(t, c, eventtest.Schema(3, "", "no", "yes"))
			r := rand.New(rand.NewPCG(seed, 7))
			for i := range 16_000 {
				x := []float64{10 * r.Float64(), 10 * r.Float64(), 10 * r.Float64()}
				label := 0
				if (x[0]+x[1] > 8+0.5*float64(i/4000)) != (r.Float64() < 0.1) {
					label = 1
				}
				p := l.Learn(eventtest.Event(label, x...), nil)
				sum += p.Decision.LogLoss(p.Scores, label)
			}
		}
		return sum / (3 * 16_000)
	}
	with, without := lost("auto"), lost("adagrad")
	if with > without-0.0002 { // weighed by losses before calibration they cost 0.0001
		t.Errorf("with experts %.4f nats, without %.4f", with, without)
	}
}
