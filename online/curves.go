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
// out, and forgets the readings. presenceFirst says that these have no curve of more.
func (c *curveReadings) fix(most []int, presence, presenceFirst bool) *model.Curves {
	out := &model.Curves{}
	for _, column := range slices.Sorted(slices.Values(c.columns)) {
		i := slices.Index(c.columns, column)
		readings := c.readings[i]
		slices.Sort(readings)
		var knots []float64
		present := presence && c.seldom(i)
		if n := most[c.fields[i]]; n > 0 && !(present && presenceFirst) {
			knots = model.KnotsOf(readings, n)
		}
		if knots == nil && present {
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
	return (l.set.curves || l.presence() || l.set.second) && l.scaling.scaler.Curves == nil && !l.scaling.bent && !l.shared()
}

// knots returns the most knots of a curve of a field: where the levels learn none, of that which the
// second-order expert does, of classes.
func (l *bank) knots(field uint16) int {
	if n := l.scaling.knots[field]; n > 0 || l.set.curves || !l.set.second || l.set.numbers {
		return n
	}
	return secondKnots(len(l.scaling.curves.columns))
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
	knots := make([]int, len(l.scaling.knots))
	for field := range knots {
		knots[field] = l.knots(uint16(field))
	}
	curves := l.scaling.curves.fix(knots, l.presence(), !l.set.curves)
	if len(curves.Columns) > 0 || l.set.curves {
		l.scaling.scaler.Curves = curves
		l.bindCurves()
	}
}

// bindCurves has what dies together with a number summed, where that was not needed before
// there were curves.
func (l *bank) bindCurves() {
	if l.groups == nil && (l.set.curves || slices.ContainsFunc(l.scaling.scaler.Curves.Knots, isPresence)) {
		l.groups = rows.NewGroups(l.schema, l.config.learned(l.set.noises), l.k, true)
	}
}

// isPresence says whether knots are those of model.Present. The levels learn these hats; others only
// where curves are configured.
func isPresence(knots []float64) bool { return len(knots) == 1 }

// ownHat says whether a column is a hat that the second-order expert has alone.
func (l *bank) ownHat(column uint32) bool {
	c := l.scaling.scaler.Curves
	return column >= model.FirstHat && !l.set.curves && !isPresence(c.Knots[c.Of(column)])
}

// withHats returns columns and their values with the hats behind them that the levels learn, which
// are valid until the next event.
func (l *bank) withHats(columns []uint32, raw []float64) ([]uint32, []float64) {
	s, c := &l.scaling, l.scaling.scaler.Curves
	s.hats = c.Append(blankout.Vec{Index: s.hats.Index[:0], Value: s.hats.Value[:0]}, blankout.Vec{Index: columns, Value: raw}, nil)
	first := 0
	if !l.set.curves {
		if first = slices.IndexFunc(s.hats.Index, func(hat uint32) bool { return isPresence(c.Knots[c.Of(hat)]) }); first < 0 {
			return columns, raw
		}
	}
	if len(columns) == 0 || len(s.columns) == 0 || &columns[0] != &s.columns[0] {
		s.columns, s.raw = append(s.columns[:0], columns...), append(s.raw[:0], raw...)
	}
	for i, hat := range s.hats.Index[first:] {
		if l.set.curves || isPresence(c.Knots[c.Of(hat)]) {
			s.columns, s.raw = append(s.columns, hat), append(s.raw, s.hats.Value[first+i])
		}
	}
	return s.columns, s.raw
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
