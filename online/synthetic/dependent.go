package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// SilentStream returns a stream of two or three classes, with five numbers and a category. The first number is around
// 10, the second is 0 in half of the events, the third needs a transform, the fourth has a nonlinear effect, and the
// fifth is rarely present.
func SilentStream(classes int) (*event.Schema, func() *event.Example) {
	s := event.NewSchema(12, []string{"a", "b", "c"}[:classes], classes)
	names := []string{"around", "zeros", "heavy", "bent", "seldom", "kind"}
	for id, name := range names {
		f := event.Field{Name: name, Kind: event.Numeric, Column: uint32(1 + id)}
		if name == "kind" {
			f.Kind = event.Categorical
		}
		if id < 2 {
			f.Group = "first"
		}
		s.AddField(f)
	}
	r := rand.New(rand.NewPCG(7, 11))
	return s, func() *event.Example {
		class := r.IntN(classes)
		z := float64(class) - 0.5*float64(classes-1)
		x := []float64{10 + z + r.NormFloat64(), 0, math.Exp(3*r.NormFloat64() + z), z*z + r.NormFloat64(), z + r.NormFloat64(), 1}
		if r.IntN(2) == 0 {
			x[1] = 3 + z + r.NormFloat64()
		}
		e := &event.Example{Label: class, Weight: 1}
		for id, v := range x {
			column := uint32(1 + id)
			switch {
			case names[id] == "seldom" && r.IntN(4) > 0:
				continue
			case names[id] == "kind":
				column = 20 + uint32(r.IntN(2)*class)
			}
			e.Field, e.Features.Index, e.Features.Value = append(e.Field, uint16(1+id)), append(e.Features.Index, column), append(e.Features.Value, v)
		}
		return e
	}
}
