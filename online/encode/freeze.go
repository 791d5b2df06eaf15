package encode

// This file ends the observation of events, before an exact solution is computed.

import (
	"blankout/internal/event"
	"blankout/internal/model"
)

// Freeze makes the statistics of all events take effect. It returns the Scaler, and the table, whose rows begin with
// the statistics of their columns. kind returns the kind of a column's field. Freeze does not convert weights, so it
// may be used only before the rows have weights. The Encoder must not be used afterwards.
func (n *Encoder) Freeze(kind func(column uint32) event.Kind) (model.Scaler, *model.Table) {
	s := &n.Scaling
	if !s.Settled() && s.Scaler.Mode != model.StandardizeScale {
		s.Review(n.Fields.Missing.Columns, n.Table.Touch, func([]float64, float64, float64) {})
	}
	if s.SeeksKnots() {
		s.FindKnots(n.Table.Len(), n.presences)
	}
	for i := range n.Table.Len() {
		column, row := n.Table.Column(i)
		s.Freeze(column, row[:model.ScalerWidth], kind(column))
	}
	if c := s.Scaler.Splines; c != nil {
		for i := range c.Columns {
			n.Table.Touch(c.BasisColumn(i, 0))[model.StatInverse] = 1
		}
	}
	return s.Scaler, n.Table
}
