package scaling

// This file has the numbers that were read of an event.

import (
	"blankout/internal/event"
	"blankout/internal/model"
)

// Read holds what was read of an event's numeric columns, in the order in which it happens: changes of scales; the
// standardized values; columns that are no longer numeric.
type Read struct {
	// Notes asks for values, Follows for changes of scales, and Hats for spline columns that no level learns as well.
	Notes, Follows, Hats bool
	Moved                []Moved
	Values               []Value
	Spread               []Value // of columns that are 0 if absent, if columns can be missing
	Reviewed             bool    // the numeric columns have been determined again
	Gone                 []uint32
}

// Moved is a change of the center and scale in force of a column.
type Moved struct {
	Column  uint32
	Was, Is model.Standardization
	X       float64 // the event's value before the change
	Move            // the change of the weights
}

// Value is a numeric value of an event.
type Value struct {
	Column uint32
	Field  uint16  // of the event; 0 in a sparse text format
	X      float64 // standardized
	Raw    float64 // as it arrived
}

// Clear forgets the current event.
func (r *Read) Clear() {
	r.Moved, r.Values, r.Spread, r.Gone, r.Reviewed = r.Moved[:0], r.Values[:0], r.Spread[:0], r.Gone[:0], false
}

// Note records a value.
func (r *Read) Note(column uint32, kind event.Kind, field uint16, x, raw float64) {
	if kind != event.Numeric {
		field = 0
	}
	r.Values = append(r.Values, Value{column, field, x, raw})
}

// NoteSpread records a value of a column that is 0 if absent.
func (r *Read) NoteSpread(column uint32, x, raw float64) {
	r.Spread = append(r.Spread, Value{column, 0, x, raw})
}

// Follow records a change of a column's center and scale, if it is wanted.
func (s *Scaling) Follow(m Moved, center, inverse float64, stats []float64) {
	if !s.Read.Follows {
		return
	}
	var was [model.ScalerWidth]float64
	was[model.StatCenter], was[model.StatInverse] = center, inverse
	m.Was, m.Is = s.Scaler.Standardization(was[:]), s.Scaler.Standardization(stats)
	s.Read.Moved = append(s.Read.Moved, m)
}
