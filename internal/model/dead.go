package model

// This file says what dead features read that do not say so.

import (
	"fmt"
	"slices"
)

// SilentValue says what a dead number reads, among its values as they came. Everything else, a word or a category, is not
// sent when it is dead.
type SilentValue string

// The kinds of silent values.
const (
	// SilentAuto is SilentZero for a column of which a hundredth of the readings or more are 0, else SilentMean.
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

// Zero says whether a number reads 0 when it is dead, of which so many readings were 0.
func (v SilentValue) Zero(readings, zeros float64) bool {
	return v == SilentZero || v == SilentAuto && zerosOf*zeros >= readings
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

// DeadStandardized returns what a column reads when it is dead, standardized: 0 for one that is no number.
func (m *Linear) DeadStandardized(column uint32) float64 {
	reads, known := m.Dead.Of(column)
	if !known {
		return 0
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
