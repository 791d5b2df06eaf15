package health

// This file raises alarms about stuck fields, which package readings detects.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online/readings"
)

// stuck describes a stuck field.
type stuck struct {
	readings.Run
	logged bool // the field is not declared missing
	found  readings.Moment
}

// sticks raises an alarm about a stuck field, if the field is monitored.
func (h *Fields) sticks(r readings.Run, logged bool, now readings.Moment) {
	if id := int(r.Field); id < len(h.fields) {
		s := &h.fields[id].stuck
		*s = stuck{r, logged, now}
		h.alarms.add(*s.change(alarmRaised, now, readings.Moment{}))
	}
}

// moves ends the alarm about a stuck field.
func (h *Fields) moves(id int, now readings.Moment) {
	if id >= len(h.fields) || h.fields[id].stuck.Repeats == 0 {
		return
	}
	h.alarms.add(*h.fields[id].stuck.change(alarmEnded, now, now))
	h.fields[id].stuck = stuck{}
}

// change returns the start or end of the alarm about the field. at is the event at which the change was detected.
func (s *stuck) change(what changeKind, at, until readings.Moment) *fieldChange {
	v := alarmValue{Condition: Condition{float64(s.Repeats), s.Usual, 1 - s.Usual}, before: -1, after: -1, at: s.Value, logged: s.logged}
	return &fieldChange{field: int(s.Field), kind: alarmStuck, what: what, event: at.Event, since: s.Since, until: until, value: v}
}

// state encodes or decodes a stuck of a field, in few bytes if the field is not stuck.
func (s *stuck) state(c *coder.Coder, field int) {
	if c.Uint(&s.Repeats); s.Repeats == 0 {
		return
	}
	s.Field = uint16(field)
	c.Each(&s.Value, &s.Usual)
	s.Since.State(c)
	s.found.State(c)
	c.Bool(&s.logged)
}

// The part below makes Fields a monitor.

// fieldMonitor monitors the health of all fields.
type fieldMonitor struct {
	Fields
	schema  *event.Schema
	logged  bool // stuck fields only raise alarms and do not count as missing
	repeats func(id int) (fraction float64, never, ok bool)
}

// Observe observes the event as it arrived.
func (h *fieldMonitor) Observe(e *Event) *Request {
	h.Take(&e.Met)
	return nil
}

// Report adds the health of fields to r.
func (h *fieldMonitor) Report(r *Report) {
	r.Health = h.Fields.Report(r.Events, h.schema.Fields, r.expected, h.repeats)
}

// Cost records an ablation of a field: the errors of a prediction with and without the field. An error is 1 if the
// predicted class is wrong, else 0.
func (m *Monitors) Cost(id uint16, with, without float64) {
	if int(id) < len(m.fields.fields) {
		m.fields.fields[id].cost.add(with, without)
	}
}

// Stuck records the fields that have become stuck or have recovered.
func (m *Monitors) Stuck(changes []readings.Change, now readings.Moment) {
	for _, c := range changes {
		if c.Moves {
			m.fields.moves(int(c.Field), now)
		} else {
			m.fields.sticks(c.Run, m.fields.logged, now)
		}
	}
}

// Restored updates which fields are stuck after a state has been decoded, without recording the end of alarms. It is
// needed because the settings may have changed.
func (m *Monitors) Restored(on []readings.Run) {
	for id := range m.fields.fields {
		switch s := &m.fields.fields[id].stuck; {
		case s.Repeats == 0:
		case !slices.ContainsFunc(on, func(r readings.Run) bool { return int(r.Field) == id }):
			*s = stuck{}
		default:
			s.logged = m.fields.logged
		}
	}
}

// Alarms returns all alarms so far. Its field Latest holds the field alarms that were raised or ended after the first
// n.
func (m *Monitors) Alarms(n uint64) Alarms {
	a := Alarms{Mislabeled: m.Mislabeled.Count, Drift: m.drift.drift(), Fields: m.fields.alarms.raised}
	a.Latest, a.Changes = m.fields.changes(n, m.fields.schema.Fields)
	return a
}
