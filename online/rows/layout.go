// Package rows has the arithmetic that learning and predicting share: the layout of a feature's row (Layout), the rows
// of an event and what an optimizer needs of it (Event, Step), the loops over them (Sum, AdagradStep, …), and the sums
// over features that die together (Groups). It keeps nothing but scratch memory between events.
//
// Values "by level and output" are n values, outputs for each noise level. That of level v and output k has index v
// outputs + k.
package rows

import "blankout/internal/model"

// Layout is the layout of a feature's row:
//
//	[Scaler's statistics] [weights] [preconditioner] [lags] [the optimizer's own] [refresh]
//
// Every part but the first has one value for each level and output. So an event loads everything about a feature at
// once, and the loops over levels and outputs are one loop over contiguous memory.
//
// The preconditioner is what an optimizer divides its steps by, such as AdaGrad's accumulators. The lag is the average
// of the iterates minus the iterate, divided by a coefficient c of the level: average = w + c lag.
type Layout struct {
	Outputs int
	N       int // levels times outputs
	Refresh int // index of the refresh's parts, after those of the optimizer
}

// FirstPart is the start of the parts that have a value for each level and output.
const FirstPart = model.ScalerWidth

// Part returns part i of a row, counted from the weights: its values by level and output. The result aliases the row,
// as those of the methods below do.
func (y Layout) Part(row []float64, i int) []float64 {
	at := FirstPart + i*y.N
	return row[at : at+y.N : at+y.N]
}

// Weights returns the weights of the iterates.
func (y Layout) Weights(row []float64) []float64 { return y.Part(row, 0) }

// Preconditioner returns what steps are divided by.
func (y Layout) Preconditioner(row []float64) []float64 { return y.Part(row, 1) }

// Lags returns the lags of the averages.
func (y Layout) Lags(row []float64) []float64 { return y.Part(row, 2) }

// Own returns the optimizer's own part, if it has one.
func (y Layout) Own(row []float64) []float64 { return y.Part(row, 3) }

// Curvature returns the refresh's sums D: of squared features times the loss's second derivatives.
func (y Layout) Curvature(row []float64) []float64 { return y.Part(row, y.Refresh) }

// Center returns the refresh's c, for a sliding window.
func (y Layout) Center(row []float64) []float64 { return y.Part(row, y.Refresh+1) }

// Gather adds the curvature s.H[j] times the features to the sums of D.
func (y Layout) Gather(s *Step) {
	for i, row := range s.Rows {
		d := y.Curvature(row)
		for v, strength := range s.Strength {
			c := s.Growth * (s.X[i]*s.X[i] + strength*s.Basis[i])
			for j := v * y.Outputs; j < (v+1)*y.Outputs; j++ {
				d[j] += s.H[j] * c
			}
		}
	}
}

// Regroup fills to, by level and output, with as many outputs as there are lists: each is the mean of those of its list
// in of, which has so many outputs.
func Regroup(to, of []float64, from [][]int, outputs int) {
	for at := 0; at < len(of); at += outputs {
		for _, list := range from {
			to[0] = of[at+list[0]]
			if len(list) > 1 {
				sum := 0.0
				for _, k := range list {
					sum += of[at+k]
				}
				to[0] = sum / float64(len(list))
			}
			to = to[1:]
		}
	}
}
