package experts

// This file finds the spline columns among the followed columns.

import (
	"math"
	"slices"

	"blankout/internal/model"
)

// splines holds the followed splines. They are splines of followed numeric columns, and splines of sparse columns that
// are not themselves followed.
type splines struct {
	splines *model.Splines
	first   []int                // index of each spline's first column
	knots   [][fastKnots]float64 // knots of each spline, then infinities; empty if a spline has too many knots
	room    []float64
}

// fastKnots is one more than the number of knots of any spline that Knots allows.
const fastKnots = mostKnots + 1

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
	s.first, s.knots = s.first[:0], s.knots[:0]
	if s.splines == nil {
		return
	}
	fast := !slices.ContainsFunc(s.splines.Knots, func(knots []float64) bool { return len(knots) >= fastKnots })
	for spline, knots := range s.splines.Knots {
		at, _ := slices.BinarySearch(columns, s.splines.BasisColumn(spline, 0))
		if s.first = append(s.first, at); fast {
			var padded [fastKnots]float64
			for i := copy(padded[:], knots); i < fastKnots; i++ {
				padded[i] = math.Inf(1)
			}
			s.knots = append(s.knots, padded)
		}
	}
}

// read adds the basis values of each spline, at the event's value, to an Input with room for them, from the given place
// on. It returns the place after them. columns must be ascending.
func (s *splines) read(columns []uint32, values []float64, to *Input, place int) int {
	at, index, x, sources := 0, to.Index, to.X, to.Source
	if slices.Equal(columns, s.splines.Columns) && len(s.knots) == len(columns) { // usual in a table
		return place + s.readAll(values, index[place:], x[place:], sources[place:])
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

// readAll is read for an event with all columns that have a spline. It computes what Splines.BasisValues does, without
// unpredictable branches. index, x and sources have room for two columns of each spline. It returns the number of columns.
func (s *splines) readAll(values []float64, index []int, x []float64, sources []int) (n int) {
	for spline := range s.knots {
		knots, value := &s.knots[spline], values[spline]
		at := below(knots[0], value) + below(knots[1], value) + below(knots[2], value) + below(knots[3], value) + below(knots[4], value)
		first, next := 1.0, 0.0
		if at > 0 && knots[at] != value {
			at--
			next = (value - knots[at]) / (knots[at+1] - knots[at]) // 0 after the last knot
			first = 1 - next
		}
		here := s.first[spline] + at
		index[n], x[n], sources[n] = here, first, spline
		if n++; next > 0 {
			index[n], x[n], sources[n] = here+1, next, spline
			n++
		}
	}
	return n
}

// below returns 1 if a knot is below x, else 0.
func below(knot, x float64) (n int) {
	if knot < x {
		n = 1
	}
	return n
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
