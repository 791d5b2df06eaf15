package experts

import (
	"testing"

	"blankout/internal/must"
)

// TestForceWithoutWeights checks the weights in effect if all lanes are asleep, and if all lanes that are awake had no
// weight.
func TestForceWithoutWeights(t *testing.T) {
	w := newWeights([]float64{0.5, 0.5, 0})
	w.force(func(int) bool { return true })
	must.EqualSlices(t, w.mix, []float64{0, 0, 0})
	w.force(func(lane int) bool { return lane < 2 })
	must.EqualSlices(t, w.mix, []float64{0, 0, 1})
}
