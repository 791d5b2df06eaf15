package synthetic

import (
	"math/rand/v2"

	"blankout/internal/event"
)

// Sensors generates events of two classes with the fields a, b, c (numbers), word and flag, one event per second.
type Sensors struct {
	R *rand.Rand
	N int64
	E event.Example
	// The current faults of the sensors:
	Lost         float64 // fraction of events without b
	Absent       bool    // b is absent instead of null
	Shift, Scale float64 // change of c
	Usual        float64 // fraction of events without a
}

const SensorStart = 1_700_000_000_000

func NewSensors(seed uint64) *Sensors { return &Sensors{R: rand.New(rand.NewPCG(seed, 7)), Scale: 1} }

func (s *Sensors) Next() *event.Example {
	e := &s.E
	e.Features.Index, e.Features.Value, e.Field, e.Missing = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0], e.Missing[:0]
	e.Weight, e.Label, e.Time = 1, s.R.IntN(2), SensorStart+1000*s.N
	s.N++
	add := func(field uint16, column uint32, x float64) {
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, column), append(e.Features.Value, x), append(e.Field, field)
	}
	y := float64(2*e.Label - 1)
	if x := 10 + s.R.NormFloat64() + 0.4*y; s.R.Float64() < s.Usual {
		e.Missing = append(e.Missing, 1)
	} else {
		add(1, 1, x)
	}
	if x := 100 + 5*s.R.NormFloat64() + 6*y; s.R.Float64() >= s.Lost {
		add(2, 2, x)
	} else if !s.Absent {
		e.Missing = append(e.Missing, 2)
	}
	add(3, 3, 50+2*(s.Shift+s.Scale*s.R.NormFloat64()))
	add(5, 10+uint32(s.R.IntN(2)), 1)
	add(4, uint32(20+s.R.IntN(5)), 1)
	return e
}
