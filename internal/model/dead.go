package model

// This file defines the values that silently dead features have.

import (
	"fmt"
	"slices"

	"blankout/internal/event"
)

// SilentValue selects the value of a dead numeric feature, in its raw unit. Dead words and categories are absent.
type SilentValue string

// The choices of SilentValue.
const (
	// SilentAuto selects SilentZero for a column that is 0 in at least a hundredth of its readings, if zeros are also
	// at least a hundredth of the readings of all numeric columns. Otherwise it selects SilentMean. If
	// the other numeric columns are almost never 0, a dead number is not 0 either, and a 0 is an ordinary value.
	SilentAuto SilentValue = "auto"
	// SilentMean is the mean of the readings, before any Transform.
	SilentMean SilentValue = "mean"
	// SilentZero is 0.
	SilentZero SilentValue = "zero"
)

// ParseSilentValue parses auto, mean or zero.
func ParseSilentValue(s string) (SilentValue, error) {
	v := SilentValue(s)
	if v != SilentAuto && v != SilentMean && v != SilentZero {
		return "", fmt.Errorf("%q: want auto, mean or zero", s)
	}
	return v, nil
}

// zerosOf is the inverse of the smallest fraction of zeros at which SilentAuto selects SilentZero.
const zerosOf = 100

// Zeros counts readings, and how many of them were 0.
type Zeros struct{ Readings, Zeros float64 }

// Add adds the given counts.
func (z *Zeros) Add(readings, zeros float64) {
	z.Readings, z.Zeros = z.Readings+readings, z.Zeros+zeros
}

func (z Zeros) usual() bool { return zerosOf*z.Zeros >= z.Readings }

// Zero reports whether a dead numeric feature has the value 0, given the counts of this feature and of all numeric
// features.
func (v SilentValue) Zero(own, all Zeros) bool {
	return v == SilentZero || v == SilentAuto && own.usual() && all.usual()
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
	if stats := m.Stats(row); stats != nil {
		return m.Scaler.Apply(stats, reads)
	}
	return reads
}

func (d *Dead) fits() bool {
	return d == nil || len(d.Columns) == len(d.Reads) && slices.IsSorted(d.Columns)
}

// DeleteSilently calls Dead.Delete with the values and columns of a model.
func DeleteSilently(m Model, e *event.Example, columns []uint32, dead []bool, left *event.Example) {
	h := m.About()
	h.Dead.Delete(e, h.Schema.Fields, columns, dead, m.Center, left)
}

// Delete sets left to a copy of an event in which some features have died silently. A dead number has its dead value,
// other dead features are absent, and nothing is declared missing. columns are the columns of the event's features as
// Standardized returns them, and dead marks the dead columns. If d is nil, a dead number gets the center of its column.
// Delete reuses the memory of left.
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
		if column >= FirstBasisColumn {
			break // spline columns are computed from their numbers
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
