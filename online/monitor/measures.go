package monitor

// This file measures predictions, and those of predictors that know labels alone.

import (
	"blankout/internal/coder"
	"blankout/online/watch"
)

// Measures are the progressive measures, and what the baselines and the class frequencies would have lost.
type Measures struct {
	watch.Measures
	Baselines watch.Baselines
	Prior     watch.Prior
}

// Known says whether a labeled event has come.
func (m *Measures) Known() bool { return m.Baselines.First > 0 }

func (m *Measures) Observe(e *Event) *Request {
	switch {
	case !e.Labeled:
		m.Unlabeled++
		return nil
	case e.Regression:
		m.TakeNumber(&e.Told, m.Known() && e.After >= m.Baselines.First)
	default:
		m.Take(&e.Told)
	}
	if m.Baselines.Tell(&e.Told); e.Likelihood {
		m.Prior.Take(e.Label, e.Learned, e.Loss, e.Score, e.Number)
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
