package model

// This file defines Column, the form in which weights are exported.

import "iter"

// Column is the contribution of one column to the scores of a Linear. A value x adds to output k
//
//	Weights[k] z,  z = (t - Center)/Scale,  t = x, or asinh(x/Unit) if Unit is not 0.
//
// If z is beyond +-Clip, z is replaced by +-Beyond. If Scale is 0, because all values of the column were equal, the
// column adds nothing. All exports use this form.
type Column struct {
	Number          uint32
	Weights         []float64 // weights by output
	Standardization           // Scale is 1 and all other fields are 0 if nothing is standardized
}

// Clip returns the bound of a standardized value, see Column. It returns 0 if nothing is standardized.
func (h *Head) Clip() float64 {
	if h.standardizes() {
		return ScalerClip
	}
	return 0
}

// Columns yields all columns that have a row, in the order of the rows.
func (m *Linear) Columns() iter.Seq[Column] {
	return func(yield func(Column) bool) {
		for i := range m.Rows.Len() {
			number, row := m.Rows.Column(i)
			c := Column{Number: number, Weights: make([]float64, m.Outputs), Standardization: Standardization{Scale: 1}}
			for k := range c.Weights {
				c.Weights[k] = m.weight(row, k)
			}
			if stats := m.Stats(row); stats != nil {
				c.Standardization = m.Scaler.Standardization(stats)
			}
			if !yield(c) {
				return
			}
		}
	}
}
