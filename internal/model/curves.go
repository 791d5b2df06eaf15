package model

// This file holds curves: what a number adds to a score where that is not in proportion
// to the number.

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"blankout/internal/event"
)

// Curves are piecewise linear functions of numeric columns (docs/mathematics.md). A
// column's curve is a weighted sum of the hat functions of piecewise linear
// interpolation between its knots: hat j is 1 at knot j, 0 at every other one, and
// linear between. Beyond the first and the last knot a curve is constant. A hat is a
// column of its own, beside the one that it is a function of, whose value it takes as the
// event has it, before the Scaler. For any value two hats at most are not 0.
//
// A number and its hats die together under any noise: they are one feature.
// Curves are immutable.
type Curves struct {
	Columns []uint32    `json:"columns"` // that have a curve, ascending
	Knots   [][]float64 `json:"knots"`   // of each, ascending
}

const (
	// FirstHat is the first column of a hat. No event has one from here on.
	FirstHat = 1 << 31
	// MaxKnots bounds the knots of a curve. Those of curve i have the columns from
	// FirstHat + i MaxKnots on.
	MaxKnots = 64
	// MaxCurves bounds the columns that have a curve.
	MaxCurves = 4096
	// leastKnots is that of a curve that is no straight line. One knot makes the simplest
	// curve, whose only hat is 1 wherever the number is there: see Present.
	leastKnots = 3
)

// NewCurves returns Curves that own their arguments, or an error where they are none.
func NewCurves(columns []uint32, knots [][]float64) (*Curves, error) {
	c := &Curves{Columns: columns, Knots: knots}
	return c, c.check()
}

func (c *Curves) check() error {
	if len(c.Columns) != len(c.Knots) || len(c.Columns) > MaxCurves {
		return fmt.Errorf("curves: %d columns and %d lists of knots, of at most %d", len(c.Columns), len(c.Knots), MaxCurves)
	}
	for i, column := range c.Columns {
		if column >= FirstHat || i > 0 && column <= c.Columns[i-1] {
			return fmt.Errorf("curves: column %d in place %d", column, i)
		}
		knots := c.Knots[i]
		if len(knots) != 1 && len(knots) < leastKnots || len(knots) > MaxKnots {
			return fmt.Errorf("curves: column %d has %d knots, want 1 or %d to %d", column, len(knots), leastKnots, MaxKnots)
		}
		for j, at := range knots {
			if !(math.Abs(at) <= 1e30) || j > 0 && !(at > knots[j-1]) {
				return fmt.Errorf("curves: column %d has knot %v in place %d", column, at, j)
			}
		}
	}
	return nil
}

// Present are the knots of a number whose presence matters beside its weight: one hat,
// which is 1 for any value. An event that leaves the number out has neither, so that the
// two together tell what the number's mean does not.
func Present() []float64 { return []float64{0} }

// Seldom says whether a number that so many of the events hold, or declare unknown, is left
// out by more than one of ten: that it is there then tells something, see Present.
func Seldom(there, events uint64) bool { return 10*there < 9*events }

// KnotsOf returns at most n knots at evenly spaced quantiles of readings, which ascend:
// every reading that there is if they are few. It returns nil where a curve would be a
// straight line or less.
func KnotsOf(readings []float64, n int) []float64 {
	distinct := slices.Compact(slices.Clone(readings))
	knots := distinct
	if len(distinct) > n {
		knots = make([]float64, 0, n)
		for i := range n {
			// The quantile between order statistics, as numpy's default has it.
			at := float64(i) * float64(len(readings)-1) / float64(n-1)
			low := int(at)
			q := readings[low]
			if t := at - float64(low); t > 0 {
				q += t * (readings[low+1] - q)
			}
			if len(knots) == 0 || q > knots[len(knots)-1] {
				knots = append(knots, q)
			}
		}
	}
	if len(knots) < leastKnots {
		return nil
	}
	return slices.Clip(knots)
}

// Hats returns the first of the hats of curve i that are not 0 at x, as a knot's place,
// and the values of that one and of the next; the next one's is 0 if there is none.
func (c *Curves) Hats(i int, x float64) (knot int, first, next float64) {
	knots := c.Knots[i]
	at := 0 // where x is among them, found without guessing
	for _, knot := range knots {
		before := 0
		if knot < x {
			before = 1
		}
		at += before
	}
	switch {
	case at == len(knots):
		return at - 1, 1, 0
	case at == 0 || knots[at] == x:
		return at, 1, 0
	}
	a, b := knots[at-1], knots[at]
	next = (x - a) / (b - a)
	return at - 1, 1 - next, next
}

// At returns what a hat is at x.
func (c *Curves) At(hat uint32, x float64) float64 {
	curve := c.Of(hat)
	knot, first, next := c.Hats(curve, x)
	switch hat {
	case c.Hat(curve, knot):
		return first
	case c.Hat(curve, knot) + 1:
		return next
	}
	return 0
}

// Hat returns the column of a hat.
func (c *Curves) Hat(curve, knot int) uint32 { return FirstHat + uint32(curve*MaxKnots+knot) }

