package watch

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

// Latest returns the latest event if it is a mislabeled event, else nil. The next one takes its memory.
func (s *Mislabeled) Latest() *MislabeledEvent {
	if !s.is {
		return nil
	}
	return &s.latest
}
