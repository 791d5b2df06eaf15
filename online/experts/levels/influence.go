package levels

import "blankout/online/experts"

// This file measures the influence of an event on the weights.

// Influence returns the factor in (0, 1] by which the loss reduces the weight of an event, for an output of a level. y
// is the target, and f is the predicted score. A small factor means that the label is probably wrong. The factor is 1
// if the loss gives all events equal weight. sums is the result of Sum for the event.
func (e *Expert) Influence(in *experts.Input, sums []float64, level, output int, y, f float64) float64 {
	of, ok := e.Loss.(interface {
		Influence(y, f, v float64) float64
	})
	if !ok {
		return 1
	}
	e.variances(in, in.Rows, sums)
	return of.Influence(y, f, e.step.Variance[level*e.Outputs+output])
}
