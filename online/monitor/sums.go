package monitor

// This file merges the measures of the learners in a group.

import (
	"blankout/internal/coder"
	"blankout/online/conformal"
	"blankout/online/health"
	"blankout/online/staleness"
)

// Sums holds the measures that are merged by addition. It omits monitors that need the whole stream.
type Sums struct {
	Measures   health.Measures
	Refused    health.Refused
	Mislabeled uint64
	Sets       *conformal.Predictor // nil if disabled
}

// Sums returns a copy of the measures.
func (m *Monitors) Sums() *Sums {
	return &Sums{Measures: m.Measures.Clone(), Refused: m.Refused.Clone(), Mislabeled: m.mislabeled.Count, Sets: m.sets.Sums()}
}

// State encodes or decodes the measures.
func (s *Sums) State(c *coder.Coder) {
	m := &s.Measures
	c.Uint(&m.Unlabeled)
	c.Uint(&s.Mislabeled)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
	if s.Refused.State(c); s.Sets != nil {
		s.Sets.SumsState(c)
	}
}

// ObservePart is Observe for a learner in a group. It updates only the monitors that Sums includes.
func (m *Monitors) ObservePart(e *Event) {
	e.Part = true
	switch {
	case !e.Labeled:
		m.Measures.Unlabeled++
		return
	case e.Regression:
		m.Measures.TakeNumber(&e.LabeledEvent, true)
	default:
		m.Measures.Take(&e.LabeledEvent)
	}
	m.mislabeled.Observe(e)
	m.sets.Observe(e)
}

// Merge adds the changes of the measures from base to now. number is the number of the last event that they include.
// The result is a request to the learner, or nil.
func (m *Monitors) Merge(base, now *Sums, number uint64) (r *Request) {
	m.stale.Stale = staleness.Stale{} // no group member receives all later events
	m.Refused.Merge(&base.Refused, &now.Refused)
	m.mislabeled.Count += now.Mislabeled - base.Mislabeled
	labeled := m.Measures.Merge(&base.Measures, &now.Measures)
	if m.sets.Predictor != nil {
		m.sets.Merge(base.Sets, now.Sets)
	}
	was, is := &base.Measures.Total, &now.Measures.Total
	if labeled > 0 && m.drift.Take((is.LogLoss-was.LogLoss)/(is.Weight-was.Weight), labeled, number) {
		return m.drift.asks
	}
	return r
}
