package experts

import (
	"blankout/internal/model"
)

// These give the tests, which use the experts of other packages, access to private parts.

// RestAfter, LeastWeight and WakeWeight are the constants of the same names.
const (
	RestAfter               = restAfter
	LeastWeight, WakeWeight = leastWeight, wakeWeight
)

// Learns is learns, for the next event.
func (x *Experts) Learns(i int, mix []float64) bool {
	learns := x.learns(i, mix)
	x.learned++
	return learns
}

// FollowNumbers follows columns and the splines of c, or its current splines if c is nil.
func (x *Experts) FollowNumbers(columns []uint32, c *model.Splines, t *model.Table) {
	if c != nil {
		x.splines.splines = c
	}
	x.follow(columns, t)
}

// Fractions returns the fraction of readings near each knot of a spline, and the column of each knot.
func (x *Experts) Fractions(spline int) (fractions []float64, columns []uint32) {
	fractions = x.splines.fractions(spline)
	for knot := range fractions {
		columns = append(columns, x.splines.splines.BasisColumn(spline, knot))
	}
	return fractions, columns
}

// Numbers returns the number of followed columns that are no spline columns.
func (x *Experts) Numbers() int { return x.numbers }
