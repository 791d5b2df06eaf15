package batch

// This file fits a Scaler to a whole training set.

import (
	"fmt"
	"math"
	"slices"

	"blankout"
)

// Standardiser fits a blankout.Scaler to a whole training set, once and for all:
// the Scaler of an exact solution does not move. The zero value is ready for use.
type Standardiser struct {
	kinds map[uint32]blankout.Kind // of columns that are not Sparse
}

// Observe takes note of the kinds of an example's columns. Examples without
// fields need not be observed.
func (s *Standardiser) Observe(e *blankout.Example, schema *blankout.Schema) {
	for i, field := range e.Field {
		kind := schema.Fields[field].Kind
		if kind == blankout.Sparse {
			continue
		}
		if s.kinds == nil {
			s.kinds = map[uint32]blankout.Kind{}
		}
		s.kinds[e.Features.Index[i]] = kind
	}
}

// maxFilled bounds the entries of a set whose zeros have been filled in.
const maxFilled = 1 << 28

// Fit returns d as the Scaler makes it, and the Scaler with its statistics as a
// model without outputs. The treatment of columns is that of the streaming
// learner in the end (see blankout.StandardiseAuto and the modes beside it), with
// the statistics of all of d: numeric ones over the examples that have them,
// dense columns of sparse formats with absent ones as 0. StandardiseAll takes
// every column that is not numeric as dense.
func (s *Standardiser) Fit(d *Data, mode blankout.Standardise) (*Data, *blankout.Linear, error) {
	n := make([]float64, d.Columns())
	mean, m2, largest := make([]float64, len(n)), make([]float64, len(n)), make([]float64, len(n))
	ones := make([]bool, len(n)) // never anything but 1
	for c := range ones {
		ones[c] = true
	}
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			x := row.At(j)
			n[c]++
			delta := x - mean[c]
			mean[c] += delta / n[c]
			m2[c] += delta * (x - mean[c])
			largest[c] = max(largest[c], math.Abs(x))
			ones[c] = ones[c] && x == 1
		}
	}
	m := &blankout.Linear{Head: blankout.Head{Schema: d.Schema, Scaler: blankout.Scaler{Mode: mode},
		Layout: blankout.Layout{Width: blankout.ScalerWidth}}, Rows: blankout.NewTable(blankout.ScalerWidth)}
	total := float64(d.Rows())
	for c := range n {
		column := d.Column(c)
		kind := s.kinds[column]
		dense := mode == blankout.StandardiseAll && kind != blankout.Numeric ||
			mode == blankout.StandardiseAuto && kind == blankout.Sparse && 10*n[c] >= 9*total && !ones[c]
		stats := m.Rows.Touch(column)
		switch {
		case dense || kind == blankout.Numeric && mode != blankout.StandardiseScale:
			if dense {
				m.Scaler.Dense = append(m.Scaler.Dense, column)
				// The zeros that are not stored.
				m2[c] += mean[c] * mean[c] * n[c] * (total - n[c]) / total
				mean[c] *= n[c] / total
				n[c] = total
			}
			stats[blankout.StatCount], stats[blankout.StatMean], stats[blankout.StatSquares], stats[blankout.StatCentre] = n[c], mean[c], m2[c], mean[c]
			if sd := math.Sqrt(m2[c] / n[c]); sd > 1e-10*math.Abs(mean[c]) && sd > 1e-200 {
				stats[blankout.StatInverse] = 1 / sd
			}
		case kind == blankout.Sparse || kind == blankout.Cross || mode == blankout.StandardiseScale:
			stats[blankout.StatCount], stats[blankout.StatInverse] = n[c], 1/max(1, largest[c])
		default:
			stats[blankout.StatCount], stats[blankout.StatInverse] = n[c], 1
		}
	}
	if len(m.Scaler.Dense)*d.Rows() > maxFilled {
		return nil, nil, fmt.Errorf("standardising %d columns of %d examples would fill in every zero, %d numbers: take auto or scale", len(m.Scaler.Dense), d.Rows(), len(m.Scaler.Dense)*d.Rows())
	}
	slices.Sort(m.Scaler.Dense)
	var b Builder
	var raw, x blankout.Vec
	for i := range d.Rows() {
		raw = d.Vec(i, raw)
		x = m.Standardised(&blankout.Example{Features: raw}, blankout.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		if err := b.Add(&blankout.Example{Features: x, Label: d.Label(i), Weight: d.Weight(i)}); err != nil {
			return nil, nil, err
		}
	}
	b.d.fields = d.fields
	return b.Data(d.Schema), m, nil
}
