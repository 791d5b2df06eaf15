package watch

import "blankout/internal/coder"

// This file counts events whose label is probably wrong.

// MislabeledEvent says why the label of an event is probably wrong: t-logistic
// regression gives it little influence on the weights.
type MislabeledEvent struct {
	Class     int     // that it is labeled with
	Score     float64 // of its output, before the event was learned
	Influence float64 // in (0, 1]
}

// Mislabeled counts the events of very small influence.
type Mislabeled struct {
	Idle
	Count  uint64
	latest MislabeledEvent
	is     bool // the latest event is one
}

// Clear says that another event has come.
func (s *Mislabeled) Clear() { s.is = false }

// Weigh takes up the influence of an event, a mislabeled event where it is below bound.
func (s *Mislabeled) Weigh(x MislabeledEvent, bound float64) {
	if s.is = x.Influence < bound; s.is {
		s.latest = x
		s.Count++
	}
}

// Name names the Watcher.
func (s *Mislabeled) Name() string { return "mislabeled" }

// Copy takes over the count.
func (s *Mislabeled) Copy(from Watcher) { s.Count = from.(*Mislabeled).Count }

// Merge adds what was counted between two states.
func (s *Mislabeled) Merge(base, now Watcher) {
	s.Count += now.(*Mislabeled).Count - base.(*Mislabeled).Count
}

// Sums codes the count. It has a place in the learner's own block.
func (s *Mislabeled) Sums(c *coder.Coder) { c.Uint(&s.Count) }

// Latest returns the latest event if it is a mislabeled event, else nil. The next one takes its memory.
func (s *Mislabeled) Latest() *MislabeledEvent {
	if !s.is {
		return nil
	}
	return &s.latest
}
