package online_test

// This file tests changes of concept, forecasts, and the detection of wrong labels.

import (
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
	"math"
	"math/rand/v2"
	"testing"
)

// The detector raises no alarm without a change, and detects exchanged classes.
func TestDriftDetected(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer, c.Noise, c.Adapt, c.Average = "adagrad", "dropout:0.3", false, 0 // the other settings would adapt without it
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
			if i == 3999 && l.Report().Drift.Alarms > 0 {
				t.Errorf("an alarm without a cause: %+v", l.Report().Drift)
			}
		}
		d := l.Report().Drift
		if d.Alarms == 0 || d.Event < 4000 || d.After < d.Before {
			t.Errorf("the classes were exchanged after 4000 events: %+v", d)
		}
		final[c.OnDrift] = l.Report().Window.MeanLogLoss()
	}
	if final["forget"] > final["log"] || final["expert"] > final["log"] {
		t.Errorf("log-loss %v", final)
	}
}

// In t-logistic regression wrong labels have little influence.
func TestMislabeled(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.MislabeledBelow = "t-logistic:1.7", "none", 0.3
	l, s, r := streamed(t, c, 2), synthetic.NewStream(2, 2), rand.New(rand.NewPCG(1, 1))
	found, wrong, suspects := 0, 0, 0
	for i := range 6000 {
		e := s.Next()
		// Make the classes easy to separate, then flip one label in ten.
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
	if found < wrong*8/10 || suspects > wrong*12/10 {
		t.Errorf("%d mislabeled events, %d of the %d wrong labels among them", suspects, found, wrong)
	}
}

// Compares the forecast with the actual effect of deletion on the published weights.
func TestForecast(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 3} {
		c := online.DefaultConfig()
		c.Noise = "dropout:0.3"
		l, r := streamed(t, c, classes), rand.New(rand.NewPCG(6, 6))
		var actual [online.ForecastPoints]float64
		const warm, n = 2000, 6000
		e := &event.Example{Weight: 1}
		for i := range warm + n {
			e.Label = r.IntN(classes)
			e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
			for d := range uint32(60) {
				if x := r.NormFloat64() + 0.35*float64((e.Label*7+int(d))%3-1); x > 0 {
					e.Features.Index, e.Features.Value = append(e.Features.Index, d), append(e.Features.Value, min(x, 1))
				}
			}
			if i >= warm && i%8 == 0 {
				m := l.model()
				for point := range actual {
					d := online.ForecastMissing(point)
					kept := event.Example{}
					for j, column := range e.Features.Index {
						if r.Float64() >= d {
							kept.Features.Index = append(kept.Features.Index, column)
							kept.Features.Value = append(kept.Features.Value, e.Features.Value[j])
						}
					}
					if model.Predict(m.ScoreRescaled(&kept, 1/(1-d), make([]float64, m.Outputs))) != e.Label {
						actual[point] += 8.0 / n
					}
				}
			}
			l.Learn(e, nil)
		}
		// Standard errors are about 2 points for the actual deletion, more for masks.
		within := 0.06
		if classes > 2 {
			within = 0.12
		}
		for point, want := range actual {
			if got := l.Report().Forecast.Declared[point].Error; math.Abs(got-want) > within {
				t.Errorf("%d classes, %v missing: forecast %v, actual %v", classes, online.ForecastMissing(point), got, want)
			}
		}
	}
}

// flipped learns 10,500 events with ten normal features whose labels are exchanged at event 10,000. It returns the
// error between the 200th and the 500th event after that, in percent.
func flipped(t *testing.T, seed uint64, onDrift string, restarts bool) (wrong float64, l *learner) {
	t.Helper()
	const features = 10
	c := online.DefaultConfig()
	if onDrift != "" {
		c.OnDrift = onDrift
	}
	s := event.NewSchema(8, []string{"a", "b"}, 2)
	index, field := make([]uint32, features), make([]uint16, features)
	for i := range features {
		s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
		index[i], field[i] = uint32(i+1), uint16(i+1)
	}
	l = start(t, c, s)
	r := rand.New(rand.NewPCG(seed, 1))
	w := make([]float64, features)
	for i := range w {
		w[i] = r.NormFloat64()
	}
	for i := range 10_500 {
		e, f := &event.Example{Weight: 1, Features: event.Vec{Index: index}, Field: field}, 0.0
		for j := range w {
			x := r.NormFloat64()
			e.Features.Value, f = append(e.Features.Value, x), f+2*w[j]*x
		}
		if i >= 10_000 {
			f = -f
		}
		if r.Float64() < 1/(1+math.Exp(-f)) {
			e.Label = 1
		}
		if restarts && i >= 10_000 && i%41 == 0 {
			l = l.restored()
		}
		if score := l.Learn(e, nil).Scores[0]; i >= 10_200 && (score > 0) != (e.Label == 1) {
			wrong += 100. / 300
		}
	}
	return wrong, l
}

// After an abrupt change the default predicts well again within a few hundred events, with or without restarts.
func TestAbruptDrift(t *testing.T) {
	t.Parallel()
	wrong := map[string]float64{}
	seeds := 1
	if longtest.Asked() {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		for _, onDrift := range []string{"", "forget", "log"} {
			of, _ := flipped(t, seed, onDrift, false)
			wrong[onDrift] += of / float64(seeds)
		}
		once, a := flipped(t, seed, "", false)
		again, b := flipped(t, seed, "", true)
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{1, -1}}, Field: []uint16{1, 2}}
		if once != again || a.Predict(e).Scores[0] != b.Predict(e).Scores[0] {
			t.Errorf("seed %d: %v %% wrong, over restarts %v", seed, once, again)
		}
	}
	if !(wrong[""] < 13.5 && wrong[""] < wrong["forget"]-2 && wrong["forget"] < wrong["log"]-1) {
		t.Errorf("%% wrong 200 to 500 events after the change: %v", wrong)
	}
}

// After the first pass over a finite set an alarm has no effect.
func TestDriftAfterThePass(t *testing.T) {
	var scores [2]float64
	for i, onDrift := range []string{"forget", "log"} {
		c := online.DefaultConfig()
		c.OnDrift = onDrift
		s := event.NewSchema(8, []string{"a", "b"}, 2)
		for _, name := range []string{"x", "z"} {
			s.AddField(event.Field{Name: name, Kind: event.Numeric})
		}
		l := start(t, c, s)
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
		if l.Report().Drift.Alarms == 0 {
			t.Error("no alarm")
		}
		scores[i] = l.Predict(mislabeled(r, 0.1)).Scores[0]
	}
	if scores[0] != scores[1] {
		t.Errorf("scores %v, without what alarms do %v", scores[0], scores[1])
	}
}
