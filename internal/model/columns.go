package model

// This file holds the form in which weights leave the program.

import "iter"

// Column is what the values x of one column add to the scores of a Linear: output k gains
//
//	Weights[k] z,  z = (t - Center)/Scale,  t = x, or asinh(x/Unit) if Unit is not 0,
//
// with +-Beyond in place of z where z lies beyond +-Clip, and nothing where Scale is
// 0, as of a column that was always the same number. This is the form in which
// weights leave the program: every export is made of it.
type Column struct {
	Number          uint32
	Weights         []float64 // by output
	Standardization           // Scale 1 and else 0 where nothing is standardized
}

// Clip is the bound of a standardized value, as Column has it; 0 is none, where
// nothing is standardized.
func (h *Head) Clip() float64 {
	if h.standardizes() {
		return ScalerClip
	}
	return 0
}

// Columns yields every column that has a row, in the order of the rows.
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
