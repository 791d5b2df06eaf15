package model

// This file makes events lose features, and defines the values that silently dead features have.

import (
	"math"
	"slices"

	"blankout/internal/event"
)

// zerosOf is the inverse of the smallest fraction of zeros at which a dead number is 0.
const zerosOf = 100

// Zeros counts readings: all of them, and those that were 0.
type Zeros struct{ All, Zero float64 }

// Add adds other counts.
func (z *Zeros) Add(of Zeros) { z.All, z.Zero = z.All+of.All, z.Zero+of.Zero }

func (z Zeros) usual() bool { return zerosOf*z.Zero >= z.All }

// ColumnReadings has the counts and the mean of the readings of a numeric feature.
type ColumnReadings struct {
	Zeros
	Mean float64
}

// Read adds a reading.
func (r *ColumnReadings) Read(x float64) {
	if r.All++; x == 0 {
		r.Zero++
	}
	r.Mean += (x - r.Mean) / r.All
}

// Dead returns the value of the feature when it is dead, given the counts of all numeric features. It is 0 (zero is true)
// if at least a hundredth of the feature's readings are 0, and at least a hundredth of the readings of all numeric
// features. Otherwise it is the mean, before any transform. If the other features are almost never 0, a dead number is
// not 0 either, and a 0 is an ordinary value. Dead words and categories are absent.
func (r *ColumnReadings) Dead(all Zeros) (reads float64, zero bool) {
	if r.usual() && all.usual() {
		return 0, true
	}
	return r.Mean, false
}

// Dead has the values of dead numeric features, in their raw unit. It is immutable.
type Dead struct {
	Columns []uint32  `json:"columns"` // the columns, ascending
	Reads   []float64 `json:"reads"`   // dead value of each column
}

// Of returns the value of a dead column. known is false for a column that is not numeric, because such a column is
// absent when dead. The nil Dead has no columns.
func (d *Dead) Of(column uint32) (reads float64, known bool) {
	if d == nil {
		return 0, false
	}
	i, known := slices.BinarySearch(d.Columns, column)
	if !known {
		return 0, false
	}
	return d.Reads[i], true
}

// DeadStandardized returns the standardized value of a dead column, or 0 if the column is not numeric. For a spline
// column, this is the spline's value at the dead value of its numeric column.
func (m *Linear) DeadStandardized(column uint32) float64 {
	reads, known := m.Dead.Of(m.Scaler.Splines.Source(column))
	if !known {
		return 0
	}
	if column >= FirstBasisColumn {
		return m.Scaler.Splines.At(column, reads)
	}
	row := m.Rows.Row(column)
	if row == nil {
		return 0
	}
	return m.standardize(row, reads)
}

func (d *Dead) fits() bool {
	return d == nil || len(d.Columns) == len(d.Reads) && slices.IsSorted(d.Columns)
}

// LossKind is the way in which an event loses features.
type LossKind string

// The kinds of loss.
const (
	LossDeclared LossKind = "declared" // the features are declared missing
	LossDead     LossKind = "dead"     // a number has its dead value, and other features are absent; nothing is declared
	LossStale    LossKind = "stale"    // a number or category is that of an earlier event, and words are absent; nothing is declared
)

// Losses makes events of one stream lose features.
type Losses struct {
	Fields []event.Field
	Dead   *Dead                       // dead values of numbers
	Center func(column uint32) float64 // dead value of a number if Dead is nil
	Seed   uint64                      // determines from which earlier events stale readings are

	earlier []event.Example
	noted   uint64
}

// lossesKept is the largest number of earlier events of which readings can be stale.
const lossesKept = 1024

// LossesOf returns the Losses of events that a model predicts.
func LossesOf(m Model, seed uint64) *Losses {
	h := m.About()
	return &Losses{Fields: h.Schema.Fields, Dead: h.Dead, Center: m.Center, Seed: seed}
}

// Note keeps a copy of a complete event, whose readings may be the stale ones of later events. All events so far are
// equally likely to be kept.
func (l *Losses) Note(e *event.Example) {
	at := l.noted
	if l.noted++; at >= lossesKept {
		if at = event.Mix(l.Seed^l.noted) % l.noted; at >= lossesKept {
			return
		}
	}
	if at == uint64(len(l.earlier)) {
		l.earlier = append(l.earlier, event.Example{})
	}
	l.earlier[at] = event.Example{Features: event.Vec{Index: slices.Clone(e.Features.Index), Value: slices.Clone(e.Features.Value)}, Field: slices.Clone(e.Field)}
}

