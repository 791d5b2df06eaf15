package synthetic

import (
	"math/rand/v2"

	"blankout/internal/event"
)

// Drawn returns an event of two classes with one feature x. The label is 1 if x is positive.
func Drawn(r *rand.Rand) *event.Example {
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{0}, Value: []float64{r.NormFloat64()}}}
	if e.Features.Value[0] > 0 {
		e.Label = 1
	}
	return e
}
