package watch

import "blankout/internal/coder"

// This file shows events to all who watch.

// Watch is all who watch a stream.
type Watch struct {
	Measures Measures
	Drift    Detector
	Prior    Prior
	Suspects Suspects
	Refused  Refused
	Health   Fields
}

// Told is a labelled event and what was answered to it, before it is learned.
type Told struct {
	Number uint64 // of the event
	Weight float64
	// Loss is what the drift detector takes up: the log-loss, or the absolute error in
	// deviations of the targets.
	Loss float64
	// Part says that the event is one of an interval that will be merged: what looks at the
	// stream as a whole does not take it up.
	Part bool

	// Of classes: the label, the class predicted, the importance with which it is learned, and
	// of two classes the score and the probability of the second one. Likelihood says that
	// the log-loss can be compared with that of the class shares.
	Label, Predicted   int
	Learned            float64
	Score, Probability float64
	Likelihood         bool

	// Of numbers: the label, the value predicted with its interval (NaN where there is none)
	// and the mean of the labels before.
	Target, Value, Low, High, Mean float64
}

// Told shows an event with a class, and says whether the stream has drifted.
func (w *Watch) Told(t *Told) (drifted bool) {
	w.Measures.take(t)
	if t.Part {
		return false
	}
	if t.Likelihood {
		w.Prior.Take(t.Label, t.Learned, t.Loss, t.Number)
	}
	return w.Drift.Take(t.Loss, 1, t.Number)
}

// ToldNumber shows an event whose label is a number, and says whether the stream has drifted.
func (w *Watch) ToldNumber(t *Told) (drifted bool) {
	w.Measures.takeNumber(t)
	return w.Drift.Take(t.Loss, 1, t.Number)
}

// Merge adds what was counted of an interval between two states to what ends with the event
// of the given number, and says whether the stream has drifted.
func (w *Watch) Merge(base, now *Watch) (labelled uint64) {
	w.Suspects.Count += now.Suspects.Count - base.Suspects.Count
	w.Refused.Merge(&base.Refused, &now.Refused)
	return w.Measures.Merge(&base.Measures, &now.Measures)
}

// State codes counts and measures. What watches the stream as a whole has a state of its own.
func (w *Watch) State(c *coder.Coder) {
	m := &w.Measures
	c.Uint(&m.Unlabelled)
	c.Uint(&w.Suspects.Count)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	w.Drift.alarmState(c)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
}

// SumsState codes what Merge merges.
func (w *Watch) SumsState(c *coder.Coder) {
	m := &w.Measures
	c.Uint(&m.Unlabelled)
	c.Uint(&w.Suspects.Count)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
	w.Refused.State(c)
}

// Clone returns a copy of what is counted and measured, without the health of
// fields and the block of the Prior at hand.
func (w *Watch) Clone() Watch {
	c := *w
	c.Measures, c.Refused, c.Health, c.Prior.weight = w.Measures.Clone(), w.Refused.clone(), Fields{}, nil
	return c
}
