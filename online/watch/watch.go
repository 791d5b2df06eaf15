package watch

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// This file shows events to all who watch.

// Watch is all who watch a stream. New makes one.
type Watch struct {
	Measures   Measures
	Drift      Detector
	Prior      Prior
	Refused    Refused
	Texts      Texts
	Mislabeled Mislabeled
	Health     Fields
	// Baselines are predictors that know the labels alone.
	Baselines Baselines
	list      []Watcher

	met  Met // the event at hand, here lest each be allocated
	told Told
}

// New returns a Watch of a stream that begins.
func New() *Watch {
	w := &Watch{}
	w.list = []Watcher{
		&w.Mislabeled,
		&w.Health,
		&w.Baselines,
	}
	return w
}

// Met is an event as it came, before anything has been learned from it.
type Met struct {
	Event *event.Example
	// Came is the event as it came: Event itself, unless fields that are stuck have been declared missing.
	// These have come, and their values tell nothing.
	Came   *event.Example
	Number uint64 // of the event
	// Named says that it has fields whose names tell what is missing; Present are those that
	// it came with.
	Named   bool
	Present model.FieldSet
	Fields  []event.Field  // of the stream so far, by id
	Rows    *model.Table   // counts by column, without this event
	Of      [][]float64    // or rows of the Event's features, which count it; nil if they are not at hand
	Usual   *model.Missing // which fields are usual, nil until that is known
	Error   float64        // the error that is forecast for whole events, a share; -1 before there is one
}

// Told is a labeled event and what was answered to it, before it is learned.
type Told struct {
	Number uint64 // of the event
	After  uint64 // how many events had been met when it was answered
	Time   int64  // its time, milliseconds since the Unix epoch; 0 if unknown
	Weight float64
	// Loss is what the drift detector takes up: the log-loss, or the absolute error in
	// deviations of the targets.
	Loss float64
	// Part says that the event is one of an interval that will be merged: what looks at the
	// stream as a whole does not take it up.
	Part bool

	// Of classes: the label, the class predicted, the importance with which it is learned, the
	// score of the label, of two classes that of the second one, and its probability. Likelihood says that
	// the log-loss can be compared with that of the class shares.
	Label, Predicted   int
	Learned            float64
	Score, Probability float64
	Likelihood         bool

	// Of numbers (Regression): the label, and the value predicted with its interval (NaN where
	// there is none).
	Regression               bool
	Target, Value, Low, High float64
}

// Met shows an event as it came.
func (w *Watch) Met(m Met) {
	w.met = m
	for _, x := range w.list {
		x.Take(&w.met)
	}
}

// Told shows an event with a class, and says whether the stream has drifted.
func (w *Watch) Told(told Told) (drifted bool) {
	w.told = told
	t := &w.told
	w.Measures.Take(t)
	for _, x := range w.list {
		x.Tell(t)
	}
	if t.Part {
		return false
	}
	if t.Likelihood {
		w.Prior.Take(t.Label, t.Learned, t.Loss, t.Score, t.Number)
	}
	return w.Drift.Take(t.Loss, 1, t.Number)
}

// ToldNumber shows an event whose label is a number, and says whether the stream has drifted.
func (w *Watch) ToldNumber(told Told) (drifted bool) {
	w.told = told
	t := &w.told
	t.Regression = true
	w.Measures.TakeNumber(t, w.Baselines.First > 0 && t.After >= w.Baselines.First)
	for _, x := range w.list {
		x.Tell(t)
	}
	return w.Drift.Take(t.Loss, 1, t.Number)
}

// Merge adds what was counted of an interval between two states to what ends with the event
// of the given number, and says whether the stream has drifted.
func (w *Watch) Merge(base, now *Watch) (labeled uint64) {
	for i, x := range w.list {
		x.Merge(base.list[i], now.list[i])
	}
	w.Refused.Merge(&base.Refused, &now.Refused)
	return w.Measures.Merge(&base.Measures, &now.Measures)
}

// State codes counts and measures. What watches the stream as a whole has a state of its own.
func (w *Watch) State(c *coder.Coder) {
	m := &w.Measures
	c.Uint(&m.Unlabeled)
	c.Uint(&w.Mislabeled.Count)
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	w.Drift.AlarmState(c)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
}

// SumsState codes what Merge merges.
func (w *Watch) SumsState(c *coder.Coder) {
	m := &w.Measures
	c.Uint(&m.Unlabeled)
	for _, x := range w.list {
		x.Sums(c)
	}
	c.Uints(&m.Classes)
	c.Each(m.Total.Sums()...)
	c.Each(m.Window.Sums()...)
	if m.Binary != nil {
		c.Each(m.Binary.Sums()...)
	}
	w.Refused.State(c)
}

// BlockWatch is the block of a checkpoint that holds what has no other place in it.
const BlockWatch = "watch"

// Block codes the block "watch", after State and the states of who watches the stream as a whole.
func (w *Watch) Block(c *coder.Coder) {
	var parts []part
	for _, x := range w.list {
		parts = append(parts, part{x.Name(), x.State})
	}
	codeParts(c, parts)
}

// Figures returns what the Watchers tell, by their names.
func (w *Watch) Figures() map[string][]Figure {
	out := map[string][]Figure{}
	for _, x := range w.list {
		if figures := x.Figures(); len(figures) > 0 {
			out[x.Name()] = figures
		}
	}
	return out
}

// Clone returns a copy of what is counted and measured, of Watchers only what Merge needs, and
// without the block of the Prior at hand.
func (w *Watch) Clone() *Watch {
	c := New()
	c.Measures, c.Drift, c.Prior, c.Refused = w.Measures.Clone(), w.Drift, w.Prior, w.Refused.Clone()
	c.Prior.weight = nil
	for i, x := range c.list {
		x.Copy(w.list[i])
	}
	return c
}
