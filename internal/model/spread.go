package model

// This file describes how the size of residuals depends on the predicted value.

import (
	"fmt"
	"math"
	"slices"
)

// Spread is a factor of a Residual's deviation, as a piecewise linear function of the predicted value. The factor is
// constant beyond the first and the last value of At. The mean square of the factor over all predictions is 1. A Spread
// is immutable; the nil Spread is 1 everywhere.
type Spread struct {
	At     []float64 `json:"at"` // predicted values, ascending
	Factor []float64 `json:"factor"`
}

// Of returns the factor at a predicted value.
func (s *Spread) Of(value float64) float64 {
	if s == nil || len(s.At) == 0 {
		return 1
	}
	i, _ := slices.BinarySearch(s.At, value)
	switch {
	case i == 0:
		return s.Factor[0]
	case i == len(s.At):
		return s.Factor[i-1]
	}
	t := (value - s.At[i-1]) / (s.At[i] - s.At[i-1])
	return s.Factor[i-1] + t*(s.Factor[i]-s.Factor[i-1])
}

func (s *Spread) check() error {
	if s == nil {
		return nil
	}
	if len(s.At) != len(s.Factor) {
		return fmt.Errorf("spread: %d values and %d factors", len(s.At), len(s.Factor))
	}
	for i, at := range s.At {
		if math.IsNaN(at) || i > 0 && !(at > s.At[i-1]) || !(s.Factor[i] > 0) || math.IsInf(s.Factor[i], 0) {
			return fmt.Errorf("spread: factor %v at %v in place %d", s.Factor[i], at, i)
		}
	}
	return nil
}

// NewSpread returns the Spread for mean absolute residuals (size) at ascending predicted values (at). Each value must
// represent the same number of predictions. NewSpread scales the sizes to a mean square of 1, with at least leastFactor
// each. NewSpread owns its arguments.
func NewSpread(at, size []float64) *Spread {
	square, mean := 0.0, 0.0
	for _, x := range size {
		mean += x / float64(len(size))
	}
	if len(at) < 2 || !(mean > 0) {
		return nil
	}
	for i, x := range size {
		size[i] = max(x/mean, leastFactor)
		square += size[i] * size[i] / float64(len(size))
	}
	for i := range size {
		size[i] /= math.Sqrt(square)
	}
	return &Spread{At: at, Factor: size}
}

// leastFactor is the smallest factor, used if residuals have been 0.
const leastFactor = 0.01