// Lose sets left to a copy of event number of the stream, in which some features are lost. columns are the columns of
// the event's features, of which Standardized returns more than the event has, and lost marks the lost ones. Which
// reading a stale column has does not depend on the other lost columns. Before the first Note, nothing becomes stale.
// Lose reuses the memory of left.
func (l *Losses) Lose(kind LossKind, e *event.Example, number uint64, columns []uint32, lost []bool, left *event.Example) {
	x := event.Vec{Index: left.Features.Index[:0], Value: left.Features.Value[:0]}
	field, missing, lacking := left.Field[:0], append(left.Missing[:0], e.Missing...), append(left.MissingColumns[:0], e.MissingColumns...)
	*left = *e
	add := func(column uint32, value float64, id uint16) {
		x.Index, x.Value, field = append(x.Index, column), append(x.Value, value), append(field, id)
	}
	named, sparse, at, n := e.Field != nil, e.IsSparse(l.Fields), 0, e.Features.Len()
	keep := func(to uint32) {
		for ; at < n && e.Features.Index[at] < to; at++ {
			id := uint16(0)
			if named {
				id = e.Field[at]
			}
			add(e.Features.Index[at], e.Features.Value[at], id)
		}
	}
	seed, stale := event.Mix(l.Seed^event.Mix(number)), []uint16(nil) // stale has the fields whose categories are stale
	for i, column := range columns {
		if column >= FirstBasisColumn {
			break // spline columns are computed from their numbers
		}
		if !lost[i] || kind == LossStale && len(l.earlier) == 0 {
			continue
		}
		keep(column)
		id, of := uint16(0), event.Sparse
		if at < n && e.Features.Index[at] == column {
			if named {
				id = e.Field[at]
			}
			at++
		}
		if int(id) < len(l.Fields) {
			of = l.Fields[id].Kind
		}
		switch {
		case kind == LossDeclared && (id == 0 || sparse):
			lacking = append(lacking, column)
		case kind == LossDeclared:
			missing = append(missing, id)
		case kind == LossStale && (of == event.Categorical || of == event.Boolean):
			stale = append(stale, id)
		default:
			if value, ok := l.reading(kind, column, of, seed); ok {
				add(column, value, id)
			}
		}
	}
	keep(math.MaxUint32)
	if left.Features, left.Field = x, field; len(stale) > 0 {
		l.categories(slices.Compact(stale), seed, left)
	}
	if left.Missing, left.MissingColumns = missing, lacking; kind == LossDeclared {
		slices.Sort(missing)
		left.Missing = slices.DeleteFunc(slices.Compact(missing), func(id uint16) bool {
			return int(id) < len(l.Fields) && l.Fields[id].Kind == event.Cross || slices.Contains(left.Field, id)
		})
	}
	if !named {
		left.Field = nil
	} else if left.Field == nil {
		left.Field = []uint16{} // an event whose fields are all lost is not an event without fields
	}
}

// reading returns what a lost column reads. ok is false if it is absent.
func (l *Losses) reading(kind LossKind, column uint32, of event.Kind, seed uint64) (value float64, ok bool) {
	number := of == event.Numeric || of == event.Sparse
	switch {
	case kind == LossStale && number:
		other := l.other(seed, uint64(column)).Features
		if i, ok := slices.BinarySearch(other.Index, column); ok {
			return other.Value[i], true
		}
	case kind == LossDead && l.Dead != nil:
		return l.Dead.Of(column)
	case kind == LossDead && number:
		return l.Center(column), true
	}
	return 0, false
}

// other returns the earlier event from which a column or field has its stale reading.
func (l *Losses) other(seed, of uint64) *event.Example {
	return &l.earlier[event.Mix(seed^event.Mix(of))%uint64(len(l.earlier))]
}

// categories gives the fields the categories that they have in earlier events.
func (l *Losses) categories(fields []uint16, seed uint64, left *event.Example) {
	for _, id := range fields {
		other := l.other(seed, uint64(id)<<32)
		for i, of := range other.Field {
			if of == id {
				at, _ := slices.BinarySearch(left.Features.Index, other.Features.Index[i])
				left.Features.Index = slices.Insert(left.Features.Index, at, other.Features.Index[i])
				left.Features.Value = slices.Insert(left.Features.Value, at, other.Features.Value[i])
				left.Field = slices.Insert(left.Field, at, id)
			}
		}
	}
}

// Center returns the raw value of a column that is standardized to 0. It returns 0 if nothing is standardized.
func (m *Linear) Center(column uint32) float64 {
	row := m.Rows.Row(column)
	if row == nil {
		return 0
	}
	stats := m.Stats(row)
	if stats == nil {
		return 0
	}
	return m.Scaler.Standardization(stats).Raw(0)
}
