package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKernels holds the fast loops to the bits of the slow ones.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() * math.Exp(3*r.NormFloat64())
		}
		return x
	}
	for n := 1; n <= 13; n++ {
		for active := 1; active <= n; active++ {
			for _, count := range []int{0, 1, 2, 7} {
				const at = 3
				rows, want := make([][]float64, count), make([][]float64, count)
				for i := range rows {
					rows[i] = random(at + 3*n)
					for k := range n {
						rows[i][at+n+k] = math.Abs(rows[i][at+n+k])
					}
					want[i] = slices.Clone(rows[i])
				}
				x, basis, ridge := random(count), random(count), random(count)
				sums := [][]float64{random(active), random(active), random(active)}
				wantSums := [][]float64{slices.Clone(sums[0]), slices.Clone(sums[1]), slices.Clone(sums[2])}
				sumRowsGo(want, at, n, x, basis, wantSums[0], wantSums[1], wantSums[2])
				if n == 1 && count > 1 {
					sumRows1(rows, at, x, basis, &sums[0][0], &sums[1][0], &sums[2][0])
				} else {
					sumRows(rows, at, n, x, basis, sums[0], sums[1], sums[2])
				}
				for i := range sums {
					if !slices.Equal(sums[i], wantSums[i]) {
						t.Errorf("sum %d of %d rows, %d of %d outputs: %v, want %v", i, count, active, n, sums[i], wantSums[i])
					}
				}
				c := &adagradConstants{1, adagradEps, 1.5}
				df, shrink, eta := random(active), random(active), random(active)
				adagradRowsGo(want, at, n, x, basis, ridge, df, shrink, eta, c)
				if n == 1 {
					adagradRows1(rows, at, x, basis, ridge, df[0], shrink[0], eta[0], c)
				} else {
					adagradRows(rows, at, n, x, basis, ridge, df, shrink, eta, c)
				}
				for i := range rows {
					if !slices.Equal(rows[i], want[i]) {
						t.Errorf("adagradRows, row %d of %d, %d of %d outputs:\n%v, want\n%v", i, count, active, n, rows[i], want[i])
					}
				}
			}
		}
	}
}

func BenchmarkKernels(b *testing.B) {
	const n, count = 10, 150
	rows := make([][]float64, count)
	for i := range rows {
		rows[i] = make([]float64, 5+3*n)
	}
	x, df := slices.Repeat([]float64{0.5}, count), slices.Repeat([]float64{0.1}, n)
	f, q, p := make([]float64, n), make([]float64, n), make([]float64, n)
	c := &adagradConstants{1, adagradEps, 1.5}
	for name, sum := range map[string]func([][]float64, int, int, []float64, []float64, []float64, []float64, []float64){"go": sumRowsGo, "fast": sumRows} {
		b.Run("sum-"+name, func(b *testing.B) {
			for b.Loop() {
				sum(rows, 5, n, x, x, f, p, q)
			}
		})
	}
	type step = func(rows [][]float64, at, n int, x, basis, ridge, df, shrink, minusEta []float64, c *adagradConstants)
	for name, step := range map[string]step{"go": adagradRowsGo, "fast": adagradRows} {
		b.Run("step-"+name, func(b *testing.B) {
			for b.Loop() {
				step(rows, 5, n, x, x, x, df, df, df, c)
			}
		})
	}
}
