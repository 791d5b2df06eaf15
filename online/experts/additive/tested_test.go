package additive

import (
	"slices"

	"blankout/internal/loss"
	"blankout/online/experts"
)

// tested is an Expert with the event that it is to learn next.
type tested struct {
	*Expert
	in           experts.Input
	base, scores []float64
}

func newTested(l loss.Loss, strength float64, outputs int, columns ...uint32) *tested {
	e := &tested{Expert: New(l, strength, outputs)}
	e.Follow(columns, len(columns))
	return e
}

// Score scores an event. It returns the scores by rate and output.
func (e *tested) Score(index []int, x, base []float64) []float64 {
	e.in, e.base, e.scores = experts.Input{Index: index, X: x, One: 1}, base, make([]float64, len(e.q))
	e.Sum(&e.in, e.scores)
	for j := range e.scores {
		e.scores[j] += base[j%e.outputs]
	}
	return slices.Clone(e.scores)
}

// learn learns the event that was scored last.
func (e *tested) learn(y []float64, active int, importance float64) {
	e.Learn(&e.in, e.base, e.scores, y, active, importance)
}

// Weights returns the weights of a column at a learning rate, by output.
func (e *tested) Weights(rate, i int) []float32 {
	weights, _ := e.block.row(i)
	return weights[rate*e.outputs:][:e.outputs]
}

// Intercept returns the intercept of a rate and output.
func (e *tested) Intercept(rate, k int) float64 {
	return float64(e.Weights(rate, len(e.columns))[k])
}
