package monitor

// This file monitors the health of fields: presence, stuck values, and unusual values.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online/stuck"
	"blankout/online/watch"
)

// health monitors the health of all fields.
type health struct {
	watch.Fields
	schema  *event.Schema
	logged  bool // stuck fields only raise alarms and do not count as missing
	repeats func(id int) (fraction float64, never, ok bool)
}

func newHealth(s Settings) health {
	return health{schema: s.Schema, logged: s.Stuck == "log", repeats: s.Repeats}
}

func (h *health) Observe(e *Event) *Request {
	h.Take(&e.Met)
	return nil
}

// State encodes or decodes the state.
func (h *health) State(c *coder.Coder) { h.Fields.State(c) }

// Report adds the health of fields to r.
func (h *health) Report(r *Report) {
	r.Health = h.Fields.Report(r.Events, h.schema.Fields, r.expected, h.repeats)
}

// Cost records the ablation of a field: the errors of a prediction with and without the field, 1 if the prediction is
// wrong, else 0.
func (m *Monitors) Cost(id uint16, with, without float64) {
	if int(id) < m.health.Len() {
		m.health.Cost(id, with, without)
	}
}

// Stuck records the fields that have become stuck or have recovered.
func (m *Monitors) Stuck(changes []stuck.Change, now stuck.Moment) {
	for _, c := range changes {
		if c.Moves {
			m.health.Moves(int(c.Field), watch.Moment(now))
			continue
		}
		m.health.Sticks(int(c.Field), watch.Stuck{Value: c.Value, Repeats: c.Repeats, Usual: c.Usual, Since: watch.Moment(c.Since), Logged: m.health.logged}, watch.Moment(now))
	}
}

// Restored updates which fields are stuck after a state has been decoded, because the settings may have changed.
func (m *Monitors) Restored(on []stuck.Run) {
	m.health.Unstick(m.health.logged, func(field int) bool {
		return !slices.ContainsFunc(on, func(r stuck.Run) bool { return int(r.Field) == field })
	})
}

// Alarms returns all alarms so far. Its Latest holds the field alarms after the first n changes.
func (m *Monitors) Alarms(n uint64) Alarms {
	a := Alarms{Mislabeled: m.mislabeled.Count, Drift: m.drift.Detector.Report(), Fields: m.health.Raised()}
	a.Latest, a.Changes = m.health.Changes(n, m.health.schema.Fields)
	return a
}
