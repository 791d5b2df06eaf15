package simulate

// This file implements nightmares that change values.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Linear replaces every value x of a group by A x + B, in the original units. This simulates drift or, with A = 0, a
// sensor stuck at B. In columns that are given by number, an absent value counts as 0, and is also replaced.
type Linear struct {
	distortion
	Group string
	A, B  float64
}

func (l Linear) Distort(e *Event) {
	m := e.group(l.Group)
	if l.B != 0 {
		e.fill(m.spans)
	}
	for i, column := range e.X.Index {
		if m.holds(e, i, column) {
			e.X.Value[i] = l.A*e.X.Value[i] + l.B
		}
	}
}

// fill adds the columns in spans that an event of a sparse text format omits.
func (e *Event) fill(spans []event.Span) {
	for _, s := range spans {
		for column := s.From; column < min(s.To, uint32(e.Columns)); column++ {
			at, found := slices.BinarySearch(e.X.Index, column)
			if found {
				continue
			}
			e.X.Index, e.X.Value = slices.Insert(e.X.Index, at, column), slices.Insert(e.X.Value, at, 0)
			if e.Field != nil {
				e.Field = slices.Insert(e.Field, at, 0)
			}
		}
	}
}

func (l Linear) String() string {
	if l.A == 0 {
		return "stuck:" + l.Group + ":" + number(l.B)
	}
	return "drift:" + l.Group + ":" + number(l.A) + "," + number(l.B)
}

func parseDrift(argument string) (Nightmare, error) {
	at := strings.LastIndexByte(argument, ':')
	a, b, ok := strings.Cut(argument[at+1:], ",")
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if at < 1 || !ok || err1 != nil || err2 != nil || !finite(x) || !finite(y) {
		return nil, fmt.Errorf("want drift:NAME:A,B for A x + B, as in drift:temperature:1.2,-3")
	}
	return Linear{Group: argument[:at], A: x, B: y}, nil
}

func parseStuck(argument string) (Nightmare, error) {
	at := strings.LastIndexByte(argument, ':')
	b, err := strconv.ParseFloat(argument[at+1:], 64)
	if at < 1 || err != nil || !finite(b) {
		return nil, fmt.Errorf("want stuck:NAME:VALUE, as in stuck:temperature:0")
	}
	return Linear{Group: argument[:at], B: b}, nil
}

// Additive adds normal noise with standard deviation SD, in the original units, to the present features of a group or
// of the whole event.
type Additive struct {
	distortion
	Group string // "" means all features
	SD    float64
}

func (a Additive) Distort(e *Event) {
	r := e.random(0xadd)
	all := a.Group == ""
	var m *members
	if !all {
		m = e.group(a.Group)
	}
	for i, column := range e.X.Index {
		if noise := a.SD * r.NormFloat64(); all || m.holds(e, i, column) {
			e.X.Value[i] += noise
		}
	}
}

func (a Additive) random() bool { return a.SD > 0 }

func (a Additive) String() string {
	if a.Group == "" {
		return "noise:" + number(a.SD)
	}
	return "noise:" + a.Group + ":" + number(a.SD)
}

func parseAdditive(argument string) (Nightmare, error) {
	at := strings.LastIndexByte(argument, ':')
	sd, err := strconv.ParseFloat(argument[at+1:], 64)
	if at == 0 || err != nil || !(sd >= 0) || !finite(sd) {
		return nil, fmt.Errorf("want noise:SD or noise:NAME:SD, a standard deviation in the units of the features")
	}
	return Additive{Group: argument[:max(at, 0)], SD: sd}, nil
}

var nan = math.NaN()

// clone returns a copy of an event's features that the caller may change.
func clone(e *event.Example, x event.Vec, field []uint16) (event.Vec, []uint16) {
	x.Index, x.Value = append(x.Index[:0], e.Features.Index...), append(x.Value[:0], e.Features.Value...)
	if e.Field == nil {
		return x, nil
	}
	return x, append(field[:0], e.Field...)
}

// stuckFields returns the numeric fields that the nightmares of a family hold at a constant value.
func stuckFields(f Family, s *event.Schema) (ids []uint16) {
	for i, l := range f.Levels {
		n, ok := base(l.Nightmare).(Linear)
		if !ok || n.A != 0 {
			return nil
		}
		if i == 0 {
			ids = n.fields(s)
		}
	}
	return ids
}

// fields returns the numeric fields of the group that l changes.
func (l Linear) fields(s *event.Schema) (ids []uint16) {
	for id, f := range s.Fields {
		if f.Kind == event.Numeric && (f.Name == l.Group || f.Group == l.Group) {
			ids = append(ids, uint16(id))
		}
	}
	return ids
}

// modelOf returns the model of a run. The treatment determines whether the model has detected stuck fields.
func (u *run) modelOf() model.Model {
	m, ok := u.subject.Model.(*model.Linear)
	if !ok || u.treatment.Loss != Found && u.treatment.Loss != NotFound {
		return u.subject.Model
	}
	var stuck []model.StuckField
	if n, ok := base(u.nightmare).(Linear); ok && u.treatment.Loss == Found {
		for _, id := range n.fields(m.Schema) {
			stuck = append(stuck, model.StuckField{Field: id, Value: n.B})
		}
	}
	var placeholders []model.StuckField
	if m.Faults != nil {
		placeholders = m.Faults.Placeholders
	}
	return m.WithFaults(model.NewFaults(stuck, placeholders))
}
