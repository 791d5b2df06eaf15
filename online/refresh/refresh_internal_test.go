package refresh

import (
	"testing"

	"blankout/online/rows"
)

// TestRescaleShiftForget checks a change of a feature's scale or center. The quadratic summary must have the same value
// for the converted weights. Forget must scale D.
func TestRescaleShiftForget(t *testing.T) {
	for _, reach := range []int{40, 80} {
		x := Refresh{Settings: Settings{Size: 40, Reach: reach}, Layout: rows.Layout{Outputs: 2, N: 2, Refresh: 3}}
		row, bias := make([]float64, rows.FirstPart+2*(3+x.Parts())), make([]float64, rows.FirstPart+2*(3+x.Parts()))
		copy(x.Weights(row), []float64{1, 2})
		copy(x.Curvature(row), []float64{3, 5})
		if x.sliding() {
			copy(x.Center(row), []float64{4, -1})
			copy(x.Center(bias), []float64{7, 8})
		}
		const ratio, shift = 2.0, 0.5
		cost := func(j int) float64 {
			off := x.Weights(row)[j] - x.CenterOf(row)[j]
			return x.Curvature(row)[j] * off * off
		}
		score := func(j int, feature float64) float64 { return x.CenterOf(bias)[j] + feature*x.CenterOf(row)[j] }
		before, alone, at := cost(1), x.Curvature(row)[0], score(1, 3)
		x.Weights(row)[1] *= ratio
		x.Rescale(row, 1, 2, ratio)
		if x.Curvature(row)[0] != alone || x.Curvature(row)[1] != 5/(ratio*ratio) || cost(1) != before {
			t.Errorf("reach %d: rescaled it costs %v, before %v; D %v", reach, cost(1), before, x.Curvature(row))
		}
		x.Shifted(bias, row, 1, 2, shift)
		if x.sliding() && (score(1, 3/ratio-shift) != at || x.Center(bias)[0] != 7) {
			t.Errorf("the center says %v of what it said %v of; intercepts %v", score(1, 3/ratio-shift), at, x.Center(bias))
		}
		x.Forget(row, 0.5)
		if x.Curvature(row)[0] != alone/2 {
			t.Errorf("half of D %v is %v", alone, x.Curvature(row)[0])
		}
	}
}
