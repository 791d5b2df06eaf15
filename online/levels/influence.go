package levels

// This file says how much an event counts by its loss.

// Influence returns by which factor in (0, 1] the loss lets an event count for an output of a level, where y is the truth and f
// is predicted. A small one marks a label that is probably wrong. It is 1 for losses that let all events count alike. The event
// must have been scored last.
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
