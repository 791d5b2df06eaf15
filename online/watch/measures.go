package watch

import (
	"blankout/internal/measure"
	"blankout/online/young"
	"slices"
)

// This file holds the progressive measures.

// Measures are the progressive measures: every event is scored before it is learned, by the
// weights that are published. Sums are weighted by importance.
type Measures struct {
	Unlabeled uint64
	Classes   []uint64 // labeled events by class

	Total  measure.Classes // since the beginning
	Window measure.Classes // recently: an event's weight halves every 700 events or so

	// Binary is nil with more than two classes, or none. Its positive class is the second.
	Binary  *measure.Binary
	Numbers *Numbers // where labels are numbers, else nil
}

// windowKeep is what an event leaves of Measures.Window.
const windowKeep = 0.999

// Labeled returns the number of labeled events.
func (m *Measures) Labeled() (n uint64) {
	for _, events := range m.Classes {
		n += events
	}
	return n
}

// crowded returns the class with the most events of those that share an output although they have enough events for one
// of their own, and with how many others it does.
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

// only returns the class that all labels are of, -1 if there are several or none.
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

// Take measures an event with a class.
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

// TakeNumber measures an event whose label is a number. What was answered before any label was
// known says nothing of the model, and is left out: told is false.
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

// Merge adds what was measured of classes between two states. Sums that fade keep their
// place: what an interval adds to one is now - base k, k being what the interval leaves of
// its base. It returns how many labeled events there were.
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
