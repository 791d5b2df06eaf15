package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomValues returns a function that draws n values of different sizes.
func randomValues(seed uint64) func(n int) []float64 {
	r := rand.New(rand.NewPCG(seed, seed+1))
	return func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() * math.Exp(3*r.NormFloat64())
		}
		return x
	}
}

// TestSubtract4 checks that the fast loop returns the same bits as the slow loop, and writes nothing beyond the values.
func TestSubtract4(t *testing.T) {
	random := randomValues(9)
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

// TestProduct checks that the fast loop returns the same bits as the slow loop, and that both return the scalar product.
func TestProduct(t *testing.T) {
	random := randomValues(11)
	for n := range 100 {
		a, b := random(n), random(n+3)
		want, size, done := 0.0, 0.0, n&^(productLanes-1)
		for i, x := range a {
			want, size = want+x*b[i], size+math.Abs(x*b[i])
		}
		got := Product(a, b)
		if math.Abs(got-want) > 1e-13*size {
			t.Errorf("%d values: %v, want %v", n, got, want)
		}
		if slow := productGo(a[:done], b); n == done && got != slow {
			t.Errorf("%d values: %v, by the slow loop %v", n, got, slow)
		}
	}
}

// TestSweep checks that the fast loop returns the same bits as the slow loop, and writes nothing beyond the values.
func TestSweep(t *testing.T) {
	random := randomValues(13)
	for n := range 70 {
		c, gain, factors := random(n+5), random(n+5), random(2)
		wantC, wantGain := slices.Clone(c), slices.Clone(gain)
		sweepGo(wantC[:n], wantGain[:n], factors[0], factors[1])
		if Sweep(c[:n:n], gain, factors[0], factors[1]); !slices.Equal(c, wantC) || !slices.Equal(gain, wantGain) {
			t.Errorf("%d values: %v and %v, want %v and %v", n, c, gain, wantC, wantGain)
		}
	}
}
