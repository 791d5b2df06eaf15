package model

// This file declares readings without information as missing: the readings of stuck fields, and placeholders.

import (
	"encoding/json"
	"errors"
	"math"
	"slices"

	"blankout/internal/event"
)

// Faults determines which readings of numeric fields count as missing, for learning and for predictions. The decision
// depends only on the event itself, so that every reader of a model computes the same prediction. The nil Faults is
// empty. A Faults is immutable.
type Faults struct {
	// Stuck lists stuck fields and the value at which each is stuck, in the order of the fields. Other values of a
	// stuck field are not missing.
	Stuck []StuckField `json:"stuck,omitempty"`
	// Placeholders lists fields and a value of each that stands for no reading, in the order of the fields.
	Placeholders []StuckField `json:"placeholders,omitempty"`

	byField []fault // indexed by field id; later fields have no faults
}

// StuckField is a numeric field and a value at which it has no information.
type StuckField struct {
	Field uint16  `json:"field"`
	Value float64 `json:"value"`
}

// fault has the values of one field that count as missing; NaN for none.
type fault struct{ stuck, placeholder float64 }

// NewFaults returns a Faults that owns its arguments. It returns nil if both are empty.
func NewFaults(stuck, placeholders []StuckField) *Faults {
	if len(stuck)+len(placeholders) == 0 {
		return nil
	}
	f := &Faults{Stuck: stuck, Placeholders: placeholders}
	f.index()
	return f
}

// index builds byField. It reports whether the fields of both lists ascend.
func (f *Faults) index() (ascending bool) {
	ascending, f.byField = true, nil
	for i, list := range [2][]StuckField{f.Stuck, f.Placeholders} {
		last := -1
		for _, s := range list {
			ascending, last = ascending && int(s.Field) > last, int(s.Field)
			for len(f.byField) <= last {
				f.byField = append(f.byField, fault{math.NaN(), math.NaN()})
			}
			if t := &f.byField[s.Field]; i == 0 {
				t.stuck = s.Value
			} else {
				t.placeholder = s.Value
			}
		}
	}
	return ascending
}

// UnmarshalJSON decodes and checks a Faults.
func (f *Faults) UnmarshalJSON(data []byte) error {
	type plain Faults
	if err := json.Unmarshal(data, (*plain)(f)); err != nil {
		return err
	}
	if !f.index() {
		return errors.New("faults: the fields do not ascend")
	}
	return nil
}

// at reports whether a reading x of a field counts as missing.
func (f *Faults) at(id uint16, x float64) bool {
	if int(id) >= len(f.byField) {
		return false
	}
	t := &f.byField[id]
	return x == t.stuck || x == t.placeholder
}

// in returns the index of the first reading of an event that counts as missing, or -1.
func (f *Faults) in(e *event.Example) int {
	if f == nil || e.Declared {
		return -1
	}
	for i, id := range e.Field {
		if int(id) < len(f.byField) && f.at(id, e.Features.Value[i]) {
			return i
		}
	}
	return -1
}

// Declare returns an event in which the readings that count as missing by Faults are null, and products with these
// fields are removed. It returns e itself if nothing changes. Otherwise it returns a copy in the memory of room, and
// does not change e.
func (h *Head) Declare(e, room *event.Example) *event.Example {
	if h.Faults.in(e) < 0 {
		return e
	}
	return h.without(e, room, func(i int) bool { return h.Faults.at(e.Field[i], e.Features.Value[i]) })
}

// without returns an event without the features that are gone, by their index. Their fields are null, and products with
// these fields are removed. It is a copy in the memory of room.
func (h *Head) without(e, room *event.Example, gone func(i int) bool) *event.Example {
	features, field, missing := room.Features, room.Field[:0], append(room.Missing[:0], e.Missing...)
	features.Index, features.Value = features.Index[:0], features.Value[:0]
	*room = *e
	fields := h.Schema.Fields
	var names []string // names of the fields that have become null
	for i, id := range e.Field {
		if gone(i) && int(id) < len(fields) && fields[id].Kind.Named() {
			names = append(names, fields[id].Name)
			missing = append(missing, firstOfName(fields, id))
		}
	}
	for i := range e.Features.Index {
		if gone(i) {
			continue
		}
		if e.Field != nil {
			id := e.Field[i]
			if len(names) > 0 && int(id) < len(fields) && fields[id].Kind == event.Cross && h.Schema.IsProduct(fields[id].Name, names) {
				continue
			}
			field = append(field, id)
		}
		features.Index, features.Value = append(features.Index, e.Features.Index[i]), append(features.Value, e.Features.Value[i])
	}
	if e.Field == nil {
		field = nil
	} else if field == nil {
		field = []uint16{} // an event whose fields are all missing is not an event without fields
	}
	slices.Sort(missing)
	room.Features, room.Field, room.Missing, room.Declared = features, field, slices.Compact(missing), true
	return room
}

// declared calls Declare with new memory.
func (h *Head) declared(e *event.Example) *event.Example {
	if h.Faults.in(e) < 0 {
		return e
	}
	return h.Declare(e, &event.Example{})
}

// firstOfName returns the first field that has the name of the given field. An event declares this first field null.
func firstOfName(fields []event.Field, id uint16) uint16 {
	for first := range id {
		if first > 0 && fields[first].Name == fields[id].Name {
			return first
		}
	}
	return id
}

// StuckFields returns the names of fields that have their stuck value in an event. The event must not have passed
// through Declare.
func (h *Head) StuckFields(e *event.Example) (names []string) {
	if h.Faults == nil {
		return nil
	}
	of := h.Faults.byField
	for i, id := range e.Field {
		if int(id) < min(len(of), len(h.Schema.Fields)) && of[id].stuck == e.Features.Value[i] {
			names = append(names, h.Schema.Fields[id].Name)
		}
	}
	return names
}
