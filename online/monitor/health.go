package monitor

// This file monitors the health of fields: presence, stuck values, and unusual values.

import (
	"slices"

	"blankout/internal/event"
	"blankout/online/health"
	"blankout/online/readings"
)

// fieldHealth monitors the health of all fields.
type fieldHealth struct {
	health.Fields
	schema  *event.Schema
	logged  bool // stuck fields only raise alarms and do not count as missing
	repeats func(id int) (fraction float64, never, ok bool)
}

func (h *fieldHealth) Observe(e *Event) *Request {
	h.Take(&e.Met)
	return nil
}

// Report adds the health of fields to r.
func (h *fieldHealth) Report(r *Report) {
	r.Health = h.Fields.Report(r.Events, h.schema.Fields, r.expected, h.repeats)
}

// Cost records an ablation of a field: the errors of a prediction with and without the field. An error is 1 if the
// predicted class is wrong, else 0.
func (m *Monitors) Cost(id uint16, with, without float64) {
	if int(id) < m.fieldHealth.Len() {
		m.fieldHealth.Cost(id, with, without)
	}
}

// Stuck records the fields that have become stuck or have recovered.
func (m *Monitors) Stuck(changes []readings.Change, now readings.Moment) {
	for _, c := range changes {
		if c.Moves {
			m.fieldHealth.Moves(int(c.Field), health.Moment(now))
			continue
		}
		m.fieldHealth.Sticks(int(c.Field), health.Stuck{Value: c.Value, Repeats: c.Repeats, Usual: c.Usual, Since: health.Moment(c.Since), Logged: m.fieldHealth.logged}, health.Moment(now))
	}
}

// Restored updates which fields are stuck after a state has been decoded. It is needed because the settings may have
// changed.
func (m *Monitors) Restored(on []readings.Run) {
	m.fieldHealth.Unstick(m.fieldHealth.logged, func(field int) bool {
		return !slices.ContainsFunc(on, func(r readings.Run) bool { return int(r.Field) == field })
	})
}

// Alarms returns all alarms so far. Its field Latest holds the field alarms that were raised or ended after the first
// n.
func (m *Monitors) Alarms(n uint64) Alarms {
	a := Alarms{Mislabeled: m.Mislabeled.Count, Drift: m.drift.Detector.Report(), Fields: m.fieldHealth.Raised()}
	a.Latest, a.Changes = m.fieldHealth.Changes(n, m.fieldHealth.schema.Fields)
	return a
}
