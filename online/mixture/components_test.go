package mixture

import (
	"testing"

	"blankout/internal/must"
)

// TestComponentsWithoutWeights checks the weights in effect if all components are idle, and if all others had no
// weight.
func TestComponentsWithoutWeights(t *testing.T) {
	w := NewComponents([]float64{0.5, 0.5, 0})
	w.Apply(func(int) bool { return true })
	must.EqualSlices(t, w.Weights, []float64{0, 0, 0})
	w.Apply(func(component int) bool { return component < 2 })
	must.EqualSlices(t, w.Weights, []float64{0, 0, 1})
}
