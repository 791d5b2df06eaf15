package scaling

// This file finds numeric columns whose scale is too large, because the first readings were in another unit or were
// outliers. Scales that are too small are found in another file, by counting readings beyond the clip.

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

const (
	// One reading in sampleEvery is sampled. model.FirstReadings consecutive sampled readings form a sample, which is
	// judged as a whole.
	sampleEvery = 8
	// A column restarts if consecutive samples span less than 1/model.ScalerClip of its scale. Together these samples
	// must cover a quarter of the column's readings, or longestShrink readings.
	longestShrink, leastShrink = 8192, 2 * model.FirstReadings * sampleEvery
	// The means of these samples must lie within mostDrift times the scale of a sample. No sample may be monotone,
	// because the latest readings of a counter are always close together.
	mostDrift = 4
)

// shrink holds the sampled readings of a column.
type shrink struct {
	values []float64
	// small is the number of readings covered by consecutive samples with a small scale. low and high are the smallest
	// and the largest mean of these samples.
	small, low, high float64
}

// Sampled reports whether the n-th reading of a column is sampled.
func Sampled(n float64) bool {
	return n > watchUntil && uint64(n)%sampleEvery == 0
}

// sample adds a sampled reading. If the column must restart, sample returns the readings with which it must restart,
// otherwise nil.
func (s *Scaling) sample(column uint32, stats []float64, x float64) []float64 {
	r := s.shrinks[column]
	if r == nil {
		if s.shrinks == nil {
			s.shrinks = map[uint32]*shrink{}
		}
		r = &shrink{values: make([]float64, 0, model.FirstReadings)}
		s.shrinks[column] = r
	}
	if r.values = append(r.values, x); len(r.values) < model.FirstReadings {
		return nil
	}
	full, was := r.values, s.Scaler.Standardization(stats)
	if was.Unit == 0 && isWide(full, was.Scale) {
		r.small, r.values = 0, full[:0]
		return nil
	}
	now := s.scaleOf(full, was.Unit)
	switch r.values = r.values[:0]; {
	case now.Scale == 0: // constant readings do not show the scale
	case now.Scale*model.ScalerClip < was.Scale && !isCounter(full):
		if r.small == 0 {
			r.low, r.high = now.Center, now.Center
		}
		r.low, r.high = min(r.low, now.Center), max(r.high, now.Center)
		if r.high-r.low > mostDrift*now.Scale {
			r.small, r.low, r.high = 0, now.Center, now.Center
		}
		if r.small += model.FirstReadings * sampleEvery; r.small >= max(leastShrink, min(stats[model.StatCount]/4, longestShrink)) {
			r.small = 0
			return full
		}
	default:
		r.small = 0
	}
	return nil
}

// Samples adds the n-th reading of a column, within the clip, to the column's sample. done is false if Observe must add it:
// it is not sampled, completes a sample, or renews the scale.
func (s *Scaling) Samples(column uint32, n, x float64) (done bool) {
	if !Sampled(n) || model.Renews(n) {
		return false
	}
	r := s.shrinks[column]
	if r == nil || len(r.values) >= model.FirstReadings-1 {
		return false
	}
	r.values = append(r.values, x)
	return true
}

// isWide reports whether the scale of model.FirstReadings readings certainly exceeds 1/model.ScalerClip of a scale, which
// takes less time than scaleOf. It is certain if enough of the pairs of readings differ by at least pairWide of the scale:
// scaleOf excludes at most a quarter of the readings, which are in as many pairs, and each other pair adds half of its
// squared difference to the sum of squared deviations.
func isWide(readings []float64, scale float64) bool {
	const pairs, pairWide = model.FirstReadings / 2, 0.42
	wide := 0
	for i, x := range readings[:pairs] {
		if math.Abs(x-readings[pairs+i]) >= pairWide*scale {
			wide++
		}
	}
	certain := pairWide * pairWide / 2 * float64(wide-model.FirstReadings/4)
	return certain > model.FirstReadings/float64(model.ScalerClip*model.ScalerClip)
}

// isCounter reports whether readings ascend or descend from first to last.
func isCounter(readings []float64) bool {
	return slices.IsSorted(readings) || slices.IsSortedFunc(readings, func(a, b float64) int { return cmp.Compare(b, a) })
}

// shrinksState encodes or decodes the samples of all columns, in ascending order of columns.
func (s *Scaling) shrinksState(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(s.shrinks))
	if c.Uint32s(&columns); c.Decode {
		s.shrinks = map[uint32]*shrink{}
	}
	for _, column := range columns {
		r := s.shrinks[column]
		if c.Decode {
			r = &shrink{}
			s.shrinks[column] = r
		}
		c.Floats(&r.values)
		c.Each(&r.small, &r.low, &r.high)
		c.Failed = c.Failed || len(r.values) >= model.FirstReadings
	}
}
