package regression

// This file computes robust measures of a sample of targets.

import (
	"math"
	"slices"
)

const (
	// The sample has sampleSize targets. At first these are the latest targets. Later only one target in up to
	// mostEvery is added. The sample covers at least the latest quarter of the stream, or 8,192 targets.
	sampleSize, mostEvery = 64, 128
	// enoughOthers is the smallest number of targets for a reliable median.
	enoughOthers = 5
	// If a sample has at least enoughForWide targets, its spread is the quantile 15/16 of the distances from the
	// median. Up to one in sixteen targets may then be an outlier. wideToDeviation converts that quantile to the
	// standard deviation of a normal distribution, and medianToDeviation converts the median absolute deviation.
	enoughForWide     = 16
	wideToDeviation   = 1 / 1.8627
	medianToDeviation = 1.4826
)

// spread describes the location and the spread of a sample.
type spread struct {
	count, differ int     // number of targets, and number of targets that differ from the median
	median        float64 // median of the targets
	typical       float64 // robust standard deviation, 0 if most targets are equal
	others        float64 // median absolute deviation of the targets that differ from the median
}

// spreadOf returns the spread of a sample. It does not change sample.
func spreadOf(sample []float64) spread {
	var room, offs [sampleSize]float64
	n := copy(room[:], sample)
	s := spread{count: n}
	if n == 0 {
		return s
	}
	slices.Sort(room[:n])
	s.median = middle(room[:n])
	for i, y := range room[:n] {
		offs[i] = math.Abs(y - s.median)
	}
	slices.Sort(offs[:n])
	if n < enoughForWide {
		s.typical = medianToDeviation * middle(offs[:n])
	} else {
		s.typical = wideToDeviation * offs[(n-1)*15/16]
	}
	same := 0
	for same < n && offs[same] == 0 {
		same++
	}
	if s.differ = n - same; s.differ > 0 {
		s.others = middle(offs[same:n])
	}
	return s
}

// middle returns the median of sorted numbers.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// inflated reports whether nearly all targets are equal.
func (s *spread) inflated() bool { return s.typical == 0 }

// scale returns a robust standard deviation. It returns 0 if all targets are equal.
func (s *spread) scale() float64 {
	if s.inflated() {
		return s.others * math.Sqrt(float64(s.differ)/float64(max(s.count, 1)))
	}
	return s.typical
}
