package health

import (
	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/measure"
)

// This file measures regression predictions.

// Numbers holds the progressive measures of regression.
type Numbers struct {
	Total, Window measure.Numbers // measures since the start and recent measures, as in Measures
	// Loss is the loss function in the unit of the targets.
	Loss loss.Loss
}

// Report returns the measures since the start of the stream.
func (n *Numbers) Report() measure.NumbersReport { return n.Total.Report(n.Loss) }

// State encodes or decodes the measures.
func (n *Numbers) State(c *coder.Coder) {
	c.Each(n.Total.Sums()...)
	c.Each(n.Window.Sums()...)
}
