package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// numberEvents returns events with five correlated fields that determine the targets.
func numberEvents(n int, target loss.Target, seed uint64) (*event.Schema, []event.Example) {
	s := event.NewSchema(8, nil, 2)
	s.Target = target
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	r := rand.New(rand.NewPCG(seed, 6))
	out := make([]event.Example, n)
	for i := range out {
		a, b := r.NormFloat64(), r.NormFloat64()
		x := []float64{a + 0.5*r.NormFloat64(), 3 + 2*a + b, b + 0.5*r.NormFloat64(), 100 * (a - b + 0.5*r.NormFloat64()), r.NormFloat64()}
		f := x[0] - x[1]/2 + x[2] + x[3]/200 + x[4]
		e := event.Example{Target: 1000 + 50*(f+0.4*r.NormFloat64()), Weight: 1, Field: []uint16{1, 2, 3, 4, 5},
			Features: event.Vec{Index: []uint32{1, 2, 3, 4, 5}, Value: x}}
		if target == loss.Count {
			e.Target = 0
			for at := r.ExpFloat64(); at < 20*math.Exp(f/4); at += r.ExpFloat64() {
				e.Target++
			}
		}
		out[i] = e
	}
	return s, out
}

// TestExactIntervalCoversWhatIsMissing checks that the interval of an exact model contains 90 % of the targets for any
// number of missing fields. It trains on events with and without missing fields. If no training event has missing
// fields, the missing policy must be "impute".
func TestExactIntervalCoversWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range []string{"linear", "absolute", "poisson"} {
		for _, lacked := range []float64{0, 0.3} {
			for _, policy := range []model.MissingPolicy{model.MissingAuto, model.MissingNone} {
				s, events := numberEvents(4000, loss.LabelsOf(lossName), 5)
				r := rand.New(rand.NewPCG(1, 8))
				blank := func(e *event.Example, fraction float64) *event.Example {
					return kill(e, func(uint16) bool { return r.Float64() < fraction })
				}
				var b Builder
				var p Presence
				fit := Standardizer{Mode: model.StandardizeAll}
				for i := range events {
					e := blank(&events[i], lacked)
					e.Target = events[i].Target
					p.Add(e)
					fit.Observe(e, s)
					must.Do(t, b.Add(e))
				}
				d, scaler := must.Get2(fit.Fit(b.Data(s)))(t)
				c := DefaultConfig()
				c.Loss, c.L2 = lossName, 1
				f := must.Get(Train(t.Context(), d, c))(t)
				m := f.Model.WithScaler(scaler)
				m = m.WithCovariance(p.Covariance(m, d, 256))
				m.Missing = p.Missing(m, d, policy)
				m.Residual = p.Residual(m, d)
				if got := m.Missing.Policies[2].Largest(); policy == model.MissingAuto && lacked == 0 && got != model.MissingImpute {
					t.Errorf("%s: events that lack three tenths are answered by %s", lossName, got)
				}
				_, fresh := numberEvents(3000, s.Target, 6)
				for _, fraction := range []float64{0, 0.1, 0.3} {
					t.Run(fmt.Sprintf("%s/%s/trained with %v/%v", lossName, policy, lacked, fraction), func(t *testing.T) {
						in := 0.0
						for i := range fresh {
							e := blank(&fresh[i], fraction)
							value := m.Value(m.Score(e, make([]float64, 1))[0])
							low, high := m.Interval(value, model.ScoreVariance(m, e))
							if y := fresh[i].Target; low <= y && y <= high {
								in++
							}
						}
						in /= float64(len(fresh))
						if !(in > 0.86 && in < 0.93) {
							t.Errorf("%.3f of the targets lie within their interval", in)
						}
					})
				}
			}
		}
	}
}
