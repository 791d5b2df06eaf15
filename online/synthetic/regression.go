package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// NumbersOf draws events with three numeric fields. One field has a large effect, and one has a small effect. The
// targets are 1000 + 50 (2 a - b) + noise, or counts.
func NumbersOf(n int, target loss.Target, unit float64) []*event.Example {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([]*event.Example, n)
	for i := range out {
		x := []float64{r.NormFloat64(), 3 + 2*r.NormFloat64(), r.NormFloat64()}
		f := 2*x[0] - (x[1]-3)/2
		y := unit * (1000 + 50*(f+0.3*r.NormFloat64()))
		if target == loss.Count {
			y = math.Floor(math.Exp(0.3*f+1) + r.Float64())
		}
		out[i] = &event.Example{Target: y, Weight: 1, Features: event.Vec{Index: []uint32{1, 2, 3}, Value: x}, Field: []uint16{1, 2, 3}}
	}
	return out
}

func NumberSchema(target loss.Target) *event.Schema {
	s := event.NewSchema(8, nil, 2)
	s.Target = target
	for _, name := range []string{"a", "b", "c"} {
		s.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	return s
}

var NumberLosses = []string{"squared", "absolute", "quantile:0.8", "huber:1", "poisson", "poisson:quadratic-noising"}
