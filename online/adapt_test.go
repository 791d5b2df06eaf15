package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
)

// On a stream that stays what it is the average is published. When what the
// features mean changes at once, the iterate is, soon, and the average begins
// anew; once that has caught up it is published again.
func TestAverageOrIterate(t *testing.T) {
	c := DefaultConfig()
	c.Noise, c.Standardize = "none", "none"
	l := mustNew(t, c, 2)
	r := rand.New(rand.NewPCG(1, 2))
	const d = 200
	truth := make([]float64, d)
	for i := range truth {
		truth[i] = r.NormFloat64() / 6
	}
	learn := func(events int) {
		for range events {
			e := event.Example{Weight: 1}
			f := 0.0
			for i := range uint32(d) {
				x := r.NormFloat64()
				e.Features.Index, e.Features.Value = append(e.Features.Index, i), append(e.Features.Value, x)
				f += truth[i] * x
			}
			if r.Float64() < 1/(1+math.Exp(-f)) {
				e.Label = 1
			}
			l.Learn(&e, nil)
		}
	}
	a := &l.levels[0]
	learn(6000)
	if a.LagShare() != a.Coefficient || a.Taken != 6000 {
		t.Errorf("in a stream at rest: share of the average %v, which reaches back over %d steps", a.LagShare(), a.Taken)
	}
	for i := range truth {
		truth[i] = -truth[i]
	}
	learn(1000)
	if a.LagShare() != 0 || a.Taken >= 1000 {
		t.Errorf("1,000 events after the change: share of the average %v, which reaches back over %d steps", a.LagShare(), a.Taken)
	}
	learn(12_000)
	if a.LagShare() != a.Coefficient {
		t.Errorf("at rest again: share of the average %v", a.LagShare())
	}
}

// An event of many features that are new carries its own score to where loss and
// distance are least together; the plain step goes far beyond.
func TestProximalStep(t *testing.T) {
	for _, adapt := range []bool{false, true} {
		c := DefaultConfig()
		c.Noise, c.Standardize, c.Adapt = "none", "none", adapt
		l := mustNew(t, c, 2)
		e := event.Example{Label: 1, Weight: 1}
		for i := range uint32(500) {
			e.Features.Index, e.Features.Value = append(e.Features.Index, i), append(e.Features.Value, 1)
		}
		l.Learn(&e, nil)
		clear(l.now.step.F)
		l.resum()
		// All 501 gradients are -1/2 at f = 0, so the score moves by kappa for each
		// unit of the slope, which is 1/(1+exp(f)) at the end of a proximal step.
		kappa := 501 * l.set.eta / math.Sqrt(c.Start+0.25)
		want, tolerance := kappa/2, 1e-6
		if f := l.now.step.F[0]; adapt {
			want, tolerance = kappa/(1+math.Exp(f)), 0.05
		}
		if f := l.now.step.F[0]; math.Abs(f-want) > tolerance*want {
			t.Errorf("adapt = %v: the event's score is %v after learning it, want %v", adapt, f, want)
		}
	}
}
