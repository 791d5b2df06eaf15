package synthetic

import (
	"fmt"
	"math/rand/v2"

	"blankout/internal/event"
)

// Stream generates reproducible events with every kind of field: two readings far from zero, a category, a bag of words
// and sparse columns, some of them dense.
type Stream struct {
	R       *rand.Rand
	Classes int
	Missing bool // the category is missing from every fourth event
	E       event.Example
	Omits   bool // a number is omitted from one event in four, so that it gets a presence column
}

func NewStream(seed uint64, classes int) *Stream {
	return &Stream{R: rand.New(rand.NewPCG(seed, 1)), Classes: classes}
}

func StreamSchema(classes int) *event.Schema {
	var names []string
	for c := range classes {
		names = append(names, fmt.Sprint("c", c))
	}
	s := event.NewSchema(10, names, classes)
	for _, k := range []event.Kind{event.Numeric, event.Categorical, event.Words, event.Cross} {
		s.Fields = append(s.Fields, event.Field{Name: k.String(), Kind: k})
	}
	s.Fields[1].Group, s.Fields[2].Group = "sensor", "sensor"
	s.Crosses, s.Fields[4].Name = [][2]string{{s.Fields[1].Name, s.Fields[3].Name}}, s.Fields[1].Name+"^"+s.Fields[3].Name
	return s
}

func (s *Stream) Next() *event.Example {
	e, r := &s.E, s.R
	e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:0], e.Features.Value[:0], e.Field[:0]
	add := func(column uint32, field uint16, x float64) {
		e.Features.Index = append(e.Features.Index, column)
		e.Features.Value = append(e.Features.Value, x)
		e.Field = append(e.Field, field)
	}
	label := r.IntN(s.Classes)
	shift := float64(label)
	add(1, 0, 5+shift+r.NormFloat64()) // sparse column that becomes dense
	if r.IntN(20) > 0 {
		add(2, 0, 3*r.Float64())
	}
	add(3, 1, 300+20*shift+40*r.NormFloat64())
	if !s.Omits || r.IntN(4) > 0 {
		add(4, 1, -1e-3*(1+r.Float64()))
	}
	e.Missing = e.Missing[:0]
	missing := 2
	if s.Missing {
		missing = r.IntN(8)
	}
	switch missing {
	case 0: // null
		e.Missing = append(e.Missing, 2)
	case 1: // omitted
	default:
		add(10+uint32(r.IntN(4)), 2, 1)
	}
	for c := uint32(20); c < 40; c++ {
		if r.IntN(6) == 0 || r.IntN(40) == 20+label {
			add(c, 3, 1)
		}
	}
	add(50+uint32(r.IntN(3)), 4, 200*r.NormFloat64())
	e.Label, e.Weight = label, []float64{1, 1, 1, 2, 0.5, 1.5}[r.IntN(6)]
	return e
}
