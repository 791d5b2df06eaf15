package health

// This file raises alarms about stuck fields, which package readings detects.

import (
	"blankout/internal/coder"
)

// Stuck describes a stuck field.
type Stuck struct {
	Value   float64
	Repeats uint64  // number of equal readings at detection
	Usual   float64 // usual fraction of readings that equal the previous reading
	Since   Moment  // first event of the run
	Logged  bool    // the field is not declared missing
	found   Moment
}

// Sticks raises an alarm about a stuck field, if the field is monitored.
func (h *Fields) Sticks(id int, s Stuck, now Moment) {
	if id >= len(h.fields) {
		return
	}
	s.found = now
	h.fields[id].stuck = s
	h.alarms.add(*s.change(id, alarmRaised, now, Moment{}))
}

// Moves ends the alarm about a stuck field.
func (h *Fields) Moves(id int, now Moment) {
	if id >= len(h.fields) || h.fields[id].stuck.Repeats == 0 {
		return
	}
	h.alarms.add(*h.fields[id].stuck.change(id, alarmEnded, now, now))
	h.fields[id].stuck = Stuck{}
}

// Unstick removes the alarms about the stuck fields for which drop returns true, without recording their end. It sets
// Stuck.Logged of the remaining stuck fields to logged, because the settings may have changed.
func (h *Fields) Unstick(logged bool, drop func(field int) bool) {
	for id := range h.fields {
		switch f := &h.fields[id]; {
		case f.stuck.Repeats == 0:
		case drop(id):
			f.stuck = Stuck{}
		default:
			f.stuck.Logged = logged
		}
	}
}

// change returns the start or end of the alarm about the field id. at is the event at which the change was detected.
func (s *Stuck) change(id int, what changeKind, at, until Moment) *fieldChange {
	v := alarmValue{Condition: Condition{float64(s.Repeats), s.Usual, 1 - s.Usual}, before: -1, after: -1, at: s.Value, logged: s.Logged}
	return &fieldChange{field: id, kind: alarmStuck, what: what, event: at.Event, since: s.Since, until: until, value: v}
}

// state encodes or decodes a Stuck, in few bytes if the field is not stuck.
func (s *Stuck) state(c *coder.Coder) {
	if c.Uint(&s.Repeats); s.Repeats == 0 {
		return
	}
	c.Each(&s.Value, &s.Usual)
	s.Since.state(c)
	s.found.state(c)
	c.Bool(&s.Logged)
}
