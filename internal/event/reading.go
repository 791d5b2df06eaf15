package event

// This file defines how the values of a field are read if the configuration does not say it.

import (
	"math/bits"
	"slices"
)

// Reading says how the strings or the numbers of a field are read. The first values of the field decide it: after each
// of them As may change, and after readingValues of them it is final. Only fields with a value that may be text or a
// time have a Reading.
type Reading struct {
	Name   string `json:"name"`
	As     ReadAs `json:"as"`
	Values int    `json:"values"` // number of strings, or of numbers that differ from the one before
	Words  int    `json:"words,omitempty"`
	Times  int    `json:"times,omitempty"` // number of Values that are dates, or epochs that grow
	// Different has a bit for each hash of a string modulo 64.
	Different uint64  `json:"different,omitempty"`
	Last      float64 `json:"last,omitempty"` // latest number
	// Order says whether the day is before the month in dates such as 1/2/2026.
	Order DayOrder `json:"order,omitempty"`
}

// ReadAs is a way to read values.
type ReadAs uint8

// The ways to read values.
const (
	ReadPlain ReadAs = iota // a string is a category, a number is a number
	ReadText                // a string is a bag of words
	ReadTime                // the value is a time
)

// DayOrder is the order of day and month in a date.
type DayOrder int8

// The orders of day and month.
const (
	OrderUnknown DayOrder = iota
	DayFirst
	MonthFirst
)

const (
	// readingValues is the number of values that decide a Reading.
	readingValues = 50
	// textWords is the least mean number of words of a text.
	textWords = 3
	// maxReadings is the largest number of Readings of a Schema. Further fields are read plainly.
	maxReadings = 4096
)

// Final reports whether As can no longer change.
func (r *Reading) Final() bool { return r.Values >= readingValues }

// Decide sets As from the counts. The strings of a text are mostly different, unlike those of a category of several
// words.
func (r *Reading) Decide() {
	switch {
	case 10*r.Times >= 9*r.Values:
		r.As = ReadTime
	case r.Words >= textWords*r.Values && 3*bits.OnesCount64(r.Different) >= r.Values:
		r.As = ReadText
	default:
		r.As = ReadPlain
	}
}

// SetReading stores a Reading at an index, or adds it at the end. It reports whether there is room. A View keeps the
// old Reading.
func (s *Schema) SetReading(i int, r Reading) bool {
	if i == len(s.Readings) {
		if i == maxReadings {
			return false
		}
		s.Readings = append(s.Readings, r)
		return true
	}
	if s.view != nil && same(s.view.Readings, s.Readings[:len(s.view.Readings)]) && i < len(s.view.Readings) {
		s.Readings = slices.Clone(s.Readings)
	}
	s.Readings[i] = r
	return true
}

// DropReadings removes all Readings after the first n, because their record was refused. No View may contain them.
func (s *Schema) DropReadings(n int) { s.Readings = s.Readings[:n] }

// ReadAs returns the names of the fields whose values are read in the given way.
func (s *Schema) ReadAs(as ReadAs) (names []string) {
	for i := range s.Readings {
		if s.Readings[i].As == as {
			names = append(names, s.Readings[i].Name)
		}
	}
	return names
}
