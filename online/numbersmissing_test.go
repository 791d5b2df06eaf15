package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// correlated draws events with five fields that go together, and their targets.
func correlated(n int, target loss.Target) []*event.Example {
	r := rand.New(rand.NewPCG(5, 6))
	out := make([]*event.Example, n)
	for i := range out {
		a, b := r.NormFloat64(), r.NormFloat64()
		x := []float64{a + 0.5*r.NormFloat64(), 3 + 2*a + b, b + 0.5*r.NormFloat64(), 100 * (a - b + 0.5*r.NormFloat64()), r.NormFloat64()}
		f := x[0] - x[1]/2 + x[2] + x[3]/200 + x[4]
		e := &event.Example{Target: 1000 + 50*(f+0.4*r.NormFloat64()), Weight: 1, Field: []uint16{1, 2, 3, 4, 5},
			Features: event.Vec{Index: []uint32{1, 2, 3, 4, 5}, Value: x}}
		if target == loss.Count {
			e.Target = poissonDraw(r, 20, f/4)
		}
		out[i] = e
	}
	return out
}

// poissonDraw draws a count whose expectation is mean e^f.
func poissonDraw(r *rand.Rand, mean, f float64) (count float64) {
	for at := r.ExpFloat64(); at < mean*math.Exp(f); at += r.ExpFloat64() {
		count++
	}
	return count
}

// blanked returns copies of events of which each field is null with the given chance.
func blanked(events []*event.Example, chance float64, seed uint64) []*event.Example {
	r := rand.New(rand.NewPCG(seed, 8))
	out := make([]*event.Example, len(events))
	for i, e := range events {
		c := *e
		c.Field, c.Features = nil, event.Vec{}
		for j, id := range e.Field {
			if r.Float64() < chance {
				c.Missing = append(c.Missing, id)
				continue
			}
			c.Field = append(c.Field, id)
			c.Features.Index = append(c.Features.Index, e.Features.Index[j])
			c.Features.Value = append(c.Features.Value, e.Features.Value[j])
		}
		out[i] = &c
	}
	return out
}

// Nine of ten targets lie within their interval, however much an event lacks, whether
// events lacked as much when they were learned or nothing.
func TestIntervalCoversWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for i, lossName := range []string{"squared", "absolute", "poisson"} {
		for j, learned := range []float64{0, 0.3} {
			for k, missing := range []model.MissingPolicy{"auto", "none"} {
				if !longtest.Some(i+j+k, 2) {
					continue
				}
				c := DefaultConfig()
				c.Loss, c.MissingPolicy = lossName, string(missing)
				s := event.NewSchema(8, nil, 2)
				s.Target = loss.LabelsOf(lossName)
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					s.AddField(event.Field{Name: name, Kind: event.Numeric})
				}
				l, err := New(c, s)
				if err != nil {
					t.Fatal(err)
				}
				events := correlated(9000, s.Target)
				for _, e := range blanked(events[:6000], learned, 1) {
					l.Learn(e, nil)
				}
				m := l.Published()
				if got := m.Missing.Policies[2].Largest(); missing == "auto" && got != model.MissingImpute {
					t.Errorf("%s: events that lack three tenths are answered by %s, where filling in halves the error", lossName, got)
				}
				for _, share := range []float64{0, 0.1, 0.3} {
					t.Run(fmt.Sprintf("%s/%s/learned with %v/%v", lossName, missing, learned, share), func(t *testing.T) {
						in := 0.0
						for _, e := range blanked(events[6000:], share, 2) {
							value := m.Value(m.Score(e, make([]float64, 1))[0])
							low, high := m.Interval(value, model.ScoreVariance(m, e))
							if low <= e.Target && e.Target <= high {
								in++
							}
						}
						in /= 3000
						if !(in > 0.87 && in < 0.93) {
							t.Errorf("%.3f of the targets lie within their interval", in)
						}
					})
				}
			}
		}
	}
}
