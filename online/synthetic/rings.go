package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/eventtest"
)

// Rings draws n events of classes that are concentric rings in the first two of three fields. The third field is the
// sum of the others with noise, so that each can be imputed.
func Rings(n, classes int, seed uint64) []*event.Example {
	r := rand.New(rand.NewPCG(seed, 24))
	out := make([]*event.Example, n)
	for i := range out {
		class := r.IntN(classes)
		radius, angle := 1+float64(class)+0.3*r.NormFloat64(), 2*math.Pi*r.Float64()
		x, y := radius*math.Cos(angle), radius*math.Sin(angle)
		out[i] = eventtest.Event(class, x, y, x+y+0.1*r.NormFloat64())
	}
	return out
}
