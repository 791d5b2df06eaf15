package regression

// This file learns how the size of residuals depends on the predicted value.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

const (
	spreadBins = 8
	// The bins are recomputed from the quantiles of a sample of values, whenever the number of values is a power of
	// two, and after every reviewMost values. The first time is at reviewFrom values.
	reviewFrom, reviewMost = 64, 4096
	// The residuals of a bin decay over binMemory residuals. A bin starts as if it had binPrior residuals of average
	// size.
	binMemory, binPrior = 1000, 12
	publishEvery        = 64
)

// spreads estimates the mean absolute residual as a function of the predicted value. It uses bins with equal numbers of
// values.
type spreads struct {
	count    uint64
	sample   []float64 // sample of predicted values
	edges    []float64 // boundaries of the bins, ascending
	at       []float64 // medians of the bins
	size     []float64 // mean absolute residual of each bin
	weight   []float64 // number of residuals of each bin, at most binMemory
	inForce  *model.Spread
	expected float64 // mean absolute residual over the latest binMemory values
}

// observe adds a predicted value, and the distance off of its target from the middle of the prediction.
func (s *spreads) observe(value, off float64) {
	s.count++
	s.expected += (off - s.expected) / min(float64(s.count), binMemory)
	if every := max(1, min(s.count/(2*sampleSize), mostEvery)); s.count%every == 0 {
		if len(s.sample) < sampleSize {
			s.sample = append(s.sample, value)
		} else {
			s.sample[s.count/every%sampleSize] = value
		}
	}
	if n := s.count; n >= reviewFrom && (n&(n-1) == 0 || n%reviewMost == 0) {
		s.review()
	}
	if len(s.at) == 0 {
		return
	}
	bin, _ := slices.BinarySearch(s.edges, value)
	s.weight[bin] = min(s.weight[bin]+1, binMemory)
	s.size[bin] += (off - s.size[bin]) / s.weight[bin]
	if s.count%publishEvery == 0 {
		s.inForce = s.spread()
	}
}

// review recomputes the bins. The averages of the new bins are computed from the averages of the old bins.
func (s *spreads) review() {
	values := slices.Sorted(slices.Values(s.sample))
	quantile := func(q float64) float64 { return values[int(q*float64(len(values)-1))] }
	was := s.spread()
	s.edges, s.at = nil, nil
	for i := range spreadBins {
		at := quantile((float64(i) + 0.5) / spreadBins)
		if i > 0 && !(at > s.at[len(s.at)-1]) {
			continue // the bin is empty, because many values are equal
		}
		if i > 0 {
			s.edges = append(s.edges, at/2+s.at[len(s.at)-1]/2)
		}
		s.at = append(s.at, at)
	}
	weight := 0.0
	if len(s.weight) > 0 {
		weight = slices.Min(s.weight) / 2
	}
	s.size, s.weight = make([]float64, len(s.at)), make([]float64, len(s.at))
	for i, at := range s.at {
		s.weight[i], s.size[i] = weight, was.Of(at)*s.expected
	}
	s.inForce = s.spread()
}

// spread returns the relative residual size of each bin, or nil if there are no bins.
func (s *spreads) spread() *model.Spread {
	if len(s.at) < 2 || s.expected == 0 {
		return nil
	}
	size := make([]float64, len(s.size))
	for i, x := range s.size {
		size[i] = (s.weight[i]*x + binPrior*s.expected) / (s.weight[i] + binPrior)
	}
	return model.NewSpread(s.at, size)
}

func (s *spreads) state(c *coder.Coder) {
	c.Uint(&s.count)
	c.Float(&s.expected)
	c.Floats(&s.sample, &s.edges, &s.at, &s.size, &s.weight)
	known := s.inForce != nil
	if c.Bool(&known); known {
		if c.Decode {
			s.inForce = &model.Spread{}
		}
		c.Floats(&s.inForce.At, &s.inForce.Factor)
	}
	c.Failed = c.Failed || len(s.sample) > sampleSize || len(s.size) != len(s.at) || len(s.weight) != len(s.at) || len(s.at) > 0 && len(s.edges) != len(s.at)-1 ||
		known && len(s.inForce.At) != len(s.inForce.Factor)
}
