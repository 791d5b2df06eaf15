package monitor

// This file watches the condition of fields: whether they are there, stuck, or not as usual.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online/stuck"
	"blankout/online/watch"
)

// health is the condition of the fields.
type health struct {
	watch.Fields
	schema  *event.Schema
	logged  bool // and that is all: they are not missing
	repeats func(id int) (fraction float64, never, ok bool)
}

func newHealth(s Settings) health {
	return health{schema: s.Schema, logged: s.Stuck == "log", repeats: s.Repeats}
}

func (h *health) Observe(e *Event) *Request {
	h.Take(&e.Met)
	return nil
}

// State codes the condition.
func (h *health) State(c *coder.Coder) { h.Fields.State(c) }

// Report adds the condition.
func (h *health) Report(r *Report) {
	r.Health = h.Fields.Report(r.Events, h.schema.Fields, r.expected, h.repeats)
}

// Cost takes up how an event that holds the field of this id was answered with it and would have been without: 1 is wrong.
func (m *Monitors) Cost(id uint16, with, without float64) {
	if int(id) < m.health.Len() {
		m.health.Cost(id, with, without)
	}
}

// Stuck takes up which fields have become stuck, and which move again.
func (m *Monitors) Stuck(changes []stuck.Change, now stuck.Moment) {
	for _, c := range changes {
		if c.Moves {
			m.health.Moves(int(c.Field), watch.Moment(now))
			continue
		}
		m.health.Sticks(int(c.Field), watch.Stuck{Value: c.Value, Repeats: c.Repeats, Usual: c.Usual, Since: watch.Moment(c.Since), Logged: m.health.logged}, watch.Moment(now))
	}
}

// Restored takes up which fields are stuck after a state was read: the settings may ask for other ones than before.
func (m *Monitors) Restored(on []stuck.Run) {
	m.health.Unstick(m.health.logged, func(field int) bool {
		return !slices.ContainsFunc(on, func(r stuck.Run) bool { return int(r.Field) == field })
	})
}

// Alarms returns what alarms have been raised so far, of fields no more than those after the first n changes.
func (m *Monitors) Alarms(n uint64) Alarms {
	a := Alarms{Mislabeled: m.mislabeled.Count, Drift: m.drift.Detector.Report(), Fields: m.health.Raised()}
	a.Latest, a.Changes = m.health.Changes(n, m.health.schema.Fields)
	return a
}
