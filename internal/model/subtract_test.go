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

// TestSubtract checks that the fast loops return the same bits as the slow loops, and write nothing beyond the values. On a
// processor with AVX-512, the loop for others is also tried.
func TestSubtract(t *testing.T) {
	random := randomValues(9)
	was := hasAVX512
	defer func() { hasAVX512 = was }()
	for n := range 70 {
		memory := random(n + 5)
		want := slices.Clone(memory)
		row, factor := random(n+1), random(1)[0]
		subtractGo(want[:n], factor, row)
		if subtract(memory[:n:n], factor, row); !slices.Equal(memory, want) {
			t.Errorf("%d values: %v, want %v", n, memory, want)
		}
		stride := n + 3
		to, from, factors := random(4*stride), random(4*stride), [16]float64(random(16))
		want = slices.Clone(to)
		for i := range 4 {
			for j := range 4 {
				for k := range n {
					want[i*stride+k] = math.FMA(-factors[4*i+j], from[j*stride+k], want[i*stride+k])
				}
			}
		}
		for _, hasAVX512 = range []bool{was, false} {
			got := slices.Clone(to)
			if subtractRows(got, from, stride, n, &factors); !slices.Equal(got, want) {
				t.Errorf("four rows of %d values: %v, want %v", n, got, want)
			}
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
