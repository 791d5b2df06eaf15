package batch_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
)

// TestHalvesAreFair checks the comparison of a live model with an exact solution. An exact solution of a small sample
// overfits the sample, so the live model would seem much worse on these events. Solving on one half of the sample and
// measuring on the other half avoids this.
func TestHalvesAreFair(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	const columns, learned, size = 30, 100_000, 800
	r := rand.New(rand.NewPCG(3, 4))
	w := make([]float64, columns)
	for j := range w {
		w[j] = r.NormFloat64() / 3
	}
	made := func() *event.Example {
		e := &event.Example{Weight: 1}
		z := 0.0
		for j := range columns {
			x := r.NormFloat64()
			eventtest.Put(e, uint32(j), x)
			z += w[j] * x
		}
		if r.Float64() < 1/(1+math.Exp(-z)) {
			e.Label = 1
		}
		return e
	}
	config := online.DefaultConfig()
	config.Noise, config.Optimizer = "none", "adagrad" // no splines: one weight per column
	l := must.Get(online.New(config, event.NewSchema(18, []string{"no", "yes"}, 2)))(t)
	for range learned {
		l.Learn(made(), nil)
	}
	live := l.Snapshot().Model()
	var gaps [2]float64 // gap on the events that were solved, and gap on the two halves
	const rounds = 8
	spread := 0.0
	for range rounds {
		for halves := range 2 {
			v := batch.NewEvidence(live)
			for i := range size {
				e := made()
				e.Weight = float64(learned) / (size / 2)
				if i%2 == 0 {
					must.Do(t, v.Learned(e, e.Weight))
				} else {
					must.Do(t, v.HeldOut(e))
				}
			}
			c := batch.DefaultValidateConfig()
			c.Loss, c.Noise, c.HalfSample, c.Deletions = live.Loss, live.Noise, halves == 1, nil
			report, _ := must.Get2(v.Validate(context.Background(), c))(t)
			gaps[halves] += *report.RelativeGap / rounds
			if spread += report.GapError; (report.GapError > 0) != c.HalfSample || report.MeasuredOn != map[bool]string{true: "sample", false: "holdout"}[c.HalfSample] {
				t.Errorf("halves %v: %+v", c.HalfSample, report)
			}
		}
	}
	t.Logf("gaps %v, told error %v", gaps, spread/rounds)
	// 30 weights for 400 events overfit by about 30/800 nats, while the loss is about 0.5 nats. The overfitting is
	// larger than the true gap.
	if gaps[0] < 0.04 || math.Abs(gaps[1]) > gaps[0]/4 {
		t.Errorf("the mean gap is %.4f, of halves %.4f", gaps[0], gaps[1])
	}
}
