package scaling

// This file holds the latest readings of numeric columns, which decide where a column
// begins anew.

import (
	"maps"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// recentReadings keeps readings of numeric columns while they decide where a column's
// statistics begin: the first ones of a column; some of the first watchUntil, which
// tell whether the first ones misled; those that differ where none did before; and
// those beyond the clip that follow each other, which may be a change that lasts.
type recentReadings struct {
	columns map[uint32]*readings
	spare   []*readings
}

type readings struct {
	values []float64 // the latest, at most event.FirstReadings
	at     float64   // the number of the last one in its column
	// One for each reading beyond the clip, less three for each other one, at least 0.
	wild float64
}

const (
	// lasting is the count of wild readings that begins a column anew: some more than
	// so many if more than three quarters lie beyond the clip. They must differ, each
	// from the one before it, once in changesEvery: what a date or a broken sensor
	// reads for a while does not tell of a scale.
	lasting, changesEvery = 64, 4
	// At its 64th, 128th, … watchUntil-th reading n the latest readings of a column are
	// compared with those that began it. They were misleading if the latest differ by less
	// than misledBy/n of the column's scale, which is an eighth of what those of a counter
	// do, or if the latest call for a transform.
	watchUntil, misledBy = 2048, 4
)

// watched says whether the n-th reading of a column is one of the last before the
// 64th, 128th, …; last, whether it is the last.
func watched(n float64) (yes, last bool) {
	next := math.Ldexp(1, math.Ilogb(n-1)+1) // the power of two that is at least n
	return n <= watchUntil && n > model.FirstReadings && n > next-model.FirstReadings, n == next
}

// of returns what has been gathered of a column.
func (g *recentReadings) of(column uint32) *readings {
	r := g.columns[column]
	if r != nil {
		return r
	}
	if last := len(g.spare) - 1; last >= 0 {
		r, g.spare = g.spare[last], g.spare[:last]
		r.values, r.at, r.wild = r.values[:0], 0, 0
	} else {
		r = &readings{values: make([]float64, 0, model.FirstReadings)}
	}
	if g.columns == nil {
		g.columns = map[uint32]*readings{}
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

// add takes up the n-th reading of a column. Earlier ones that it does not follow are
// let go of.
func (r *readings) add(n, x float64) {
	if r.at != n-1 {
		r.values = r.values[:0]
	}
	if len(r.values) == model.FirstReadings {
		copy(r.values, r.values[1:])
		r.values = r.values[:len(r.values)-1]
	}
	r.values, r.at = append(r.values, x), n
}

// addWild takes up the n-th reading of a column, one beyond the clip, and says
// whether such readings last.
func (r *readings) addWild(n, x float64) bool {
	if r.wild = max(0, r.wild-3*(n-1-r.at)); r.wild > 0 {
		r.at = n - 1
	}
	r.add(n, x)
	if r.wild++; r.wild < lasting || len(r.values) < model.FirstReadings {
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

// observeNumeric counts a reading that is z deviations from the center into the
// statistics of a column that is centered and scaled, as model.Scaler.Observe does,
// and sees to where they begin. Where that moves them the weights stay as they are.
func (s *Scaling) observeNumeric(column uint32, stats []float64, x, z float64, field uint16) Move {
	if Sampled(stats[model.StatCount]+1) && stats[model.StatInverse] != 0 {
		if values := s.sample(column, stats, x); values != nil {
			return s.restart(column, stats, values, s.transforms[field])
		}
	}
	if stats[model.StatCount] >= watchUntil && stats[model.StatInverse] != 0 && z >= -model.ScalerClip && z <= model.ScalerClip {
		ratio, shift := s.Scaler.Observe(stats, x, z)
		return Move{ratio, shift, 1}
	}
	return s.observeWatched(column, stats, x, z, s.transforms[field])
}

// Steady says whether the n-th reading of a column, within the clip, changes nothing of it but the count and
// the moments; of transformed columns it does not know.
func Steady(stats *[model.ScalerWidth]float64, n float64) bool {
	return stats[model.StatInverse] > 0 && Rests(n)
}

// Rests says whether the n-th reading of a column that has a scale, within the clip, changes nothing of it but the count and the
// moments, transformed or not.
func Rests(n float64) bool { return n > watchUntil && !model.Renews(n) && !Sampled(n) }

// RestsSpread is Rests for a column that is divided by its deviation, of a reading z deviations large.
func RestsSpread(n, z float64) bool {
	return !model.Renews(n) && (z == 0 || z < -smallAt || z > smallAt)
}

func (s *Scaling) observeWatched(column uint32, stats []float64, x, z float64, t model.Transform) Move {
	n := stats[model.StatCount] + 1
	wild := z > model.ScalerClip || z < -model.ScalerClip || stats[model.StatInverse] == 0 && x != stats[model.StatCenter]
	if n <= model.FirstReadings {
		if r := s.recent.columns[column]; n == 1 || r != nil && r.at == n-1 {
			r = s.recent.of(column)
			r.add(n, x)
			s.Scaler.Begin(stats, n, r.values, t)
			return still
		}
	}
	watched, last := watched(n)
	switch {
	case wild && stats[model.StatInverse] == 0:
		s.differs(column, stats, x, t)
		return still
	case wild && !watched:
		if r := s.recent.of(column); r.addWild(n, x) {
			return s.restart(column, stats, r.values, t)
		}
	case watched:
		r := s.recent.of(column)
		r.add(n, x)
		if last && len(r.values) == model.FirstReadings && s.misled(stats, r.values, t) {
			return s.restart(column, stats, r.values, t)
		}
		if n == watchUntil {
			s.recent.drop(column)
		}
	}
	ratio, shift := s.Scaler.Observe(stats, x, z)
	return Move{ratio, shift, 1}
}

// observeSpread counts a reading that is z deviations large into the statistics of a
// column that is divided by its deviation. Where event.FirstReadings in a row are
// less than smallAt of that, earlier ones were wild, and the column begins anew with
// these; the weights then stay as they are.
func (s *Scaling) observeSpread(column uint32, stats []float64, x, z float64) Move {
	total := float64(s.Events + 1)
	ratio := s.Scaler.ObserveSpread(stats, x, total)
	if z == 0 || z < -smallAt || z > smallAt {
		return Move{ratio, 0, 1}
	}
	n := stats[model.StatCount]
	r := s.recent.of(column)
	if r.add(n, x); len(r.values) < model.FirstReadings {
		return Move{ratio, 0, 1}
	}
	mean, m2 := model.Moments(r.values)
	stats[model.StatMean], stats[model.StatSquares] = mean, m2*n/model.FirstReadings
	stats[model.StatInverse] = model.SpreadInverse(stats, total)
	s.recent.drop(column)
	return Move{1, 0, model.FirstReadings / n}
}

const smallAt = 0.03

// differs counts a reading of a column in which none differed from the others before.
func (s *Scaling) differs(column uint32, stats []float64, x float64, t model.Transform) {
	n, usual := stats[model.StatCount]+1, stats[model.StatCenter]
	r := s.recent.of(column)
	if r.wild > 0 {
		r.values, r.wild = r.values[:0], 0
	}
	for len(r.values) < int(min(n, model.FirstReadings)) {
		r.values = append(r.values, usual)
	}
	at := 0 // an early one goes if all differ
	for i, v := range r.values {
		if v == usual {
			at = i
			break
		}
	}
	r.values[at], r.at = x, n
	if s.Scaler.Begin(stats, n, r.values, t); stats[model.StatInverse] != 0 {
		s.recent.drop(column)
	}
}

// misled says whether the readings that began a column were not typical of it: the latest
// ones lie together in a small part of its scale, or call for a transform.
func (s *Scaling) misled(stats, readings []float64, t model.Transform) bool {
	var now [model.ScalerWidth]float64
	was := s.Scaler.Standardization(stats)
	if was.Scale == 0 {
		return false
	}
	if was.Unit == 0 && t == model.TransformAuto {
		s.Scaler.Begin(now[:], model.FirstReadings, readings, t)
		if s.Scaler.Standardization(now[:]).Unit != 0 {
			return true
		}
	}
	scale := s.scaleOf(readings, was.Unit).Scale
	return scale > 0 && scale < misledBy/stats[model.StatCount]*was.Scale
}

// scaleOf returns the center and the scale of at most model.FirstReadings readings as they are, or transformed with the given unit if
// that is not 0.
func (s *Scaling) scaleOf(readings []float64, unit float64) model.Standardization {
	var stats [model.ScalerWidth]float64
	var room [model.FirstReadings]float64
	values := append(room[:0], readings...)
	if unit != 0 {
		for i, x := range values {
			values[i] = math.Asinh(x / unit)
		}
	}
	s.Scaler.Begin(stats[:], model.FirstReadings, values, model.TransformNone)
	return s.Scaler.Standardization(stats[:])
}

// restart begins a column anew with its latest readings. The metric was gathered in other
// units: the share of it is kept that these readings are of all.
func (s *Scaling) restart(column uint32, stats, values []float64, t model.Transform) Move {
	n := stats[model.StatCount] + 1
	m := Move{1, 0, float64(len(values)) / n}
	if s.Scaler.Begin(stats, float64(len(values)), values, t); s.Constant {
		// The strength of constant noise depends on the share of the events that hold the
		// column, so that share is kept.
		stats[model.StatSquares] *= n / stats[model.StatCount]
		stats[model.StatCount] = n
	}
	s.recent.drop(column)
	delete(s.shrinks, column)
	s.findKnotsAgain(column)
	return m
}

// state walks the readings of every column, in ascending order.
func (g *recentReadings) state(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(g.columns))
	c.Uint32s(&columns)
	for _, column := range columns {
		r := g.of(column)
		c.Floats(&r.values)
		c.Float(&r.at)
		c.Float(&r.wild)
		if c.Decode && len(r.values) > model.FirstReadings {
			c.Failed = true
			return
		}
		r.values = slices.Grow(r.values, model.FirstReadings-len(r.values))
	}
}
