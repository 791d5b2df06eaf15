package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/must"
)

// TestSilentDerivatives compares the derivatives of every loss under silent noise with finite differences.
func TestSilentDerivatives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 19))
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			for range 200 {
				n, y := Silent{D: MaxSilent * r.Float64()}, target(l, r)
				p := [3]float64{2 * r.NormFloat64(), r.NormFloat64(), 0.1 + 2*r.Float64()}
				_, ds, di, dq := n.At(l, y, p[0], p[1], p[2])
				for i, got := range []float64{ds, di, dq} {
					const h = 1e-5
					above, below := p, p
					above[i], below[i] = above[i]+h, below[i]-h
					high, _, _, _ := n.At(l, y, above[0], above[1], above[2])
					low, _, _, _ := n.At(l, y, below[0], below[1], below[2])
					want := (high - low) / (2 * h)
					// Skip losses with a kink: their noise-free part (rate 0) is not differentiable there.
					if math.Abs(got-want) > 2e-4*(1+math.Abs(want)) && l.Facts().Kink == nil {
						t.Fatalf("D = %v, y = %v, at %v, derivative %d: %v, by differences %v", n.D, y, p, i, got, want)
					}
				}
			}
		})
	}
}

// TestSilentIsExpectation lets many small features die at random, and compares the mean loss with At.
func TestSilentIsExpectation(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 19))
	const features, draws = 400, 40_000
	w, z := make([]float64, features), make([]float64, features)
	n, y, intercept := Silent{D: 0.5}, 1.0, 0.3
	score, squares := 0.0, 0.0
	for i := range w {
		w[i], z[i] = (r.NormFloat64()+0.1)*2/math.Sqrt(features), r.NormFloat64()
		score += w[i] * (1 - z[i])
		squares += w[i] * w[i] * (1 - z[i]) * (1 - z[i])
		intercept += w[i] * z[i]
	}
	l := must.Get(Parse("logistic:gaussian"))(t)
	want, _, _, _ := n.At(l, y, score, intercept, squares)
	sum, sum2 := 0.0, 0.0
	for range draws {
		rates := n.Rates()
		q, f := rates[r.IntN(len(rates))], intercept
		for i := range w {
			if r.Float64() >= q {
				f += w[i] * (1 - z[i])
			}
		}
		at := math.Log1p(math.Exp(-y * f))
		sum, sum2 = sum+at, sum2+at*at
	}
	mean := sum / draws
	if sd := math.Sqrt((sum2/draws - mean*mean) / draws); math.Abs(mean-want) > 4*sd+0.003 {
		t.Errorf("the mean loss is %v, and %v of %d draws", want, mean, draws)
	}
}
