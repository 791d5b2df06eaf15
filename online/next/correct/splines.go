package correct

// This file finds where the basis of a number's spline stands among the columns that are followed.

import (
	"slices"

	"blankout/internal/model"
)

// splines are the splines of the numbers that are followed.
type splines struct {
	curves *model.Curves
	of     []int // by number: its spline, -1 for none
	first  []int // by spline: where its first column is
	room   []float64
}

// with returns columns, which ascend, with those of splines of numbers among them.
func (s *splines) with(columns []uint32) []uint32 {
	c := s.curves
	if c == nil {
		return columns
	}
	out := slices.Clone(columns)
	for spline, source := range c.Columns {
		if _, followed := slices.BinarySearch(columns, source); followed {
			for knot := range c.Knots[spline] {
				out = append(out, c.Hat(spline, knot))
			}
		}
	}
	return out
}

// place finds the splines among the columns.
func (s *splines) place(columns []uint32) {
	s.of, s.first = s.of[:0], s.first[:0]
	for _, column := range columns {
		if column < model.FirstHat {
			s.of = append(s.of, s.curves.Of(column))
		}
	}
	if s.curves == nil {
		return
	}
	for spline := range s.curves.Columns {
		at, _ := slices.BinarySearch(columns, s.curves.Hat(spline, 0))
		s.first = append(s.first, at)
	}
}

// append appends the part of an Input that is the basis of a number's spline at a value.
func (s *splines) append(number int, value float64, index []int, x []float64) ([]int, []float64) {
	spline := s.of[number]
	if spline < 0 {
		return index, x
	}
	knot, first, next := s.curves.Hats(spline, value)
	at := s.first[spline] + knot
	index, x = append(index, at), append(x, first)
	if next > 0 {
		index, x = append(index, at+1), append(x, next)
	}
	return index, x
}

// shares returns by knot of a spline the part of readings about it, nil where there is none to tell: knots are quantiles, so
// that between each two there are as many numbers.
func (s *splines) shares(spline int) []float64 {
	n := len(s.curves.Knots[spline])
	if n < 2 {
		return nil
	}
	s.room = s.room[:0]
	for knot := range n {
		share := 1 / float64(n-1)
		if knot == 0 || knot == n-1 {
			share /= 2
		}
		s.room = append(s.room, share)
	}
	return s.room
}
