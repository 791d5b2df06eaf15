package simulate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/must"
	"blankout/online"
)

// delayEvents returns a stream of two classes that are exchanged halfway. Some events have no label.
func delayEvents(n int) (*event.Schema, []event.Example) {
	s := event.NewSchema(10, []string{"no", "yes"}, 2)
	r := rand.New(rand.NewPCG(3, 3))
	var events []event.Example
	for i := range n {
		x, y := r.NormFloat64(), r.NormFloat64()
		label := 0
		if (x > 0.2*r.NormFloat64()) == (i < n/2) {
			label = 1
		}
		if i%29 == 7 {
			label = event.Unlabeled
		}
		events = append(events, event.Example{Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, y}}, Label: label, Weight: 1 + float64(i%3), Offset: int64(i)})
	}
	return s, events
}

// slowDelay is the slow reference of Learn. After each event it checks all labels that have not yet arrived.
func slowDelay(t *testing.T, d Delay, c online.Config, s *event.Schema, events []event.Example, seed uint64) (m online.Report, fresh measure.Classes, atEnd uint64) {
	t.Helper()
	l := must.Get(online.New(c, s.Clone()))(t)
	r := rand.New(rand.NewPCG(seed, 0xde1a7))
	prior := map[int][]float64{}
	at := map[int]float64{}
	pass := func(now float64) (n uint64) {
		for {
			first := -1
			for i, a := range at {
				if a <= now && (first < 0 || a < at[first] || a == at[first] && i < first) {
					first = i
				}
			}
			if first < 0 {
				return n
			}
			delete(at, first)
			p := must.Get(online.ReadPrediction(prior[first]))(t)
			p = l.Learn(&events[first], &p)
			p.Measure(&events[first], &fresh)
			n++
		}
	}
	for i := range events {
		if events[i].Label == event.Unlabeled {
			l.Learn(&events[i], nil)
			continue
		}
		p := l.Predict(&events[i])
		prior[i] = p.Append(nil)
		at[i] = float64(i) + d.draw(r)
		pass(float64(i))
	}
	atEnd = pass(math.Inf(1))
	return l.Report(), fresh, atEnd
}

