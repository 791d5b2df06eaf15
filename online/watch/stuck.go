package watch

// This file raises alarms about fields that are stuck, which package stuck finds.

import (
	"blankout/internal/coder"
)

// Stuck says how a field is stuck.
type Stuck struct {
	Value   float64
	Repeats uint64  // in a row, when that was found
	Usual   float64 // the fraction of readings that repeat the one before
	Since   Moment  // the first of the run
	Logged  bool    // that is all that follows: the field is not missing
	found   Moment
}

// Sticks raises an alarm about a field, unless it is none of those that are watched.
func (h *Fields) Sticks(id int, s Stuck, now Moment) {
	if id >= len(h.fields) {
		return
	}
	s.found = now
	h.fields[id].stuck = s
	h.alarms.add(*s.change(id, alarmRaised, now, Moment{}))
}

// Moves ends the alarm about a field that is stuck.
func (h *Fields) Moves(id int, now Moment) {
	if id >= len(h.fields) || h.fields[id].stuck.Repeats == 0 {
		return
	}
	h.alarms.add(*h.fields[id].stuck.change(id, alarmEnded, now, now))
	h.fields[id].stuck = Stuck{}
}

// Unstick drops the alarms about stuck fields for which drop returns true, without a message. It sets
// Stuck.Logged of the others, as the settings may have changed.
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

// change returns what has become of the alarm, found out at an event.
func (s *Stuck) change(id int, what changeKind, at, until Moment) *fieldChange {
	v := alarmValue{Condition: Condition{float64(s.Repeats), s.Usual, 1 - s.Usual}, before: -1, after: -1, at: s.Value, logged: s.Logged}
	return &fieldChange{field: id, kind: alarmStuck, what: what, event: at.Event, since: s.Since, until: until, value: v}
}

// state codes a Stuck, in few bytes where the field moves.
func (s *Stuck) state(c *coder.Coder) {
	if c.Uint(&s.Repeats); s.Repeats == 0 {
		return
	}
	c.Each(&s.Value, &s.Usual)
	s.Since.state(c)
	s.found.state(c)
	c.Bool(&s.Logged)
}
