package synthetic

import (
	"math/rand/v2"

	"blankout/internal/event"
)

// Gauges is a stream of two classes with twelve readings that are far from 0. Each reading is omitted with a
// probability.
type Gauges struct {
	R       *rand.Rand
	Missing float64
}

func (s *Gauges) Next() *event.Example {
	e := &event.Example{Weight: 1, Label: s.R.IntN(2)}
	for c := range uint32(12) {
		x := 20 + 0.5*float64(2*e.Label-1) + s.R.NormFloat64()
		if s.R.Float64() >= s.Missing {
			e.Features.Index, e.Features.Value = append(e.Features.Index, c), append(e.Features.Value, x)
		}
	}
	return e
}
