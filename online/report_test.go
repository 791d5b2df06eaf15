package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
)

// The detector keeps quiet while nothing changes and sees the classes exchanged.
func TestDrift(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer, c.Noise, c.Adapt, c.Average = "adagrad", "dropout:0.3", false, 0 // the rest would adapt by itself
	final := map[string]float64{}
	for _, c.OnDrift = range []string{"log", "forget", "expert"} {
		l, s := mustNew(t, c, 2), synthetic.NewStream(21, 2)
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

// With t-logistic regression wrong labels have little influence.
func TestMislabeled(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.MislabeledBelow = "t-logistic:1.7", "none", 0.3
	l, s, r := mustNew(t, c, 2), synthetic.NewStream(2, 2), rand.New(rand.NewPCG(1, 1))
	found, wrong, suspects := 0, 0, 0
	for i := range 6000 {
		e := s.Next()
		// Make the classes easy to tell, and then one label of ten wrong.
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

// The forecast against what deletion really does to the published weights.
func TestForecast(t *testing.T) {
	for _, classes := range []int{2, 3} {
		c := online.DefaultConfig()
		c.Noise = "dropout:0.3"
		l, r := mustNew(t, c, classes), rand.New(rand.NewPCG(6, 6))
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
				m := l.Snapshot().Model()
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
