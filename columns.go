package blankout

import "iter"

// Column is what the values x of one column add to a Model's scores: output k gains
//
//	Weights[k] z,  z = (x - Centre)/Scale, limited to +-Clip,
//
// and nothing where Scale is 0, as of a column that was always the same number. This
// is the form in which weights leave the program: every export is made of it.
type Column struct {
	Number  uint32
	Weights []float64 // by output
	Centre  float64   // 0 where nothing is standardised
	Scale   float64   // 1 where nothing is standardised
}

// Clip is the limit of a standardised value, as Column has it; 0 is none, where
// nothing is standardised.
func (h *Head) Clip() float64 {
	if h.standardises() {
		return ScalerClip
	}
	return 0
}

// Columns yields every column that has a row, in the order of the rows.
func (m *Model) Columns() iter.Seq[Column] {
	return func(yield func(Column) bool) {
		for i := range m.Rows.Len() {
			number, row := m.Rows.Column(i)
			c := Column{Number: number, Weights: make([]float64, m.Outputs), Scale: 1}
			for k := range c.Weights {
				c.Weights[k] = m.weight(row, k)
			}
			if stats := m.Stats(row); stats != nil {
				c.Centre, c.Scale = stats[3], 0
				if stats[4] > 0 {
					c.Scale = 1 / stats[4]
				}
			}
			if !yield(c) {
				return
			}
		}
	}
}
