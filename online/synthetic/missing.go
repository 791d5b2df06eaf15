package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Correlated draws n events with five correlated fields, and with targets of the given kind.
func Correlated(n int, target loss.Target) []*event.Example {
	r := rand.New(rand.NewPCG(5, 6))
	out := make([]*event.Example, n)
	for i := range out {
		a, b := r.NormFloat64(), r.NormFloat64()
		x := []float64{a + 0.5*r.NormFloat64(), 3 + 2*a + b, b + 0.5*r.NormFloat64(), 100 * (a - b + 0.5*r.NormFloat64()), r.NormFloat64()}
		f := x[0] - x[1]/2 + x[2] + x[3]/200 + x[4]
		e := &event.Example{Target: 1000 + 50*(f+0.4*r.NormFloat64()), Weight: 1, Field: []uint16{1, 2, 3, 4, 5},
			Features: event.Vec{Index: []uint32{1, 2, 3, 4, 5}, Value: x}}
		if target == loss.Count {
			e.Target = PoissonDraw(r, 20, f/4)
		}
		out[i] = e
	}
	return out
}

// PoissonDraw draws a count whose expectation is mean e^f.
func PoissonDraw(r *rand.Rand, mean, f float64) (count float64) {
	for at := r.ExpFloat64(); at < mean*math.Exp(f); at += r.ExpFloat64() {
		count++
	}
	return count
}

// Blanked returns copies of events in which each field is null with the given probability.
func Blanked(events []*event.Example, chance float64, seed uint64) []*event.Example {
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
