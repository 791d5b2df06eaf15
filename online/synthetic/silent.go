package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// Readings generates events of correlated numeric fields whose values are far from 0. All fields depend on one hidden
// number, some after a transform. Each field is weakly informative about the label.
type Readings struct {
	R      *rand.Rand
	E      event.Example
	Hidden []float64
}

func NewReadings(seed uint64, fields, classes int) (*event.Schema, *Readings) {
	var names []string
	for c := range classes {
		names = append(names, fmt.Sprint("c", c))
	}
	s := event.NewSchema(10, names, max(classes, 2))
	for i := range fields {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("f", i), Kind: event.Numeric, Group: fmt.Sprint("g", i/4)})
	}
	return s, &Readings{R: rand.New(rand.NewPCG(seed, 50)), Hidden: make([]float64, max(classes, 1))}
}

func (s *Readings) Next(schema *event.Schema, classes int) *event.Example {
	e, r := &s.E, s.R
	e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0]
	for c := range s.Hidden {
		s.Hidden[c] = r.NormFloat64()
	}
	if classes > 0 {
		e.Label = r.IntN(classes)
		s.Hidden[e.Label] += 2
	} else {
		e.Target = 100 + 10*s.Hidden[0]
	}
	for i := range len(schema.Fields) - 1 {
		x := s.Hidden[i%len(s.Hidden)] + 1.5*r.NormFloat64()
		if i%3 == 0 {
			x = math.Exp(x)
		}
		e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(i+1)), append(e.Features.Value, 50+10*x)
		e.Field = append(e.Field, uint16(i+1))
	}
	e.Weight = 1
	return e
}
