package impute

// This file has the sums from which a covariance is computed. They are used for streams and for training sets.

import (
	"slices"

	"blankout/internal/model"
)

// Sums holds the weighted mean of points, and the weighted sums of products of deviations from the mean.
type Sums struct {
	Weight  float64 // total weight of all points
	Mean    []float64
	Squares []float64 // row by row; only the lower triangle is valid
}

// NewSums returns empty Sums for points with n values each.
func NewSums(n int) Sums { return Sums{Mean: make([]float64, n), Squares: make([]float64, n*n)} }

// Clone returns a copy.
func (s *Sums) Clone() Sums { return Sums{s.Weight, slices.Clone(s.Mean), slices.Clone(s.Squares)} }

// Add adds the point x. It overwrites x.
func (s *Sums) Add(weight float64, x []float64) {
	n, was := len(x), s.Weight
	s.Weight += weight
	for i, m := range s.Mean {
		x[i] -= m
		s.Mean[i] += weight / s.Weight * x[i]
	}
	factor := weight * was / s.Weight
	for i, d := range x {
		model.Subtract(s.Squares[i*n:][:i+1], -factor*d, x)
	}
}

// Covariance returns the covariance of the given columns, which have the given fields. Covariances between two columns
// are multiplied by certain. The result is nil if there are no points or if a number is not finite.
func (s *Sums) Covariance(columns []uint32, fields []uint16, certain float64) *model.Covariance {
	n := len(s.Mean)
	if !(s.Weight > 0) {
		return nil
	}
	matrix := make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			x := s.Squares[i*n+j] / s.Weight
			if i != j {
				x *= certain
			}
			matrix[i*n+j], matrix[j*n+i] = x, x
		}
	}
	c, err := model.NewCovariance(slices.Clone(columns), slices.Clone(fields), slices.Clone(s.Mean), matrix)
	if err != nil {
		return nil
	}
	return c
}
