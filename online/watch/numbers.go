package watch

import (
	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/measure"
)

// This file measures predictions of numbers.

// Numbers are the progressive measures of targets that are numbers.
type Numbers struct {
	Total, Window measure.Numbers // since the beginning, and recently, as in Measures
	// Loss is that for targets and values in their own unit.
	Loss loss.Loss
}

// Report returns the measures since the beginning.
func (n *Numbers) Report() measure.NumbersReport { return n.Total.Report(n.Loss) }

// State codes the measures.
func (n *Numbers) State(c *coder.Coder) {
	c.Each(n.Total.Sums()...)
	c.Each(n.Window.Sums()...)
}
