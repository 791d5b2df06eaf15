package scaling

// This file holds what was read of an event's numbers.

import (
	"blankout/internal/event"
	"blankout/internal/model"
)

// Read is what was read of an event's numeric columns, in the order in which it
// comes about: of some columns the center or scale moved; the values, as scores take them;
// columns that ceased to be numeric.
type Read struct {
	// Notes says that the values are wanted, Follows that moves are, Hats that also those hats are that
	// no level learns.
	Notes, Follows, Hats bool
	Moved                []Moved
	Values               []Value
	Spread               []Value // of the columns that are 0 where they are left out, where events are known to lack columns
	Reviewed             bool    // which columns are numbers of which kind has been decided anew
	Gone                 []uint32
}

// Moved says that a column's center and scale in force are no longer what they were.
type Moved struct {
	Column  uint32
	Was, Is model.Standardization
	X       float64 // the event's value as it was
	Move            // by what the weights have been moved
}

// Value is a numeric value of an event.
type Value struct {
	Column uint32
	Field  uint16  // of the event, 0 for a column of a sparse text format
	X      float64 // standardized
	Raw    float64 // as it came
}

// Clear forgets the event at hand.
func (r *Read) Clear() {
	r.Moved, r.Values, r.Spread, r.Gone, r.Reviewed = r.Moved[:0], r.Values[:0], r.Spread[:0], r.Gone[:0], false
}

// Note takes down a value.
func (r *Read) Note(column uint32, kind event.Kind, field uint16, x, raw float64) {
	if kind != event.Numeric {
		field = 0
	}
	r.Values = append(r.Values, Value{column, field, x, raw})
}

// NoteSpread takes down a value of a column that is 0 where it is left out.
func (r *Read) NoteSpread(column uint32, x, raw float64) {
	r.Spread = append(r.Spread, Value{column, 0, x, raw})
}

// Follow takes down, if it is wanted, that a column's center and scale were others.
func (s *Scaling) Follow(m Moved, center, inverse float64, stats []float64) {
	if !s.Read.Follows {
		return
	}
	var was [model.ScalerWidth]float64
	was[model.StatCenter], was[model.StatInverse] = center, inverse
	m.Was, m.Is = s.Scaler.Standardization(was[:]), s.Scaler.Standardization(stats)
	s.Read.Moved = append(s.Read.Moved, m)
}
