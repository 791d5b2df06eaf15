package watch

import (
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/measure"
	"math"
)

// This file measures predictions of numbers.

// Numbers are the progressive measures of targets that are numbers.
type Numbers struct {
	Total, Window measure.Numbers // since the beginning, and recently, as in Measures
	// Baseline is the mean absolute error of predicting the mean of the targets so far.
	Baseline Baseline
	// Loss is that for targets and values in their own unit.
	Loss loss.Loss
}

// Report returns the measures since the beginning.
func (n *Numbers) Report() measure.NumbersReport { return n.Total.Report(n.Loss) }

// Baseline compares the progressive absolute error with that of the running mean, over one
// block of priorBlock labelled events after the other, as Prior does for classes.
type Baseline struct {
	// Exceeded says that the last complete block's error was above the mean's, and no later
	// one has been a hundredth below it.
	Exceeded bool
	Event    uint64  // the number of the event that completed the last block
	MAE      float64 // of that block
	Mean     float64 // of the mean, there

	Weight, Absolute float64 // of all events: the mean's error

	events              uint64 // of the block at hand
	weight, own, shared float64
}

// take counts in an event whose label was predicted by the mean of those before it as well.
func (b *Baseline) take(t *Told) {
	wrong, mean := math.Abs(t.Target-t.Value), math.Abs(t.Target-t.Mean)
	b.Weight += t.Weight
	b.Absolute += t.Weight * mean
	b.events++
	b.weight += t.Weight
	b.own += t.Weight * wrong
	b.shared += t.Weight * mean
	if b.events == priorBlock {
		b.Event, b.MAE, b.Mean = t.Number, b.own/b.weight, b.shared/b.weight
		b.Exceeded = b.MAE > b.Mean || b.Exceeded && b.MAE > 0.99*b.Mean
		b.events, b.weight, b.own, b.shared = 0, 0, 0, 0
	}
}

// MeanError returns the mean's error over all events, NaN without any.
func (b *Baseline) MeanError() float64 { return b.Absolute / b.Weight }

// State codes the measures.
func (n *Numbers) State(c *coder.Coder) {
	c.Each(n.Total.Sums()...)
	c.Each(n.Window.Sums()...)
	b := &n.Baseline
	exceeded := uint64(0)
	if b.Exceeded {
		exceeded = 1
	}
	c.Uint(&exceeded)
	b.Exceeded = exceeded == 1
	c.Uint(&b.Event)
	c.Uint(&b.events)
	c.Each(&b.MAE, &b.Mean, &b.Weight, &b.Absolute, &b.weight, &b.own, &b.shared)
}
