package watch

import (
	"blankout/internal/measure"
	"blankout/online/young"
	"slices"
)

// This file has the progressive measures.

// Measures holds the progressive measures: each event is predicted with the published weights before it is learned.
// Sums are weighted by importance.
type Measures struct {
	Unlabeled uint64
	Classes   []uint64 // number of labeled events by class

	Total  measure.Classes // since the start
	Window measure.Classes // recent: the weight of an event halves about every 700 events

	// Binary is nil unless there are two classes. The second class is positive.
	Binary  *measure.Binary
	Numbers *Numbers // nil for classification
}

// windowKeep is the decay of Measures.Window per event.
const windowKeep = 0.999

// Labeled returns the number of labeled events.
func (m *Measures) Labeled() (n uint64) {
	for _, events := range m.Classes {
		n += events
	}
	return n
}

// crowded returns the class with the most events among those that share an output although they have enough events for
// their own, and the number of classes that it shares the output with.
func (m *Measures) crowded(outputs []int) (class, others int) {
	count := map[int]int{}
	for _, o := range outputs {
		count[o]++
	}
	most := uint64(young.Ripe - 1)
	for i, n := range m.Classes[:min(len(m.Classes), len(outputs))] {
		if n > most && outputs[i] >= 0 && count[outputs[i]] > 1 {
			class, most, others = i, n, count[outputs[i]]-1
		}
	}
	return class, others
}

// only returns the class of all labels, or -1 if there are several classes or no labels.
func (m *Measures) only() int {
	class := -1
	for i, events := range m.Classes {
		switch {
		case events == 0:
		case class >= 0:
			return -1
		default:
			class = i
		}
	}
	return class
}

// Take measures a classified event.
func (m *Measures) Take(t *Told) {
	for t.Label >= len(m.Classes) {
		m.Classes = append(m.Classes, 0)
	}
	m.Classes[t.Label]++
	if m.Binary != nil {
		m.Binary.Add(t.Label, t.Predicted, t.Weight, t.Score, t.Probability)
	}
	right := t.Predicted == t.Label
	m.Total.Add(right, t.Weight, t.Loss, 1)
	m.Window.Add(right, t.Weight, t.Loss, windowKeep)
}

// TakeNumber measures a regression. Predictions before the first label do not count; told is false for these.
func (m *Measures) TakeNumber(t *Told, told bool) {
	if n := m.Numbers; told {
		n.Total.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, 1)
		n.Window.Add(n.Loss, t.Target, t.Weight, t.Value, t.Low, t.High, windowKeep)
	}
	if len(m.Classes) == 0 {
		m.Classes = []uint64{0}
	}
	m.Classes[0]++
}

// Merge adds the measures of classification from base to now. A sum that decays changes by now - k base, where k is the
// decay of the interval. The result is the number of labeled events.
func (m *Measures) Merge(base, now *Measures) (labeled uint64) {
	m.Unlabeled += now.Unlabeled - base.Unlabeled
	for i, n := range now.Classes {
		if i < len(base.Classes) {
			n -= base.Classes[i]
		}
		if i == len(m.Classes) {
			m.Classes = append(m.Classes, 0)
		}
		m.Classes[i] += n
		labeled += n
	}
	measure.Merge(m.Total.Sums(), base.Total.Sums(), now.Total.Sums(), 1)
	measure.Merge(m.Window.Sums(), base.Window.Sums(), now.Window.Sums(), measure.Power(windowKeep, labeled))
	if m.Binary != nil {
		measure.Merge(m.Binary.Sums(), base.Binary.Sums(), now.Binary.Sums(), 1)
	}
	return labeled
}

// Clone returns a copy that shares nothing.
func (m *Measures) Clone() Measures {
	c := *m
	c.Classes = slices.Clone(m.Classes)
	if m.Binary != nil {
		b := *m.Binary
		c.Binary = &b
	}
	if m.Numbers != nil {
		n := *m.Numbers
		c.Numbers = &n
	}
	return c
}
