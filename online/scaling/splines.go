package scaling

// This file finds the knots of the splines of numeric columns, and the columns that are often absent.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// KnotEvents is the number of events whose readings determine the knots, as quantiles. The knots do not change after
// that.
const KnotEvents = 1000

// mostPresent is the largest number of rows of a learner that still adds presence columns.
const mostPresent = 4096

// earlyReadings holds the readings of numeric columns, without outliers, until the knots are found.
type earlyReadings struct {
	columns  []uint32
	readings [][]float64    // readings by column; empty if there are no splines
	places   map[uint32]int // index of each column; nil until needed

	// These are for presence columns:
	events uint64
	met    []uint64 // number of events by column
	fields []uint32 // field of each column
	nulls  []uint64 // number of events in which each field is null
}

// add adds a reading of a column. The reading is used for knots only if spline is true.
func (c *earlyReadings) add(column uint32, field uint16, x float64, spline bool) {
	if c.places == nil {
		c.places = map[uint32]int{}
		for i, column := range c.columns {
			c.places[column] = i
		}
	}
	i, ok := c.places[column]
	if !ok {
		if i = len(c.columns); i == model.MaxSplines {
			return
		}
		c.places[column] = i
		c.columns, c.readings = append(c.columns, column), append(c.readings, nil)
		c.met, c.fields = append(c.met, 0), append(c.fields, uint32(field))
	}
	c.met[i]++
	if spline {
		c.readings[i] = append(c.readings[i], x)
	}
}

// count counts an event, and the fields that are null in it.
func (c *earlyReadings) count(e *event.Example) {
	c.events++
	for _, id := range e.Missing {
		for int(id) >= len(c.nulls) {
			c.nulls = append(c.nulls, 0)
		}
		c.nulls[id]++
	}
}

// seldom reports whether column i is absent from more than one event in ten. An event with null in the field does not
// count as absent.
func (c *earlyReadings) seldom(i int) bool {
	there := c.met[i]
	if f := c.fields[i]; int(f) < len(c.nulls) {
		there += c.nulls[f]
	}
	return model.Seldom(there, c.events)
}

// fix returns the Splines of the columns whose readings vary, with at most most knots. A column that is often absent
// gets a single knot, its presence column, if presence is true for its field; so does a column whose null is telling
// (values, ascending fields). fix discards the readings.
func (c *earlyReadings) fix(most int, values []uint16, presence func(field uint32) bool) *model.Splines {
	out := &model.Splines{}
	for _, column := range slices.Sorted(slices.Values(c.columns)) {
		i := slices.Index(c.columns, column)
		readings := c.readings[i]
		slices.Sort(readings)
		var knots []float64
		_, value := slices.BinarySearch(values, uint16(c.fields[i]))
		present := (value || c.seldom(i)) && presence(c.fields[i])
		switch {
		case present:
			knots = model.Present()
		case most > 0:
			knots = model.KnotsOf(readings, most)
		}
		if knots != nil {
			out.Columns, out.Knots = append(out.Columns, column), append(out.Knots, knots)
		}
	}
	*c = earlyReadings{}
	return out
}

// SeeksKnots reports whether readings are gathered for the first knots. It is for a learner outside a group.
func (s *Scaling) SeeksKnots() bool {
	return !s.KnotsFound && s.Scaler.Splines == nil && s.wantsKnots()
}

// wantsKnots reports whether splines or presence columns are configured.
func (s *Scaling) wantsKnots() bool { return s.Presence || s.Expert != nil }

// most returns the largest number of knots of a spline, or 0 if there is no expert with splines.
func (s *Scaling) most() int {
	if s.Expert == nil {
		return 0
	}
	return s.Expert(len(s.knots.columns))
}

// Reads reports whether readings must be passed to the method Reading.
func (s *Scaling) Reads() bool { return s.SeeksKnots() || len(s.again) > 0 }

// Rereads reports whether readings of a column are gathered for new knots.
func (s *Scaling) Rereads(column uint32) bool {
	if len(s.again) == 0 {
		return false
	}
	_, gathers := s.again[column]
	return gathers
}

// Reading gathers a reading of a numeric column for the knots. z is the distance of x from the center of the column, in
// standard deviations.
func (s *Scaling) Reading(column uint32, field uint16, x, z float64) {
	if s.SeeksKnots() {
		s.knots.add(column, field, x, s.most() > 0 && math.Abs(z) <= model.ScalerClip)
	}
	if len(s.again) > 0 {
		s.readAgain(column, x, z)
	}
}

// CountForKnots counts an observed event. After enough events it finds the knots. rows is the number of the learner's
// rows, and values returns the fields whose null is telling, ascending. found reports whether the event has added splines.
func (s *Scaling) CountForKnots(e *event.Example, rows int, values func() []uint16) (found bool) {
	if !s.SeeksKnots() {
		return false
	}
	if s.Events < KnotEvents {
		s.knots.count(e)
		return false
	}
	return s.FindKnots(rows, values)
}

// FindKnots computes the knots from the gathered readings. A learner with many rows, which is usual for texts, gets no
// presence columns: they would slow down every event but help only a few numbers.
func (s *Scaling) FindKnots(rows int, values func() []uint16) (found bool) {
	s.KnotsFound = true
	splines := s.knots.fix(s.most(), values(), func(field uint32) bool {
		named := int(field) < len(s.Kinds) && s.Kinds[field] == event.Numeric
		return s.Presence && rows <= mostPresent && (named || !s.Named)
	})
	if len(splines.Columns) == 0 {
		return false
	}
	s.Scaler.Splines = splines
	return true
}

// OwnBasisColumns returns a function that reports whether a column is a spline column that only the second-order expert
// learns. The function describes the current columns, and its results do not change when the Scaling changes later.
func (s *Scaling) OwnBasisColumns() func(column uint32) bool {
	c := s.Scaler.Splines
	return func(column uint32) bool {
		return column >= model.FirstBasisColumn && !model.IsPresence(c.Knots[c.Of(column)])
	}
}

// withPresence returns x followed by the presence columns of its numbers. The result is valid until the next event.
func (s *Scaling) withPresence(x event.Vec) event.Vec {
	c, f, some := s.Scaler.Splines, &s.WithDense, false
	for spline := range model.CommonColumns(c.Columns, x.Index) {
		if !model.IsPresence(c.Knots[spline]) {
			continue
		}
		if !some && f.Len() == 0 {
			f.Index, f.Value = append(f.Index, x.Index...), append(f.Value, x.Value...)
		}
		some = true
		f.Index, f.Value = append(f.Index, c.BasisColumn(spline, 0)), append(f.Value, 1)
	}
	if !some {
		return x
	}
	return *f
}

func (c *earlyReadings) state(w *coder.Coder) {
	w.Uint32s(&c.columns)
	w.Uint(&c.events)
	w.Uints(&c.met)
	w.Uint32s(&c.fields)
	w.Uints(&c.nulls)
	coder.Length(w, &c.readings, model.MaxSplines)
	if n := len(c.readings); w.Decode && (len(c.columns) != n || len(c.met) != n || len(c.fields) != n) {
		w.Failed = true
		return
	}
	for i := range c.readings {
		w.Floats(&c.readings[i])
	}
}
