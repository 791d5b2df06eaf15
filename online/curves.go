package online

// This file finds the knots of the curves of numeric columns.

import (
	"slices"

	"blankout"
	"blankout/internal/coder"
)

// curveEvents is the number of events whose readings the knots are the quantiles of. The
// knots stay as they are from then on.
const curveEvents = 1000

// curveReadings holds what numeric columns have had, until their knots are found. Wild
// readings are none of them.
type curveReadings struct {
	columns  []uint32
	readings [][]float64    // of each
	places   map[uint32]int // of the columns in their list; nil until needed
}

// add takes up a reading of a column.
func (c *curveReadings) add(column uint32, x float64) {
	if c.places == nil {
		c.places = map[uint32]int{}
		for i, column := range c.columns {
			c.places[column] = i
		}
	}
	i, ok := c.places[column]
	if !ok {
		if i = len(c.columns); i == blankout.MaxCurves {
			return
		}
		c.places[column] = i
		c.columns, c.readings = append(c.columns, column), append(c.readings, nil)
	}
	c.readings[i] = append(c.readings[i], x)
}

// fix returns the Curves of at most n knots of the columns that have varied, and forgets
// the readings.
func (c *curveReadings) fix(n int) *blankout.Curves {
	out := &blankout.Curves{}
	for _, column := range slices.Sorted(slices.Values(c.columns)) {
		readings := c.readings[slices.Index(c.columns, column)]
		slices.Sort(readings)
		if knots := blankout.KnotsOf(readings, n); knots != nil {
			out.Columns, out.Knots = append(out.Columns, column), append(out.Knots, knots)
		}
	}
	*c = curveReadings{}
	return out
}

// bend finds the knots once enough events have come.
func (l *Learner) bend() {
	if l.config.Curves > 0 && l.scaling.scaler.Curves == nil && l.events > curveEvents {
		l.scaling.scaler.Curves = l.scaling.curves.fix(l.config.Curves)
	}
}

// withHats returns columns and their values with the hats behind them, which are valid
// until the next event.
func (s *scaling) withHats(columns []uint32, raw []float64) ([]uint32, []float64) {
	x := blankout.Vec{Index: append(s.columns[:0], columns...), Value: append(s.raw[:0], raw...)}
	x = s.scaler.Curves.Append(x, x, nil)
	s.columns, s.raw = x.Index, x.Value
	return x.Index, x.Value
}

func (c *curveReadings) state(w *coder.Coder) {
	w.Uint32s(&c.columns)
	n := uint64(len(c.readings))
	w.Uint(&n)
	if w.Decode {
		if n != uint64(len(c.columns)) || n > blankout.MaxCurves {
			w.Failed = true
			return
		}
		c.readings = make([][]float64, n)
	}
	for i := range c.readings {
		w.Floats(&c.readings[i])
	}
}
