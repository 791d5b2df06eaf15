package levels

// This file measures the influence of an event on the loss.

// Influence returns the factor in (0, 1] by which the loss weighs an event, for an output of a level. y is the target
// and f the predicted score. A small factor means that the label is probably wrong. The factor is 1 for losses that
// weigh all events equally. own must hold the scores of the event.
func (e *Expert) Influence(own *Scores, level, output int, y, f float64) float64 {
	of, ok := e.Loss.(interface {
		Influence(y, f, v float64) float64
	})
	if !ok {
		return 1
	}
	e.variances(own, e.step.Variance)
	return of.Influence(y, f, e.step.Variance[level*e.Outputs+output])
}
