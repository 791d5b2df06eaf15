package synthetic

import (
	"math/rand/v2"

	"blankout/internal/event"
)

// MortalSensors is a stream of two classes and three sensors with three readings each. Each sensor fails as a whole at
// its own rate. The readings of a failed sensor are null, except one reading that is absent.
type MortalSensors struct {
	R     *rand.Rand
	Rates [3]float64
}

func SensorSchema() *event.Schema {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for _, name := range []string{"a", "b", "c"} {
		for i := range 3 {
			s.AddField(event.Field{Name: name + string(rune('1'+i)), Kind: event.Numeric, Group: name})
		}
	}
	return s
}

func (s *MortalSensors) Next() *event.Example {
	e := &event.Example{Weight: 1, Label: s.R.IntN(2)}
	for sensor, rate := range s.Rates {
		dead := s.R.Float64() < rate
		for i := range 3 {
			id, x := uint16(1+3*sensor+i), 0.6*float64(2*e.Label-1)+s.R.NormFloat64()
			switch {
			case !dead:
				e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(id)), append(e.Features.Value, x)
				e.Field = append(e.Field, id)
			case i > 0:
				e.Missing = append(e.Missing, id)
			}
		}
	}
	return e
}
