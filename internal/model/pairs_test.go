package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCouple checks that couple recovers a distribution from its own pairwise probabilities. For any other pairwise
// probabilities, the result p must be the minimum: p sums to one, no p_i is negative, and every (Qp)_i equals p'Qp. The
// last condition holds because the objective's gradient is equal for all classes.
func TestCouple(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		k := 3 + n%10
		want := make([]float64, k)
		sum := 0.0
		for i := range want {
			want[i] = math.Exp(3 * rng.NormFloat64())
			sum += want[i]
		}
		r := make([][]float64, k)
		for i := range r {
			want[i] /= sum
			r[i] = make([]float64, k)
		}
		consistent := n%2 == 0
		for i := range k {
			for j := range i {
				switch {
				case consistent:
					r[i][j] = want[i] / (want[i] + want[j])
				case n%3 == 0:
					r[i][j] = float64(rng.IntN(3)) / 2 // 0, 1/2 or 1: certain, and possibly contradictory
				default:
					r[i][j] = sigmoid(4 * rng.NormFloat64())
				}
				r[j][i] = 1 - r[i][j]
			}
		}
		p := couple(k, func(i, j int) float64 { return r[i][j] })
		half := make([]float64, k) // half of the objective's gradient, by its definition
		sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
		for i := range k {
			for j := range k {
				if i != j {
					half[i] += r[j][i] * (r[j][i]*p[i] - r[i][j]*p[j])
				}
			}
			sum += p[i]
			least, most = min(least, half[i]), max(most, half[i])
			if p[i] < 0 || consistent && math.Abs(p[i]-want[i]) > 1e-5 {
				t.Errorf("case %d: class %d of %d: %g, want %g", n, i, k, p[i], want[i])
			}
		}
		if math.Abs(sum-1) > 1e-12 || most-least > 1e-6 {
			t.Errorf("case %d: the sum is %v, the gradient from %g to %g", n, sum, least, most)
		}
	}
}
