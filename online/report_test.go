package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// The lazy half-life against a metric that shrinks at every event.
func TestHalfLife(t *testing.T) {
	for _, rule := range []string{"adagrad", "dropout-descent", "irls"} {
		c := DefaultConfig()
		c.Optimizer, c.Noise, c.HalfLife = rule, "dropout:0.3", 20
		if rule == "irls" {
			c.IRLSBatch = 30
		}
		lazy := mustNew(t, c, 2)
		eager := c
		eager.HalfLife = 0
		slow := mustNew(t, eager, 2)
		s := newStream(9, 2)
		for i := range 400 {
			e := s.next()
			slow.forget(math.Exp2(-1.0 / 20))
			if i == 200 { // the rebasing must not be seen
				lazy.forget(1 / lazy.fade.Growth)
				lazy.fade.Growth = 1
			}
			a, b := lazy.Learn(e, nil).Scores[0], slow.Learn(e, nil).Scores[0]
			if math.Abs(a-b) > 1e-9*(1+math.Abs(b)) {
				t.Fatalf("%s, event %d: score %v, want %v", rule, i, a, b)
			}
		}
	}
}

// A half-life in event time: gaps fade by their length, what comes late or
// without a time fades nothing, and a long gap forgets no more than everything.
func TestHalfLifeTime(t *testing.T) {
	for _, rule := range []string{"adagrad", "dropout-descent"} {
		c := DefaultConfig()
		c.Optimizer, c.Noise, c.HalfLifeTime, c.HalfLifeStep = rule, "dropout:0.3", 60, 4000
		lazy := mustNew(t, c, 2)
		eager := c
		eager.HalfLifeTime, eager.HalfLifeStep = 0, 0
		slow := mustNew(t, eager, 2)
		s, r := newStream(9, 2), rand.New(rand.NewPCG(3, 4))
		now, latest := int64(1_700_000_000_000), int64(0)
		for i := range 400 {
			e := s.next()
			now += int64(r.IntN(20_000))
			switch e.Time = now; {
			case i%10 == 3:
				e.Time = 0
			case i%10 == 5:
				e.Time = now - 40_000
			case i == 300:
				now += 1000 * 60 * 50
				e.Time = now
			}
			if e.Time > latest {
				if latest > 0 {
					slow.forget(math.Exp2(-float64(e.Time-latest) / 60_000))
				}
				latest = e.Time
			}
			a, b := lazy.Learn(e, nil).Scores[0], slow.Learn(e, nil).Scores[0]
			if math.Abs(a-b) > 1e-9*(1+math.Abs(b)) {
				t.Fatalf("%s, event %d: score %v, want %v", rule, i, a, b)
			}
		}
	}
}

// The detector keeps quiet while nothing changes and sees the classes exchanged.
func TestDrift(t *testing.T) {
	c := DefaultConfig()
	c.Optimizer, c.Noise, c.Adapt, c.Average = "adagrad", "dropout:0.3", false, 0 // the rest would adapt by itself
	final := map[string]float64{}
	for _, c.OnDrift = range []string{"log", "forget", "expert"} {
		l, s := mustNew(t, c, 2), newStream(21, 2)
		for i := range 6000 {
			e := s.next()
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
	c := DefaultConfig()
	c.Loss, c.Noise, c.MislabeledBelow = "t-logistic:1.7", "none", 0.3
	l, s, r := mustNew(t, c, 2), newStream(2, 2), rand.New(rand.NewPCG(1, 1))
	found, wrong, suspects := 0, 0, 0
	for i := range 6000 {
		e := s.next()
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
		c := DefaultConfig()
		c.Noise = "dropout:0.3"
		l, r := mustNew(t, c, classes), rand.New(rand.NewPCG(6, 6))
		var actual [ForecastPoints]float64
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
				m := l.Published()
				for point := range actual {
					d := ForecastMissing(point)
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
				t.Errorf("%d classes, %v missing: forecast %v, actual %v", classes, ForecastMissing(point), got, want)
			}
		}
	}
}

// A warning says the same after a restart, figures included.
func TestWarningSurvivesRestart(t *testing.T) {
	c := DefaultConfig()
	l, s := mustNew(t, c, 2), newStream(3, 2)
	for range 10 {
		l.Learn(s.next(), nil)
	}
	for i := range 2000 {
		l.watch.Prior.Take(i%2, 1, 3.5, 0, uint64(i))
	}
	want := l.Warnings(nil, true)
	if len(want) != 1 {
		t.Fatalf("%+v", want)
	}
	blocks, err := l.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(c, blocks)
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Warnings(nil, true); !slices.Equal(got, want) {
		t.Errorf("restored: %+v\nwant %+v", got, want)
	}
}
