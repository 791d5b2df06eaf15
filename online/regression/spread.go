package regression

// This file holds robust measures of a sample of targets.

import (
	"math"
	"slices"
)

const (
	// The sample is of sampleSize targets, at first the latest, then one of every so many, at most mostEvery: it covers
	// the latest quarter of the stream or more, at most 8,192 targets.
	sampleSize, mostEvery = 64, 128
	// enoughOthers is of how many targets a median is trusted.
	enoughOthers = 5
	// Of samples from enoughForWide on, the quantile 15/16 of the distances from the median measures the spread: what
	// is farther in one of sixteen targets or less may be an outlier. wideToDeviation and medianToDeviation make of
	// these and of the median absolute deviation the deviation of normal numbers.
	enoughForWide     = 16
	wideToDeviation   = 1 / 1.8627
	medianToDeviation = 1.4826
)

// spread is where the numbers of a sample lie.
type spread struct {
	count, differ int     // numbers, and those that differ from the median
	median        float64 // of the numbers
	typical       float64 // an estimate of their deviation that outliers do not move, 0 where most are equal
	others        float64 // the median absolute deviation of those that differ from the median
}

// spreadOf returns the spread of a sample, which it leaves as it is.
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

// inflated says whether nearly all numbers are equal.
func (s *spread) inflated() bool { return s.typical == 0 }

// scale returns an estimate of the deviation that outliers do not move, 0 where all numbers are equal.
func (s *spread) scale() float64 {
	if s.inflated() {
		return s.others * math.Sqrt(float64(s.differ)/float64(max(s.count, 1)))
	}
	return s.typical
}
