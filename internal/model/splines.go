package model

// This file defines splines, the nonlinear part of a number's contribution to a score.

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"blankout/internal/event"
)

// Splines are piecewise linear functions of numeric columns (docs/mathematics.md). A spline is a weighted sum of basis
// functions, one for each of its knots. Basis function j is 1 at knot j, 0 at every other knot, and linear in between.
// Beyond the first and the last knot a spline is constant.
//
// A basis function is a separate column (a "hat"), in addition to its source column. The value of a basis function is
// computed from the source column's raw value, before standardization. At most two basis functions are nonzero at any
// value.
//
// A number and its spline columns die together under any noise: they are one feature. Splines are immutable.
type Splines struct {
	Columns []uint32    `json:"columns"` // source columns with a spline, ascending
	Knots   [][]float64 `json:"knots"`   // knots of each spline, ascending
}

const (
	// FirstBasisColumn is the first spline column. Events have only smaller columns.
	FirstBasisColumn = 1 << 31
	// MaxKnots is the largest number of knots of a spline. The columns of spline i start at FirstBasisColumn + i MaxKnots.
	MaxKnots = 64
	// MaxSplines is the largest number of splines.
	MaxSplines = 4096
	// leastKnots is the smallest number of knots of a spline that is not a straight line. The exception is a presence
	// column, which has one knot, see Present.
	leastKnots = 3
)

// NewSplines returns Splines that own their arguments, or an error if the arguments are invalid.
func NewSplines(columns []uint32, knots [][]float64) (*Splines, error) {
	c := &Splines{Columns: columns, Knots: knots}
	return c, c.check()
}

func (c *Splines) check() error {
	if len(c.Columns) != len(c.Knots) || len(c.Columns) > MaxSplines {
		return fmt.Errorf("splines: %d columns and %d lists of knots, of at most %d", len(c.Columns), len(c.Knots), MaxSplines)
	}
	for i, column := range c.Columns {
		if column >= FirstBasisColumn || i > 0 && column <= c.Columns[i-1] {
			return fmt.Errorf("splines: column %d in place %d", column, i)
		}
		knots := c.Knots[i]
		if len(knots) != 1 && len(knots) < leastKnots || len(knots) > MaxKnots {
			return fmt.Errorf("splines: column %d has %d knots, want 1 or %d to %d", column, len(knots), leastKnots, MaxKnots)
		}
		for j, at := range knots {
			if !(math.Abs(at) <= 1e30) || j > 0 && !(at > knots[j-1]) {
				return fmt.Errorf("splines: column %d has knot %v in place %d", column, at, j)
			}
		}
	}
	return nil
}

// Present returns the knots of a presence column: one basis function that is 1 for any value of its number. An event
// without the number has neither the number's column nor the presence column. So their two weights can learn an effect
// of presence.
func Present() []float64 { return []float64{0} }

// IsPresence reports whether knots belong to a presence column. The noise levels learn presence columns but no other
// spline columns.
func IsPresence(knots []float64) bool { return len(knots) == 1 }

// Seldom reports whether more than one event in ten is without a number, so that its presence is informative. there
// counts the events that have the number or declare it missing.
func Seldom(there, events uint64) bool { return 10*there < 9*events }

