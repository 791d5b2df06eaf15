package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSubtract4 checks that the fast loop returns the same bits as the slow loop, and writes nothing beyond the values.
func TestSubtract4(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() * math.Exp(3*r.NormFloat64())
		}
		return x
	}
	for n := range 70 {
		memory := random(n + 5)
		want := slices.Clone(memory)
		a, b, c, d, factors := random(n+1), random(n), random(n+2), random(n), [4]float64(random(4))
		subtract4Go(want[:n], factors, a, b, c, d)
		if subtract4(memory[:n:n], factors, a, b, c, d); !slices.Equal(memory, want) {
			t.Errorf("%d values: %v, want %v", n, memory, want)
		}
	}
}
