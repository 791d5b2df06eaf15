package monitor

// This file counts events whose label is probably wrong.

import (
	"blankout/internal/coder"
	"blankout/online/health"
)

// mislabeled counts the events whose influence is below MislabeledBelow.
type mislabeled struct {
	health.Mislabeled
	below float64
}

func (s *mislabeled) Observe(e *Event) *Request {
	if s.Clear(); e.Labeled && e.Influence > 0 {
		s.Weigh(health.MislabeledEvent{Class: e.Label, Score: e.Now[min(e.Label, len(e.Now)-1)], Influence: e.Influence}, s.below)
	}
	return nil
}

// Mislabeled returns the latest event if its label is probably wrong, else nil. The result is valid until the next
// event.
func (m *Monitors) Mislabeled() *health.MislabeledEvent { return m.mislabeled.Latest() }

func (s *mislabeled) State(c *coder.Coder) { c.Uint(&s.Count) }

func (s *mislabeled) Report(r *Report) { r.Mislabeled = s.Count }