// KnotsOf returns at most n knots at evenly spaced quantiles of readings, which must ascend. If there are few different
// readings, all of them are knots. It returns nil if the spline would be a straight line.
func KnotsOf(readings []float64, n int) []float64 {
	distinct := slices.Compact(slices.Clone(readings))
	knots := distinct
	if len(distinct) > n {
		knots = make([]float64, 0, n)
		for i := range n {
			// Interpolate the quantile between order statistics, as numpy does by default.
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

// BasisValues returns the knot of the first nonzero basis function of spline i at x, and the values of that basis
// function and the next one. next is 0 after the last basis function.
func (c *Splines) BasisValues(i int, x float64) (knot int, first, next float64) {
	knots := c.Knots[i]
	at := 0
	for _, knot := range knots { // without branches on x
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

// At returns the value at x of the spline column hat.
func (c *Splines) At(hat uint32, x float64) float64 {
	spline := c.Of(hat)
	knot, first, next := c.BasisValues(spline, x)
	switch hat {
	case c.BasisColumn(spline, knot):
		return first
	case c.BasisColumn(spline, knot) + 1:
		return next
	}
	return 0
}

// BasisColumn returns the column of the given knot of a spline.
func (c *Splines) BasisColumn(spline, knot int) uint32 {
	return FirstBasisColumn + uint32(spline*MaxKnots+knot)
}

// Of returns the index of the spline of a source column or spline column, or -1. The nil Splines has no splines.
func (c *Splines) Of(column uint32) int {
	if c == nil {
		return -1
	}
	if column >= FirstBasisColumn {
		if i := int(column-FirstBasisColumn) / MaxKnots; i < len(c.Columns) {
			return i
		}
		return -1
	}
	if i, ok := slices.BinarySearch(c.Columns, column); ok {
		return i
	}
	return -1
}

// Source returns the source column of a spline column. It returns any other column unchanged.
func (c *Splines) Source(column uint32) uint32 {
	if column < FirstBasisColumn || c == nil {
		return column
	}
	return c.Columns[int(column-FirstBasisColumn)/MaxKnots]
}

// Append appends the nonzero spline columns of x, which must ascend, in ascending order.
func (c *Splines) Append(out, x event.Vec) event.Vec {
	for spline, i := range CommonColumns(c.Columns, x.Index) {
		knot, first, next := c.BasisValues(spline, x.Value[i])
		hat := c.BasisColumn(spline, knot)
		out.Index, out.Value = append(out.Index, hat), append(out.Value, first)
		if next > 0 {
			out.Index, out.Value = append(out.Index, hat+1), append(out.Value, next)
		}
	}
	return out
}

// Follow marks spline columns as dead if their source columns are dead. columns must ascend.
func (c *Splines) Follow(columns []uint32, dead []bool) {
	for i, column := range columns {
		if column < FirstBasisColumn || c == nil {
			continue
		}
		at, ok := slices.BinarySearch(columns, c.Source(column))
		dead[i] = ok && dead[at]
	}
}

// DrawnSpline is a number's contribution to the scores, as lines between points. The lines are exact unless the number
// has a transform, which bends the lines slightly.
type DrawnSpline struct {
	Column  uint32    `json:"column"`
	Feature string    `json:"feature"`
	X       []float64 `json:"x"` // raw values of the number from the first to the last knot, ascending
	// Added has the contribution to each class. For two classes with one output it has only the second class; the
	// contribution to the first class is the negative.
	Added []AddedTo `json:"added"`
}

// AddedTo is the contribution of a DrawnSpline to the score of one class. The class is "" for regression.
type AddedTo struct {
	Class string    `json:"class"`
	Score []float64 `json:"score"` // contribution at each X
}

// splineDigits is the number of points between knots for a number with a transform, which bends the lines.
const splineDigits = 8

// DrawnSplines yields the splines of m in the order of columns, except for presence columns.
func (m *Linear) DrawnSplines() iter.Seq[DrawnSpline] {
	return func(yield func(DrawnSpline) bool) {
		c := m.Scaler.Splines
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
					places = splineDigits
				}
			}
			d := DrawnSpline{Column: column, Feature: name(column)}
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
				side, scores := m.ClassSigns(class), make([]float64, len(d.X))
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

// WithoutBasisColumns returns x without spline columns, which are last.
func WithoutBasisColumns(x event.Vec) event.Vec {
	n := len(x.Index)
	for n > 0 && x.Index[n-1] >= FirstBasisColumn {
		n--
	}
	return event.Vec{Index: x.Index[:n], Value: x.Value[:n]}
}

// Namer returns a function that names columns for people. It names spline columns by their number and knot, as in
// temperature@12.5, and other columns as Schema.Namer does.
func (h *Head) Namer() func(column uint32) string {
	name, c := h.Schema.Namer(), h.Scaler.Splines
	if c == nil {
		return name
	}
	return func(column uint32) string {
		if column < FirstBasisColumn {
			return name(column)
		}
		i := c.Of(column)
		knots, knot := c.Knots[i], int(column-FirstBasisColumn)%MaxKnots
		if knot >= len(knots) {
			return name(c.Columns[i])
		}
		if len(knots) == 1 {
			return name(c.Columns[i]) + "@present"
		}
		return name(c.Columns[i]) + "@" + strconv.FormatFloat(knots[knot], 'g', 6, 64)
	}
}
