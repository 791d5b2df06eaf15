package encode

import (
	"maps"
	"math"
	"math/bits"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// This file finds the knots of the splines of numeric columns, and the columns that are often absent.

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

// seeksKnots reports whether readings are gathered for the first knots. It is for a learner outside a group.
func (s *Scaling) seeksKnots() bool {
	return !s.knotsFound && s.Scaler.Splines == nil && s.wantsKnots()
}

// wantsKnots reports whether splines or presence columns are configured.
func (s *Scaling) wantsKnots() bool { return s.set.Presence || s.set.Knots != nil }

// most returns the largest number of knots of a spline, or 0 if there is no expert with splines.
func (s *Scaling) most() int {
	if s.set.Knots == nil {
		return 0
	}
	return s.set.Knots(len(s.knots.columns))
}

// reads reports whether readings must be passed to the method reading.
func (s *Scaling) reads() bool { return s.seeksKnots() || len(s.again) > 0 }

// rereads reports whether readings of a column are gathered for new knots.
func (s *Scaling) rereads(column uint32) bool {
	if len(s.again) == 0 {
		return false
	}
	_, gathers := s.again[column]
	return gathers
}

// reading gathers a reading of a numeric column for the knots. z is the distance of x from the center of the column, in
// standard deviations.
func (s *Scaling) reading(column uint32, field uint16, x, z float64) {
	if s.seeksKnots() {
		s.knots.add(column, field, x, s.most() > 0 && math.Abs(z) <= model.ScalerClip)
	}
	if len(s.again) > 0 {
		s.readAgain(column, x, z)
	}
}

// countForKnots counts an observed event. After enough events it finds the knots. rows is the number of the learner's
// rows, and values returns the fields whose null is telling, ascending. found reports whether the event has added splines.
func (s *Scaling) countForKnots(e *event.Example, rows int, values func() []uint16) (found bool) {
	if !s.seeksKnots() {
		return false
	}
	if s.events < KnotEvents {
		s.knots.count(e)
		return false
	}
	return s.findKnots(rows, values)
}

// findKnots computes the knots from the gathered readings. A learner with many rows, which is usual for texts, gets no
// presence columns: they would slow down every event but help only a few numbers.
func (s *Scaling) findKnots(rows int, values func() []uint16) (found bool) {
	s.knotsFound = true
	splines := s.knots.fix(s.most(), values(), func(field uint32) bool {
		named := int(field) < len(s.Kinds) && s.Kinds[field] == event.Numeric
		return s.set.Presence && rows <= mostPresent && (named || !s.set.Named)
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
	c, f, some := s.Scaler.Splines, &s.withDense, false
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

// The part below stores the latest readings of numeric columns. These readings determine whether the statistics of a column
// restart.

// recentReadings stores readings of numeric columns for which the statistics of the column may restart:
//   - the first readings;
//   - some readings up to watchUntil, which show whether the first readings were misleading;
//   - readings that differ after all earlier readings were equal;
//   - consecutive readings beyond the clip, which may be a lasting change.
type recentReadings struct {
	columns map[uint32]*latestReadings
	spare   []*latestReadings
}

type latestReadings struct {
	values []float64 // the latest readings, at most model.FirstReadings
	at     float64   // number of the latest reading in its column
	// outliers increases by one at each reading beyond the clip, and decreases by three, down to 0, at each other
	// reading.
	outliers float64
}

const (
	// A column restarts when its field outliers reaches lasting. If more than three quarters of the readings are beyond
	// the clip, this takes about 64 readings. One in changesEvery readings must differ from the previous one, because a constant
	// from a broken sensor does not show the scale.
	lasting, changesEvery = 64, 4
	// The latest readings of a column are compared with the first ones at the 64th, 128th, … watchUntil-th reading n.
	// The first readings were misleading in two cases. Either the latest readings span less than misledBy/n of the
	// column's scale (an eighth of the span of a counter's readings), or they need a transform.
	watchUntil, misledBy = 2048, 4
)

// watched reports whether the n-th reading of a column must be stored for the next comparison at the 64th, 128th, …
// reading. last reports whether the comparison is due after this reading.
func watched(n float64) (yes, last bool) {
	if n <= model.FirstReadings || n > watchUntil {
		return false, false
	}
	next := float64(uint64(1) << bits.Len64(uint64(n-1))) // the smallest power of two that is at least n
	return n > next-model.FirstReadings, n == next
}

// of returns the stored readings of a column.
func (g *recentReadings) of(column uint32) *latestReadings {
	r := g.columns[column]
	if r != nil {
		return r
	}
	if last := len(g.spare) - 1; last >= 0 {
		r, g.spare = g.spare[last], g.spare[:last]
		r.values, r.at, r.outliers = r.values[:0], 0, 0
	} else {
		r = &latestReadings{values: make([]float64, 0, model.FirstReadings)}
	}
	if g.columns == nil {
		g.columns = map[uint32]*latestReadings{}
	}
	g.columns[column] = r
	return r
}

func (g *recentReadings) drop(column uint32) {
	if r := g.columns[column]; r != nil {
		g.spare = append(g.spare, r)
		delete(g.columns, column)
	}
}

// add stores the n-th reading of a column. If it does not directly follow the stored readings, these are discarded.
func (r *latestReadings) add(n, x float64) {
	if r.at != n-1 {
		r.values = r.values[:0]
	}
	if len(r.values) == model.FirstReadings {
		copy(r.values, r.values[1:])
		r.values = r.values[:len(r.values)-1]
	}
	r.values, r.at = append(r.values, x), n
}

// addOutlier stores the n-th reading of a column, which is beyond the clip. The result is true if outliers have lasted
// long enough for a restart of the column.
func (r *latestReadings) addOutlier(n, x float64) bool {
	if r.outliers = max(0, r.outliers-3*(n-1-r.at)); r.outliers > 0 {
		r.at = n - 1
	}
	r.add(n, x)
	if r.outliers++; r.outliers < lasting || len(r.values) < model.FirstReadings {
		return false
	}
	changes := 0
	for i, v := range r.values[1:] {
		if v != r.values[i] {
			changes++
		}
	}
	return changes >= len(r.values)/changesEvery
}

// observeNumeric adds a reading to the statistics of a column that is centered and scaled, like model.Scaler.Observe. z
// is the distance of the reading from the center, in standard deviations. observeNumeric restarts the column if
// necessary. The weights do not change at a restart.
func (s *Scaling) observeNumeric(column uint32, stats []float64, x, z float64, field uint16) factors {
	if isSampled(stats[model.StatCount]+1) && stats[model.StatInverse] != 0 {
		if values := s.sample(column, stats, x); values != nil {
			return s.restart(column, stats, values)
		}
	}
	return s.observeWatched(column, stats, x, z)
}

// keepsScale reports whether the n-th reading of a column that has a scale changes only the count and the moments if it is
// within the clip. The column may be transformed.
func keepsScale(n float64) bool {
	if model.Renews(n) || isSampled(n) {
		return false
	}
	watched, _ := watched(n)
	return !watched
}

// keepsSpread is keepsScale for a column that is divided by its standard deviation. The size of the reading is z standard
// deviations.
func keepsSpread(n, z float64) bool {
	return !model.Renews(n) && (z == 0 || z < -smallAt || z > smallAt)
}

func (s *Scaling) observeWatched(column uint32, stats []float64, x, z float64) factors {
	n := stats[model.StatCount] + 1
	outlier := z > model.ScalerClip || z < -model.ScalerClip || stats[model.StatInverse] == 0 && x != stats[model.StatCenter]
	if n <= model.FirstReadings {
		if r := s.recent.columns[column]; n == 1 || r != nil && r.at == n-1 {
			r = s.recent.of(column)
			r.add(n, x)
			s.Scaler.Begin(stats, n, r.values, true)
			return still
		}
	}
	watched, last := watched(n)
	switch {
	case outlier && stats[model.StatInverse] == 0:
		s.differs(column, stats, x)
		return still
	case outlier && !watched:
		if r := s.recent.of(column); r.addOutlier(n, x) {
			return s.restart(column, stats, r.values)
		}
	case watched:
		r := s.recent.of(column)
		r.add(n, x)
		if last && len(r.values) == model.FirstReadings && s.misled(stats, r.values) {
			return s.restart(column, stats, r.values)
		}
		if n == watchUntil {
			s.recent.drop(column)
		}
	}
	ratio, shift := s.Scaler.Observe(stats, x, z)
	return factors{ratio, shift, 1}
}

// observeSpread adds a reading, whose size is z standard deviations, to the statistics of a column that is divided by
// its standard deviation. If model.FirstReadings consecutive readings are below smallAt standard deviations, the
// earlier readings were outliers. The column then restarts with the latest readings, and its weights do not change.
func (s *Scaling) observeSpread(column uint32, stats []float64, x, z float64) factors {
	total := float64(s.events + 1)
	ratio := s.Scaler.ObserveSpread(stats, x, total)
	if z == 0 || z < -smallAt || z > smallAt {
		return factors{ratio, 0, 1}
	}
	n := stats[model.StatCount]
	r := s.recent.of(column)
	if r.add(n, x); len(r.values) < model.FirstReadings {
		return factors{ratio, 0, 1}
	}
	mean, m2 := model.Moments(r.values)
	stats[model.StatMean], stats[model.StatSquares] = mean, m2*n/model.FirstReadings
	stats[model.StatInverse] = model.SpreadInverse(stats, total)
	s.recent.drop(column)
	return factors{1, 0, model.FirstReadings / n}
}

const smallAt = 0.03

// differs adds a reading of a column whose earlier readings were all equal.
func (s *Scaling) differs(column uint32, stats []float64, x float64) {
	n, usual := stats[model.StatCount]+1, stats[model.StatCenter]
	r := s.recent.of(column)
	if r.outliers > 0 {
		r.values, r.outliers = r.values[:0], 0
	}
	for len(r.values) < int(min(n, model.FirstReadings)) {
		r.values = append(r.values, usual)
	}
	at := 0 // drops an early reading if all differ
	for i, v := range r.values {
		if v == usual {
			at = i
			break
		}
	}
	r.values[at], r.at = x, n
	if s.Scaler.Begin(stats, n, r.values, true); stats[model.StatInverse] != 0 {
		s.recent.drop(column)
	}
}

// misled reports whether the first readings of a column were misleading. They were if the latest readings span a small
// part of the column's scale, or need a transform.
func (s *Scaling) misled(stats, readings []float64) bool {
	var now [model.ScalerWidth]float64
	was := s.Scaler.Standardization(stats)
	if was.Scale == 0 {
		return false
	}
	if was.Unit == 0 {
		s.Scaler.Begin(now[:], model.FirstReadings, readings, true)
		if s.Scaler.Standardization(now[:]).Unit != 0 {
			return true
		}
	}
	scale := s.scaleOf(readings, was.Unit).Scale
	return scale > 0 && scale < misledBy/stats[model.StatCount]*was.Scale
}

// scaleOf returns the center and scale of at most model.FirstReadings readings. If unit is not 0, the readings are
// first transformed with this unit.
func (s *Scaling) scaleOf(readings []float64, unit float64) model.Standardization {
	var stats [model.ScalerWidth]float64
	var room [model.FirstReadings]float64
	values := append(room[:0], readings...)
	if unit != 0 {
		for i, x := range values {
			values[i] = math.Asinh(x / unit)
		}
	}
	s.Scaler.Begin(stats[:], model.FirstReadings, values, false)
	return s.Scaler.Standardization(stats[:])
}

// restart restarts a column's statistics with its latest readings. The accumulators were summed in other units. They
// are therefore multiplied by the number of these readings divided by the number of all readings.
func (s *Scaling) restart(column uint32, stats, values []float64) factors {
	n := stats[model.StatCount] + 1
	m := factors{1, 0, float64(len(values)) / n}
	if s.Scaler.Begin(stats, float64(len(values)), values, true); s.set.Constant {
		// The strength of constant noise depends on the fraction of events with the column. This fraction must not
		// change.
		stats[model.StatSquares] *= n / stats[model.StatCount]
		stats[model.StatCount] = n
	}
	s.recent.drop(column)
	delete(s.shrinks, column)
	s.findKnotsAgain(column)
	return m
}

// state encodes or decodes the readings of all columns, in ascending order of columns.
func (g *recentReadings) state(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(g.columns))
	c.Uint32s(&columns)
	for _, column := range columns {
		r := g.of(column)
		c.Floats(&r.values)
		c.Each(&r.at, &r.outliers)
		if c.Decode && len(r.values) > model.FirstReadings {
			c.Failed = true
			return
		}
		r.values = slices.Grow(r.values, model.FirstReadings-len(r.values))
	}
}

// The part below finds new knots for a number after its column restarts.

// knotReadings is the number of readings from which the new knots of a column are computed, as quantiles.
const knotReadings = 256

// findKnotsAgain starts to gather readings for new knots of a column. The weights of its spline columns do not change,
// and neither does the weight of the column.
func (s *Scaling) findKnotsAgain(column uint32) {
	c := s.Scaler.Splines
	if i := c.Of(column); i < 0 || model.IsPresence(c.Knots[i]) {
		return
	}
	if s.again == nil {
		s.again = map[uint32][]float64{}
	}
	s.again[column] = make([]float64, 0, knotReadings)
}

// readAgain gathers a reading for new knots. z is the distance of the reading from the center of its column, in
// standard deviations.
func (s *Scaling) readAgain(column uint32, x, z float64) {
	readings, wanted := s.again[column]
	if !wanted || math.Abs(z) > model.ScalerClip {
		return
	}
	if readings = append(readings, x); len(readings) < knotReadings {
		s.again[column] = readings
		return
	}
	delete(s.again, column)
	slices.Sort(readings)
	c := s.Scaler.Splines
	i := c.Of(column)
	knots := model.KnotsOf(readings, len(c.Knots[i]))
	if len(knots) < 2 {
		return
	}
	for len(knots) < len(c.Knots[i]) { // keeps the number of spline columns
		last := len(knots) - 1
		knots = append(knots, 2*knots[last]-knots[last-1])
	}
	all := slices.Clone(c.Knots) // snapshots share the old knots
	all[i] = knots
	s.Scaler.Splines = &model.Splines{Columns: c.Columns, Knots: all}
}

// againState encodes or decodes the readings that are gathered for new knots, in ascending order of columns.
func (s *Scaling) againState(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(s.again))
	if c.Uint32s(&columns); c.Decode {
		s.again = map[uint32][]float64{}
	}
	for _, column := range columns {
		readings := s.again[column]
		c.Floats(&readings)
		c.Failed = c.Failed || len(readings) >= knotReadings
		s.again[column] = readings
	}
}
