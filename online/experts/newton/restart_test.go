package newton

import (
	"math"
	"testing"

	"blankout/internal/loss"
)

// TestRestartsWhereNothingIsKnown checks an expert whose covariance is not positive. It must restart without learning
// the event, and must learn the next event.
func TestRestartsWhereNothingIsKnown(t *testing.T) {
	for name, spoil := range map[string]float64{"zero": 0, "no number": math.NaN(), "negative": -1, "endless": math.Inf(1), "too large": 1e306} {
		e := newTested(Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000}, 1)
		e.follow([]uint32{3, 5})
		size := 1.0
		learn := func() bool {
			scores := make([]float64, 1)
			e.Score([]uint32{3, 5}, []float64{size, -2 * size}, []float64{0.1}, scores)
			return e.Learn([]float64{1}, 1, 1)
		}
		for range 20 {
			learn()
		}
		for j := range e.p.n {
			for i := range e.p.column(j) {
				e.p.column(j)[i] *= 0
			}
			e.p.column(j)[j] = spoil
		}
		if spoil == 1e306 { // the leverage overflows, but the gain does not
			size = 50
		}
		if !learn() || e.met != 0 {
			t.Errorf("%s: it has not begun again", name)
		}
		for k := range e.u {
			for _, u := range e.u[k] {
				if u != 0 && u != 1 { // coefficient of the base
					t.Errorf("%s: it has kept the weight %v", name, u)
				}
			}
		}
		if learn(); e.met != 1 || !(e.p.column(0)[0] > 0) {
			t.Errorf("%s: it does not go on", name)
		}
	}
}
