package model

// This file has the form in which weights are exported.

import "iter"

// Column is what the values x of one column add to the scores of a Linear: output k gains
//
//	Weights[k] z,  z = (t - Center)/Scale,  t = x, or asinh(x/Unit) if Unit is not 0,
//
// with +-Beyond in place of z if z is beyond +-Clip, and nothing if Scale is 0, for a column that was always the same
// number. All exports use this form.
type Column struct {
	Number          uint32
	Weights         []float64 // by output
	Standardization           // Scale 1 and otherwise 0 if nothing is standardized
}

// Clip is the bound of a standardized value, see Column; 0 if nothing is standardized.
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
