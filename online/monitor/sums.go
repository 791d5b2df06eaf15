package monitor

// This file merges what several learners of one model have measured.

import (
	"blankout/internal/coder"
	"blankout/online/conformal"
	"blankout/online/staleness"
	"blankout/online/watch"
)

// Sums are what a learner that is one of several has measured, which is merged by addition. What looks at the stream as a
// whole is not among them.
type Sums struct {
	Measures   watch.Measures
	Refused    watch.Refused
	Mislabeled uint64
	Sets       *conformal.Cover // nil without sets
}

// Sums returns a copy of those of the Monitors.
func (m *Monitors) Sums() *Sums {
	return &Sums{Measures: m.Measures.Clone(), Refused: m.Refused.Clone(), Mislabeled: m.mislabeled.Count, Sets: m.sets.Sums()}
}

// State codes the Sums.
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

// ObservePart shows an event to a learner that is one of several: only what Sums has takes it up.
func (m *Monitors) ObservePart(e *Event) {
	e.Part = true
	switch {
	case !e.Labeled:
		m.Measures.Unlabeled++
		return
	case e.Regression:
		m.Measures.TakeNumber(&e.Told, true)
	default:
		m.Measures.Take(&e.Told)
	}
	m.mislabeled.Observe(e)
	m.sets.Observe(e)
}

// Merge adds what was measured between base and now to what ends with the event of a number, and returns what the learner
// shall do.
func (m *Monitors) Merge(base, now *Sums, number uint64) (r *Request) {
	m.stale.Aged = staleness.Aged{} // no member meets the events that would come next
	m.Refused.Merge(&base.Refused, &now.Refused)
	m.mislabeled.Count += now.Mislabeled - base.Mislabeled
	labeled := m.Measures.Merge(&base.Measures, &now.Measures)
	if m.sets.Cover != nil {
		m.sets.Merge(base.Sets, now.Sets)
	}
	was, is := &base.Measures.Total, &now.Measures.Total
	if labeled > 0 && m.drift.Take((is.LogLoss-was.LogLoss)/(is.Weight-was.Weight), labeled, number) {
		return m.drift.asks
	}
	return r
}
