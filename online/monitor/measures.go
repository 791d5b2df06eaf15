package monitor

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/health"
	"blankout/online/readings"
)

// This file measures the losses of predictions and of the baselines.

// Measures holds the progressive measures, and the losses of the baselines and the class frequencies.
type Measures struct {
	health.Measures
	Baselines health.Baselines
	Prior     health.Prior
}

// Known reports whether a labeled event has arrived.
func (m *Measures) Known() bool { return m.Baselines.First > 0 }

func (m *Measures) Observe(e *Event) *Request {
	told := &e.LabeledEvent
	if e.Told != nil {
		told, m.Baselines.Helped = e.Told, true
	}
	switch {
	case !e.Labeled:
		m.Unlabeled++
		return nil
	case e.Regression:
		m.TakeNumber(told, m.Known() && e.After >= m.Baselines.First)
	default:
		m.Take(told)
	}
	if prior := m.Baselines.Tell(&e.LabeledEvent); e.Likelihood {
		m.Prior.Take(e.Learned, e.Loss, prior, e.Score, e.Number)
	}
	return nil
}

func (m *Measures) State(c *coder.Coder) {
	c.Uint(&m.Unlabeled)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
	if m.Numbers != nil {
		m.Numbers.State(c)
	}
	m.Baselines.State(c)
	m.Prior.State(c)
}

func (m *Measures) Report(r *Report) {
	r.Measures, r.Baselines, r.Prior = m.Clone(), m.Baselines, m.Prior
}

// The part below calibrates: it learns the function from scores to log-odds.

// link learns a Link from the predicted scores.
type link struct {
	conformal.Link
	learns bool
	always bool // the Link takes effect even if it does not reduce the loss
}

// newLink returns a link. It learns nothing under "auto" if there are class weights, because these shift scores on
// purpose.
func newLink(s Settings) link {
	l := link{always: s.Calibrate == "on"}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && !s.ClassWeights)
	l.reset()
	return l
}

// Recalibrate replaces the Link by one of other scores, because predictions change to these.
func (m *Monitors) Recalibrate(l conformal.Link) {
	if m.link.learns {
		m.link.Link = l
	}
}

// reset discards the Link, because the outputs have changed.
func (l *link) reset() { l.Link = conformal.NewLink() }

// inForce returns the Link in effect, or nil if scores are used as log-odds.
func (l *link) inForce() *model.Link {
	if !l.learns || !l.always && !l.Helps() {
		return nil
	}
	return l.Latest()
}

func (l *link) Observe(e *Event) *Request {
	if !e.Labeled || e.Again || !l.learns {
		return nil
	}
	if e.Due.Gain {
		l.Measure(e.Scores, e.Label, e.Weight)
	}
	every := uint64(followFirst)
	if l.Taken() > followAfter {
		every = followEvery
	}
	l.Learn(e.Scores, e.Active, e.Label, e.Weight, every)
	return nil
}

// The Link in effect is updated every followFirst events. After followAfter events it is updated every followEvery
// events.
const followFirst, followEvery, followAfter = 64, 512, 65_536

func (l *link) Report(*Report) {}

// The part below monitors the health of fields: presence, stuck values, and unusual values.

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

// The part below detects drift. After an alarm it requests a reaction from the learner.

// drift is the drift detector. At an alarm it returns a request to the learner.
type drift struct {
	health.Detector
	asks *Request // nil requests nothing
}

// After an alarm the weight of old events is multiplied by forgetKeep if on_drift is "forget", and by expertKeep if it
// is "expert".
const forgetKeep, expertKeep = 0.1, 0.3

func newDrift(s Settings) (d drift) {
	switch s.OnDrift {
	case "forget":
		d.asks = &Request{Keep: forgetKeep}
	case "expert":
		d.asks = &Request{Keep: expertKeep, Fresh: true}
	}
	return d
}

func (d *drift) Observe(e *Event) *Request {
	if e.Labeled && d.Take(e.Loss, 1, e.Number) {
		return d.asks
	}
	return nil
}

func (d *drift) State(c *coder.Coder) {
	d.AlarmState(c)
	d.Detector.State(c)
}

func (d *drift) Report(r *Report) { r.Drift = d.Detector.Report() }
