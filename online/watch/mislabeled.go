package watch

// This file counts events whose label is probably wrong.

// MislabeledEvent explains why the label of an event is probably wrong: t-logistic regression gives the event little
// influence on the weights.
type MislabeledEvent struct {
	Class     int     // the label
	Score     float64 // of the class's output, before the event was learned
	Influence float64 // in (0, 1]
}

// Mislabeled counts the events with little influence.
type Mislabeled struct {
	Count  uint64
	latest MislabeledEvent
	is     bool // the latest event is mislabeled
}

// Clear records that another event has arrived.
func (s *Mislabeled) Clear() { s.is = false }

// Weigh records the influence of an event. The event is mislabeled if the influence is below bound.
func (s *Mislabeled) Weigh(x MislabeledEvent, bound float64) {
	if s.is = x.Influence < bound; s.is {
		s.latest = x
		s.Count++
	}
}

// Latest returns the latest event if it is mislabeled, else nil. The result is valid until the next event.
func (s *Mislabeled) Latest() *MislabeledEvent {
	if !s.is {
		return nil
	}
	return &s.latest
}
