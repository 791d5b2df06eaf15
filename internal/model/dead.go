package model

// This file says what dead features read that do not say so.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
)

// SilentValue says what a dead number reads, among its values as they came. Everything else, a word or a category, is not
// sent when it is dead.
type SilentValue string

// The kinds of silent values.
const (
	// SilentAuto is SilentZero for a column of which a hundredth of the readings or more are 0, in records of which a hundredth of all
	// numbers or more are 0; else SilentMean. Where other numbers never are 0, a 0 now and then is a value like others.
	SilentAuto SilentValue = "auto"
	// SilentMean is the mean of the readings, before any Transform.
	SilentMean SilentValue = "mean"
	// SilentZero is 0.
	SilentZero SilentValue = "zero"
)

// ParseSilentValue reads auto, mean or zero.
func ParseSilentValue(s string) (SilentValue, error) {
	v := SilentValue(s)
	if v != SilentAuto && v != SilentMean && v != SilentZero {
		return "", fmt.Errorf("%q: want auto, mean or zero", s)
	}
	return v, nil
}

// zerosOf is one of how many readings that are 0 a number reads 0 from when it is dead.
const zerosOf = 100

// Zeros counts readings of numbers, and those that were 0.
type Zeros struct{ Readings, Zeros float64 }

// Add adds counts.
func (z *Zeros) Add(readings, zeros float64) {
	z.Readings, z.Zeros = z.Readings+readings, z.Zeros+zeros
}

func (z Zeros) usual() bool { return zerosOf*z.Zeros >= z.Readings }

// Zero says whether a number reads 0 when it is dead, given the readings of it and of all numbers.
func (v SilentValue) Zero(own, all Zeros) bool {
	return v == SilentZero || v == SilentAuto && own.usual() && all.usual()
}

// Dead says what dead numbers read, as they come. It is immutable.
type Dead struct {
	Columns []uint32  `json:"columns"` // ascending
	Reads   []float64 `json:"reads"`   // by column
}

// Of returns what a column reads when it is dead; known is false for one that is no number, which is not sent. The nil
// Dead knows none.
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

// DeadStandardized returns what a column reads when it is dead, standardized: 0 for one that is no number. A hat is that of
// what its number reads.
func (m *Linear) DeadStandardized(column uint32) float64 {
	reads, known := m.Dead.Of(m.Scaler.Curves.Source(column))
	if !known {
		return 0
	}
	if column >= FirstHat {
		return m.Scaler.Curves.At(column, reads)
	}
	row := m.Rows.Row(column)
	if row == nil {
		return 0
	}
	if stats := m.Stats(row); stats != nil {
		return m.Scaler.Apply(stats, reads)
	}
	return reads
}

func (d *Dead) fits() bool {
	return d == nil || len(d.Columns) == len(d.Reads) && slices.IsSorted(d.Columns)
}

// DeleteSilently is Dead.Delete of what a model knows.
func DeleteSilently(m Model, e *event.Example, columns []uint32, dead []bool, left *event.Example) {
	h := m.About()
	h.Dead.Delete(e, h.Schema.Fields, columns, dead, m.Center, left)
}

// Delete sets left to what is left of an event, as it comes, of which some features have died silently: a number reads
// what d knows of its column, everything else is not sent, and nothing is declared missing. columns are those of the
// event's features as Standardized returns them, and dead says which have died. For the nil Dead a number reads the
// center of its column. Delete keeps the memory of left.
func (d *Dead) Delete(e *event.Example, fields []event.Field, columns []uint32, dead []bool, center func(column uint32) float64, left *event.Example) {
	x := event.Vec{Index: left.Features.Index[:0], Value: left.Features.Value[:0]}
	field, named := left.Field[:0], e.Field != nil
	missing, lacking := append(left.Missing[:0], e.Missing...), append(left.MissingColumns[:0], e.MissingColumns...)
	add := func(column uint32, value float64, id uint16) {
		x.Index, x.Value, field = append(x.Index, column), append(x.Value, value), append(field, id)
	}
	keep := func(i int) {
		id := uint16(0)
		if named {
			id = e.Field[i]
		}
		add(e.Features.Index[i], e.Features.Value[i], id)
	}
	at, n := 0, e.Features.Len()
	for i, column := range columns {
		if column >= FirstHat {
			break // they follow from their numbers
		}
		for ; at < n && e.Features.Index[at] < column; at++ {
			keep(at)
		}
		holds := at < n && e.Features.Index[at] == column
		if !dead[i] {
			continue
		}
		id := uint16(0)
		if holds {
			if named {
				id = e.Field[at]
			}
			at++
		}
		reads, known := d.Of(column)
		if d == nil && (int(id) >= len(fields) || fields[id].Kind == event.Numeric || fields[id].Kind == event.Sparse) {
			reads, known = center(column), true
		}
		if known {
			add(column, reads, id)
		}
	}
	for ; at < n; at++ {
		keep(at)
	}
	*left = *e
	left.Features, left.Field, left.Missing, left.MissingColumns = x, field, missing, lacking
	if !named {
		left.Field = nil
	}
}

// Center returns the number, as it comes, of which the Scaler makes 0 in a column: 0 where nothing is standardized.
func (m *Linear) Center(column uint32) float64 {
	row := m.Rows.Row(column)
	if row == nil {
		return 0
	}
	stats := m.Stats(row)
	if stats == nil {
		return 0
	}
	s := m.Scaler.Standardization(stats)
	if s.Unit != 0 {
		return s.Unit * math.Sinh(s.Center)
	}
	return s.Center
}
