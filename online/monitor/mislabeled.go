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

func (s *mislabeled) State(c *coder.Coder) { c.Uint(&s.Count) }

func (s *mislabeled) Report(r *Report) { r.Mislabeled = s.Count }
