package online

// This file finds the knots of the curves of numeric columns, and which of these columns
// are often left out.

import (
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
	"blankout/online/rows"
)

// curveEvents is the number of events whose readings the knots are the quantiles of. The
// knots stay as they are from then on.
const curveEvents = 1000

// curveReadings holds what numeric columns have had, until their knots are found. Wild
// readings are none of them.
type curveReadings struct {
	columns  []uint32
	readings [][]float64    // of each; empty without curves
	places   map[uint32]int // of the columns in their list; nil until needed

	// Under presence.
	events uint64
	met    []uint64 // events by column
	fields []uint32 // by column
	nulls  []uint64 // events by field that declare it as unknown
}

// add takes up a reading of a column, the value where it is for a curve.
func (c *curveReadings) add(column uint32, field uint16, x float64, curve bool) {
	if c.places == nil {
		c.places = map[uint32]int{}
		for i, column := range c.columns {
			c.places[column] = i
		}
	}
	i, ok := c.places[column]
	if !ok {
		if i = len(c.columns); i == model.MaxCurves {
			return
		}
		c.places[column] = i
		c.columns, c.readings = append(c.columns, column), append(c.readings, nil)
		c.met, c.fields = append(c.met, 0), append(c.fields, uint32(field))
	}
	c.met[i]++
	if curve {
		c.readings[i] = append(c.readings[i], x)
	}
}

// count takes up an event.
func (c *curveReadings) count(e *blankout.Example) {
	c.events++
	for _, id := range e.Missing {
		for int(id) >= len(c.nulls) {
			c.nulls = append(c.nulls, 0)
		}
		c.nulls[id]++
	}
}

// seldom says whether column i was left out by more than one event of ten, null not being
// left out.
func (c *curveReadings) seldom(i int) bool {
	there := c.met[i]
	if f := c.fields[i]; int(f) < len(c.nulls) {
		there += c.nulls[f]
	}
	return model.Seldom(there, c.events)
}

// fix returns the Curves of the columns that have varied, of at most as many knots as their
// fields are given, and under presence those of one knot of the columns that are often left
// out, and forgets the readings.
func (c *curveReadings) fix(most []int, presence bool) *model.Curves {
	out := &model.Curves{}
	for _, column := range slices.Sorted(slices.Values(c.columns)) {
		i := slices.Index(c.columns, column)
		readings := c.readings[i]
		slices.Sort(readings)
		var knots []float64
		if n := most[c.fields[i]]; n > 0 {
			knots = model.KnotsOf(readings, n)
		}
		if knots == nil && presence && c.seldom(i) {
			knots = model.Present()
		}
		if knots != nil {
			out.Columns, out.Knots = append(out.Columns, column), append(out.Knots, knots)
		}
	}
	*c = curveReadings{}
	return out
}

// presence says whether the Learner looks for numbers that are often left out.
func (l *bank) presence() bool { return l.config.Presence == "auto" && l.set.bends }

// bending says whether there are readings to be taken for the knots. Several learners of one
// model would find knots each of their own: theirs are those that one alone has found before.
func (l *bank) bending() bool {
	return (l.set.curves || l.presence()) && l.scaling.scaler.Curves == nil && !l.scaling.bent && !l.shared()
}

// bend counts an event, and finds the knots once enough have come.
func (l *bank) bend(e *blankout.Example) {
	if !l.bending() {
		return
	}
	if l.events <= curveEvents {
		l.scaling.curves.count(e)
		return
	}
	l.scaling.bent = true
	curves := l.scaling.curves.fix(l.scaling.knots, l.presence())
	if len(curves.Columns) > 0 || l.set.curves {
		l.scaling.scaler.Curves = curves
		l.bindCurves()
	}
}

// bindCurves has what dies together with a number summed, where that was not needed before
// there were curves.
func (l *bank) bindCurves() {
	if l.groups == nil {
		l.groups = rows.NewGroups(l.schema, l.config.learned(l.set.noises), l.k, true)
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
	w.Uint(&c.events)
	w.Uints(&c.met)
	w.Uint32s(&c.fields)
	w.Uints(&c.nulls)
	n := uint64(len(c.readings))
	w.Uint(&n)
	if w.Decode {
		if n != uint64(len(c.columns)) || n > model.MaxCurves || len(c.met) != len(c.columns) || len(c.fields) != len(c.columns) {
			w.Failed = true
			return
		}
		c.readings = make([][]float64, n)
	}
	for i := range c.readings {
		w.Floats(&c.readings[i])
	}
}
