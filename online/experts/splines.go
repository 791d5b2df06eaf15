package experts

// This file finds the spline columns among the followed columns.

import (
	"slices"

	"blankout/internal/model"
)

// splines holds the followed splines. They are splines of followed numeric columns, and splines of sparse columns that
// are not themselves followed.
type splines struct {
	splines *model.Splines
	first   []int // index of each spline's first column
	room    []float64
}

// with returns numbers, which must be ascending, followed by the columns of the splines.
func (s *splines) with(numbers []uint32) []uint32 {
	c := s.splines
	if c == nil {
		return numbers
	}
	out := slices.Clone(numbers)
	for spline := range c.Columns {
		for knot := range c.Knots[spline] {
			out = append(out, c.BasisColumn(spline, knot))
		}
	}
	return out
}

// place determines, for each spline, the index in columns of its first basis column.
func (s *splines) place(columns []uint32) {
	s.first = s.first[:0]
	if s.splines == nil {
		return
	}
	for spline := range s.splines.Columns {
		at, _ := slices.BinarySearch(columns, s.splines.BasisColumn(spline, 0))
		s.first = append(s.first, at)
	}
}

// read adds the basis values of each spline, at the event's value, to an Input with room for them, from the given place
// on. It returns the place after them. columns must be ascending.
func (s *splines) read(columns []uint32, values []float64, to *Input, place int) int {
	at, index, x, sources := 0, to.Index, to.X, to.Source
	if slices.Equal(columns, s.splines.Columns) { // usual in a table
		for spline, first := range s.first {
			knot, here, next := s.splines.BasisValues(spline, values[spline])
			index[place], x[place], sources[place] = first+knot, here, spline
			if place++; next > 0 {
				index[place], x[place], sources[place] = first+knot+1, next, spline
				place++
			}
		}
		return place
	}
	for spline, source := range s.splines.Columns {
		for at < len(columns) && columns[at] < source {
			at++
		}
		if at == len(columns) {
			break
		}
		if columns[at] != source {
			continue
		}
		knot, first, next := s.splines.BasisValues(spline, values[at])
		i := s.first[spline] + knot
		index[place], x[place], sources[place] = i, first, at
		if place++; next > 0 {
			index[place], x[place], sources[place] = i+1, next, at
			place++
		}
	}
	return place
}

// fractions returns the fraction of readings near each knot of a spline, or nil if the spline has one knot. Knots are
// quantiles, so each interval between knots has equally many readings.
func (s *splines) fractions(spline int) []float64 {
	n := len(s.splines.Knots[spline])
	if n < 2 {
		return nil
	}
	s.room = s.room[:0]
	for knot := range n {
		weight := 1 / float64(n-1)
		if knot == 0 || knot == n-1 {
			weight /= 2
		}
		s.room = append(s.room, weight)
	}
	return s.room
}