func TestDelayAgainstSlowVersion(t *testing.T) {
	s, events := delayEvents(1200)
	c := online.DefaultConfig()
	c.Noise = "dropout:0.2"
	var before float64
	for _, text := range []string{"0", "fixed:1", "fixed:40.5", "exponential:60", "lognormal:20:1.5", "ties"} {
		d, err := ParseDelay(text)
		if text == "ties" {
			d, err = Delay{draw: func(r *rand.Rand) float64 { return float64(r.IntN(4)) }}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		got := must.Get(d.Learn(t.Context(), c, s, events, 7, 12))(t)
		m, fresh, atEnd := slowDelay(t, d, c, s, events, 7)
		if got.Error != 100*m.Total.Error() || got.LogLoss != m.Total.MeanLogLoss() || got.LearningError != 100*fresh.Error() || got.LearningLogLoss != fresh.MeanLogLoss() || got.AtEnd != atEnd {
			t.Errorf("%s: %+v, want %+v, %+v, %d", text, got, m.Total, fresh, atEnd)
		}
		// The mean over the stretches must be the error of all events.
		var wrong, weight float64
		for bin, e := range got.Over {
			var w float64
			for i := range events {
				if i*12/len(events) == bin && events[i].Label != event.Unlabeled {
					w += events[i].Weight
				}
			}
			wrong, weight = wrong+e*w, weight+w
		}
		if math.Abs(wrong/weight-got.Error) > 1e-9 {
			t.Errorf("%s: stretches of %v, all %v", text, wrong/weight, got.Error)
		}
		if text == "fixed:40.5" && (got.AtEnd != 39 && got.AtEnd != 40 && got.AtEnd != 38) || text == "0" && got.AtEnd != 0 {
			t.Errorf("%s: %d labels after the end", text, got.AtEnd)
		}
		if (text == "fixed:1" || text == "fixed:40.5") && got.Error <= before {
			t.Errorf("%s: error %v, %v with a smaller delay, although the stream turns round", text, got.Error, before)
		}
		before = got.Error
	}
}

// TestDelayOfRegression checks that, for regression, MAE and RMSE measure the predictions at arrival.
func TestDelayOfRegression(t *testing.T) {
	_, events := delayEvents(1200)
	s := event.NewSchema(10, nil, 2)
	s.Target = loss.Real
	for i := range events {
		if e := &events[i]; e.Label >= 0 {
			e.Target, e.Label = 50+3*e.Features.Value[0]*float64(2*e.Label-1)+e.Features.Value[1], 0
		}
	}
	c := online.DefaultConfig()
	c.Loss, c.Noise = "squared", "dropout:0.2"
	before := 0.0
	for _, text := range []string{"0", "fixed:1", "exponential:60"} {
		d := must.Get(ParseDelay(text))(t)
		got := must.Get(d.Learn(t.Context(), c, s, events, 7, 12))(t)
		m, fresh, atEnd := slowDelay(t, d, c, s, events, 7)
		want := &m.Numbers.Total
		if got.DelayedClasses != nil || got.MAE != want.MAE() || got.RMSE != want.RMSE() || got.LearningMAE != fresh.Error() || got.AtEnd != atEnd {
			t.Errorf("%s: %+v, want %v, %v, %v, %d", text, got.DelayedNumbers, want.MAE(), want.RMSE(), fresh.Error(), atEnd)
		}
		skipped := -want.Weight // events before the first label, all in the first bin
		for i := range events {
			if events[i].Label != event.Unlabeled {
				skipped += events[i].Weight
			}
		}
		var sum, weight float64
		for bin, mae := range got.Over {
			var w float64
			for i := range events {
				if i*12/len(events) == bin && events[i].Label != event.Unlabeled {
					w += events[i].Weight
				}
			}
			if bin == 0 {
				w -= skipped
			}
			sum, weight = sum+mae*w, weight+w
		}
		if math.Abs(sum/weight-got.MAE) > 1e-9 {
			t.Errorf("%s: stretches of %v, all %v", text, sum/weight, got.MAE)
		}
		if got.MAE <= before {
			t.Errorf("%s: MAE %v, %v with a smaller delay, although the stream turns round", text, got.MAE, before)
		}
		before = got.MAE
	}
}

// TestNoDelayIsLearn checks that the result with delay 0 is the same as for a learner without delayed labels.
func TestNoDelayIsLearn(t *testing.T) {
	s, events := delayEvents(800)
	c := online.DefaultConfig()
	d := must.Get(ParseDelay("0"))(t)
	got := must.Get(d.Learn(t.Context(), c, s, events, 1, 4))(t)
	l := must.Get(online.New(c, s.Clone()))(t)
	for i := range events {
		l.Learn(&events[i], nil)
	}
	if m := l.Report(); got.Error != 100*m.Total.Error() || math.Abs(got.LogLoss-m.Total.MeanLogLoss()) > 1e-12 || got.LearningError != got.Error {
		t.Errorf("%+v, want %+v", got, m.Total)
	}
}

func TestParseDelay(t *testing.T) {
	for text, mean := range map[string]float64{"0": 0, "fixed:3": 3, "exponential:50": 50, "lognormal:20:0.5": 20 * math.Exp(0.125)} {
		d, err := ParseDelay(text)
		if err != nil || d.Name != text || d.mean != mean {
			t.Errorf("%s: %+v, %v", text, d, err)
			continue
		}
		r := rand.New(rand.NewPCG(1, 1))
		sum := 0.0
		for range 40_000 {
			sum += d.draw(r)
		}
		if math.Abs(sum/40_000-mean) > 0.03*mean {
			t.Errorf("%s: mean %v of what is drawn, want %v", text, sum/40_000, mean)
		}
	}
	for _, text := range []string{"", "1", "fixed", "fixed:", "fixed:-1", "fixed:1:2", "fixed:NaN", "exponential:x", "lognormal:3", "lognormal:1:11", "normal:1"} {
		if _, err := ParseDelay(text); err == nil || !strings.Contains(err.Error(), "lognormal:MEDIAN:SIGMA") {
			t.Errorf("%q: %v", text, err)
		}
	}
	var b bytes.Buffer
	if err := DelayTable(&b, []*Delayed{{Delay: "fixed:3", Mean: 3, DelayedClasses: &DelayedClasses{Error: 12.5, LogLoss: 0.25, LearningError: 10}, Events: 100, AtEnd: 3}}); err != nil || !strings.Contains(b.String(), "| fixed:3 | 3 | 12.50 | 0.2500 | 10.00 | 3 of 100 |") {
		t.Errorf("%s%v", b.String(), err)
	}
}
