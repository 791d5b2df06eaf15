package watch

import "blankout/internal/coder"

// This file counts events whose label is probably wrong.

// Suspicion says why the label of an event is probably wrong: t-logistic
// regression gives it little influence on the weights.
type Suspicion struct {
	Class     int     // that it is labeled with
	Score     float64 // of its output, before the event was learned
	Influence float64 // in (0, 1]
}

// Suspects counts the events of very small influence.
type Suspects struct {
	Idle
	Count  uint64
	latest Suspicion
	is     bool // the latest event is one
}

// Clear says that another event has come.
func (s *Suspects) Clear() { s.is = false }

// Weigh takes up the influence of an event, a suspect where it is below bound.
func (s *Suspects) Weigh(x Suspicion, bound float64) {
	if s.is = x.Influence < bound; s.is {
		s.latest = x
		s.Count++
	}
}

// Name names the Watcher.
func (s *Suspects) Name() string { return "suspects" }

// Copy takes over the count.
func (s *Suspects) Copy(from Watcher) { s.Count = from.(*Suspects).Count }

// Merge adds what was counted between two states.
func (s *Suspects) Merge(base, now Watcher) {
	s.Count += now.(*Suspects).Count - base.(*Suspects).Count
}

// Sums codes the count. It has a place in the learner's own block.
func (s *Suspects) Sums(c *coder.Coder) { c.Uint(&s.Count) }

// Latest says whether the latest event is a suspect, and why.
func (s *Suspects) Latest() (x Suspicion, suspect bool) { return s.latest, s.is }