// Of returns the curve of a column or of a hat, -1 if it has none. The nil Curves has none.
func (c *Curves) Of(column uint32) int {
	if c == nil {
		return -1
	}
	if column >= FirstHat {
		if i := int(column-FirstHat) / MaxKnots; i < len(c.Columns) {
			return i
		}
		return -1
	}
	if i, ok := slices.BinarySearch(c.Columns, column); ok {
		return i
	}
	return -1
}

// Source returns the column that a hat is a function of; any other column is its own.
func (c *Curves) Source(column uint32) uint32 {
	if column < FirstHat || c == nil {
		return column
	}
	return c.Columns[int(column-FirstHat)/MaxKnots]
}

// Append appends to out the hats that are not 0 of the columns of x, and of those in zeros
// that x leaves out, in ascending order; both ascend.
func (c *Curves) Append(out, x event.Vec, zeros []uint32) event.Vec {
	i := 0
	for curve, column := range c.Columns {
		for i < len(x.Index) && x.Index[i] < column {
			i++
		}
		for len(zeros) > 0 && zeros[0] < column {
			zeros = zeros[1:]
		}
		value := 0.0
		switch {
		case i < len(x.Index) && x.Index[i] == column:
			value = x.Value[i]
		case len(zeros) == 0 || zeros[0] != column:
			continue
		}
		knot, first, next := c.Hats(curve, value)
		hat := c.Hat(curve, knot)
		out.Index, out.Value = append(out.Index, hat), append(out.Value, first)
		if next > 0 {
			out.Index, out.Value = append(out.Index, hat+1), append(out.Value, next)
		}
	}
	return out
}

// Follow marks the hats among columns, which ascend, as dead where the columns are that
// they are functions of.
func (c *Curves) Follow(columns []uint32, dead []bool) {
	for i, column := range columns {
		if column < FirstHat || c == nil {
			continue
		}
		at, ok := slices.BinarySearch(columns, c.Source(column))
		dead[i] = ok && dead[at]
	}
}

// DrawnCurve is what a number adds to the scores: lines between points. Between knots that
// is all there is to say, unless the number has a Transform, which bends them a little.
type DrawnCurve struct {
	Column  uint32    `json:"column"`
	Feature string    `json:"feature"`
	X       []float64 `json:"x"` // as events have the number, from the first knot to the last, ascending
	// Added is by class; of two classes that the one output tells apart the second alone,
	// what it adds to the other is the same with the sign turned.
	Added []AddedTo `json:"added"`
}

// AddedTo is what a DrawnCurve adds to the score of a class, "" where labels are numbers.
type AddedTo struct {
	Class string    `json:"class"`
	Score []float64 `json:"score"` // by the places of X
}

// bentPlaces is how many places a DrawnCurve has from one knot to the next where a
// Transform bends the line between them.
const bentPlaces = 8

// DrawnCurves yields the curves of m in the order of columns, but for those of Present.
func (m *Linear) DrawnCurves() iter.Seq[DrawnCurve] {
	return func(yield func(DrawnCurve) bool) {
		c := m.Scaler.Curves
		if c == nil {
			return
		}
		name := m.Namer()
		for i, column := range c.Columns {
			knots := c.Knots[i]
			if len(knots) < leastKnots {
				continue
			}
			places := 1
			if row := m.Rows.Row(column); row != nil {
				if stats := m.Stats(row); stats != nil && m.Scaler.Standardization(stats).Unit != 0 {
					places = bentPlaces
				}
			}
			d := DrawnCurve{Column: column, Feature: name(column)}
			for j, knot := range knots[:len(knots)-1] {
				for n := range places {
					d.X = append(d.X, knot+float64(n)/float64(places)*(knots[j+1]-knot))
				}
			}
			d.X = append(d.X, knots[len(knots)-1])
			first, classes := 0, m.Schema.Classes
			if m.Outputs == 1 {
				first, classes = 1, slices.Concat(classes, []string{"", ""})[:2]
			}
			for class := first; class < len(classes); class++ {
				side, scores := m.Side(class), make([]float64, len(d.X))
				for j, x := range d.X {
					scores[j] = m.Number(side, column, x)
				}
				d.Added = append(d.Added, AddedTo{classes[class], scores})
			}
			if !yield(d) {
				return
			}
		}
	}
}

// withoutHats returns x without its hats, which come last.
func withoutHats(x event.Vec) event.Vec {
	n := len(x.Index)
	for n > 0 && x.Index[n-1] >= FirstHat {
		n--
	}
	return event.Vec{Index: x.Index[:n], Value: x.Value[:n]}
}

// Namer returns a function that names columns for people, as Schema.Namer does, and hats by
// their number and knot, as in temperature@12.5.
func (h *Head) Namer() func(column uint32) string {
	name, c := h.Schema.Namer(), h.Scaler.Curves
	if c == nil {
		return name
	}
	return func(column uint32) string {
		if column < FirstHat {
			return name(column)
		}
		i := c.Of(column)
		knots, knot := c.Knots[i], int(column-FirstHat)%MaxKnots
		if knot >= len(knots) {
			return name(c.Columns[i])
		}
		if len(knots) == 1 {
			return name(c.Columns[i]) + "@present"
		}
		return name(c.Columns[i]) + "@" + strconv.FormatFloat(knots[knot], 'g', 6, 64)
	}
}
