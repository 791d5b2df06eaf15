package event

// This file defines how the values of a field are read if the configuration does not say it.

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// Reading says how the strings or the numbers of a field are read. The first values of the field decide it: after each
// of them As may change, and after ReadingValues of them it is final. Only fields with a value that may be text or a
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
	// ReadingValues is the number of values that decide a Reading.
	ReadingValues = 50
	// textWords is the least mean number of words of a text.
	textWords = 3
	// maxReadings is the largest number of Readings of a Schema. Further fields are read plainly.
	maxReadings = 256
)

// Final reports whether As can no longer change.
func (r *Reading) Final() bool { return r.Values >= ReadingValues }

// Decide sets As from the counts. The strings of a text are mostly different, unlike those of a category of several
// words: of the 50 strings that decide, at least some 32 must be.
func (r *Reading) Decide() {
	switch {
	case 10*r.Times >= 9*r.Values:
		r.As = ReadTime
	case r.Words >= textWords*r.Values && 2*bits.OnesCount64(r.Different) >= min(r.Values, ReadingValues):
		r.As = ReadText
	default:
		r.As = ReadPlain
	}
}

// Advice says how the values of the field are read and how to change it. It returns "" for plain values.
func (r *Reading) Advice() string {
	switch {
	case r.Values == 0: // a constant number, or a field that record.time_features or record.time names
		return ""
	case r.As == ReadText:
		return fmt.Sprintf("field %s is read as text: its words are features (record.text; record.categorical makes it a category)", strconv.Quote(Printable(r.Name)))
	case r.As == ReadTime:
		return fmt.Sprintf("field %s is read as a time: its hour and weekday are features (record.time_features adds the age; record.infer = false reads it plainly)", strconv.Quote(Printable(r.Name)))
	}
	return ""
}

// SetReading stores a Reading at an index, or adds it at the end. It reports whether there is room. A view of
// s that was taken earlier keeps the Reading that it had.
func (s *Schema) SetReading(i int, r Reading) bool {
	if i == len(s.Readings) {
		if i == maxReadings {
			return false
		}
		s.Readings = append(s.Readings, r)
		return true
	}
	if s.shared {
		s.Readings, s.shared = slices.Clone(s.Readings), false
	}
	s.Readings[i] = r
	return true
}

// ShareReadings returns the current Readings. The result never changes.
func (s *Schema) ShareReadings() []Reading {
	s.shared = true
	return slices.Clip(s.Readings)
}

// AsOf returns a View with the Readings after the given examples, which are the first of its Batch. before is the Schema
// before them.
func (s *Schema) AsOf(examples []Example, before *Schema) *Schema {
	readings := before.Readings
	for i := len(examples) - 1; i >= 0; i-- {
		if e := &examples[i]; e.Readings != nil {
			readings = e.Readings
			break
		}
	}
	if same(readings, s.Readings) {
		return s
	}
	v := *s
	v.Readings, v.view = readings, &v
	return &v
}

// DropReadings removes all Readings after the first n, because their record was refused. No View may contain them.
func (s *Schema) DropReadings(n int) { s.Readings = s.Readings[:n] }

// ReadAs returns the names of the fields whose values are read in the given way. It omits a number that never changes.
func (s *Schema) ReadAs(as ReadAs) (names []string) {
	for i := range s.Readings {
		if s.Readings[i].As == as && s.Readings[i].Values > 0 {
			names = append(names, s.Readings[i].Name)
		}
	}
	return names
}
