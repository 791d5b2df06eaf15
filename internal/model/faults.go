package model

// This file declares readings without information as missing: the readings of stuck fields, and values outside limits.

import (
	"encoding/json"
	"errors"
	"fmt"
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
	// Limits lists the limits of fields, in the order of the fields.
	Limits []FieldLimits `json:"limits,omitempty"`

	byField []fault // indexed by field id; later fields have no faults
}

// StuckField is a numeric field that is stuck at a value.
type StuckField struct {
	Field uint16  `json:"field"`
	Value float64 `json:"value"`
}

// FieldLimits has the bounds of a numeric field: a reading outside them is missing. If NoZero is set, a reading of
// exactly 0 is missing too.
type FieldLimits struct {
	Field  uint16  `json:"field"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	NoZero bool    `json:"no_zero,omitempty"`
}

// fault combines the stuck value and the limits of one field.
type fault struct {
	stuck, limited, noZero bool
	value, low, high       float64
}

// NewFaults returns a Faults that owns its arguments. It returns nil if both are empty.
func NewFaults(stuck []StuckField, limits []FieldLimits) *Faults {
	if len(stuck)+len(limits) == 0 {
		return nil
	}
	f := &Faults{Stuck: stuck, Limits: limits}
	f.index()
	return f
}

// index builds byField. It reports whether the fields of both lists ascend.
func (f *Faults) index() (ascending bool) {
	ascending, f.byField = true, nil
	last := -1
	of := func(id uint16) *fault {
		ascending, last = ascending && int(id) > last, int(id)
		if n := int(id) + 1 - len(f.byField); n > 0 {
			f.byField = append(f.byField, make([]fault, n)...)
		}
		return &f.byField[id]
	}
	for _, s := range f.Stuck {
		x := of(s.Field)
		x.stuck, x.value = true, s.Value
	}
	last = -1
	for _, l := range f.Limits {
		x := of(l.Field)
		x.limited, x.noZero, x.low, x.high = true, l.NoZero, l.Low, l.High
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
	for _, l := range f.Limits {
		if !(l.Low <= l.High) {
			return fmt.Errorf("faults: the limits %v and %v of field %d", l.Low, l.High, l.Field)
		}
	}
	return nil
}

// at reports whether a reading x of a field counts as missing.
func (f *Faults) at(id uint16, x float64) bool {
	if int(id) >= len(f.byField) {
		return false
	}
	t := &f.byField[id]
	return t.stuck && x == t.value || t.limited && (!(x >= t.low && x <= t.high) || t.noZero && x == 0)
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
		if int(id) < min(len(of), len(h.Schema.Fields)) && of[id].stuck && of[id].value == e.Features.Value[i] {
			names = append(names, h.Schema.Fields[id].Name)
		}
	}
	return names
}
