package monitor

// This file measures the losses of predictions and of the baselines.

import (
	"blankout/internal/coder"
	"blankout/online/health"
)

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
