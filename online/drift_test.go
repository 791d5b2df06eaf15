package online_test

// This file tests concept changes, forecasts, and the detection of wrong labels.

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// TestDriftDetected checks the drift detector. It must raise no alarm without a concept change, and must raise an alarm
// when the classes are exchanged.
func TestDriftDetected(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer, c.Noise, c.Adapt, c.Average = "adagrad", "dropout:0.3", false, 0 // the default settings would adapt without an alarm
	final := map[string]float64{}
	for _, c.OnDrift = range []string{"log", "forget", "expert"} {
		l, s := streamed(t, c, 2), synthetic.NewStream(21, 2)
		for i := range 6000 {
			e := s.Next()
			e.Weight = 1
			if i >= 4000 {
				e.Label = 1 - e.Label
			}
			l.Learn(e, nil)
			if i == 3999 {
				must.Equal(t, l.Report().Drift.Alarms, 0, "alarms without a cause")
			}
		}
		d := l.Report().Drift
		must.True(t, d.Alarms != 0 && d.Event >= 4000 && d.After >= d.Before, "the classes were exchanged after 4000 events: %+v", d)
		final[c.OnDrift] = l.Report().Window.MeanLogLoss()
	}
	must.True(t, final["forget"] <= final["log"] && final["expert"] <= final["log"], "log-loss %v", final)
}

// TestMislabeled checks that wrong labels have little influence with the t-logistic loss.
func TestMislabeled(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.MislabeledBelow = "t-logistic:1.7", "none", 0.3
	l, s, r := streamed(t, c, 2), synthetic.NewStream(2, 2), rand.New(rand.NewPCG(1, 1))
	found, wrong, suspects := 0, 0, 0
	for i := range 6000 {
		e := s.Next()
		// Make the classes easy to separate, then flip the label of one event in ten.
		e.Features.Value[0] = 20 * float64(e.Label)
		flipped := r.IntN(10) == 0
		if flipped {
			e.Label = 1 - e.Label
		}
		p := l.Learn(e, nil)
		if i < 2000 {
			continue
		}
		if flipped {
			wrong++
		}
		if p.Mislabeled != nil {
			suspects++
			if flipped {
				found++
			}
		}
	}
	must.True(t, found >= wrong*8/10 && suspects <= wrong*12/10, "%d mislabeled events, %d of the %d wrong labels among them", suspects, found, wrong)
}

// flipped learns 10,500 events with ten normal features. From event 10,000 on, the labels are exchanged. flipped
// returns the error from event 10,200 to 10,500, in percent.
func flipped(t *testing.T, seed uint64, onDrift string, restarts bool) (wrong float64, l *learner) {
	t.Helper()
	const features = 10
	c := online.DefaultConfig()
	if onDrift != "" {
		c.OnDrift = onDrift
	}
	l = start(t, c, eventtest.Schema(features, "", "a", "b"))
	r := rand.New(rand.NewPCG(seed, 1))
	w := must.List(features, func(int) float64 { return r.NormFloat64() })
	for i := range 10_500 {
		x, f := make([]float64, features), 0.0
		for j := range w {
			x[j] = r.NormFloat64()
			f += 2 * w[j] * x[j]
		}
		e := eventtest.Event(0, x...)
		if i >= 10_000 {
			f = -f
		}
		e.Label = must.Either(r.Float64() < 1/(1+math.Exp(-f)), 1, 0)
		if restarts && i >= 10_000 && i%41 == 0 {
			l = l.restored()
		}
		if score := l.Learn(e, nil).Scores[0]; i >= 10_200 && (score > 0) != (e.Label == 1) {
			wrong += 100. / 300
		}
	}
	return wrong, l
}

// TestAbruptDrift checks that the default settings predict well within a few hundred events after an abrupt concept
// change, with and without restarts.
func TestAbruptDrift(t *testing.T) {
	t.Parallel()
	wrong := map[string]float64{}
	seeds := must.Either(longtest.Asked(), 3, 1)
	for seed := range uint64(seeds) {
		for _, onDrift := range []string{"forget", "log"} {
			of, _ := flipped(t, seed, onDrift, false)
			wrong[onDrift] += of / float64(seeds)
		}
		once, a := flipped(t, seed, "", false)
		wrong[""] += once / float64(seeds)
		again, b := flipped(t, seed, "", true)
		e := eventtest.Event(0, 1, -1)
		must.True(t, once == again && a.Predict(e).Scores[0] == b.Predict(e).Scores[0], "seed %d: %v %% wrong, over restarts %v", seed, once, again)
	}
	must.True(t, wrong[""] < 13.5 && wrong[""] < wrong["forget"]-1 && wrong["forget"] < wrong["log"]-1, "%% wrong 200 to 500 events after the change: %v", wrong)
}

// TestDriftAfterThePass checks that an alarm has no effect after the first pass over a finite data set.
func TestDriftAfterThePass(t *testing.T) {
	var scores [2]float64
	for i, onDrift := range []string{"forget", "log"} {
		c := online.DefaultConfig()
		c.OnDrift = onDrift
		l := start(t, c, eventtest.Schema(2, "", "a", "b"))
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 4000 {
			if n == 2000 {
				l.EndPass()
			}
			e := mislabeled(r, 0.1)
			if n >= 3000 {
				e.Label = 1 - e.Label
			}
			l.Learn(e, nil)
		}
		must.True(t, l.Report().Drift.Alarms != 0, "no alarm")
		scores[i] = l.Predict(mislabeled(r, 0.1)).Scores[0]
	}
	must.True(t, scores[0] == scores[1], "scores %v, without what alarms do %v", scores[0], scores[1])
}
