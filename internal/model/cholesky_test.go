package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/must"
)

// TestCholesky compares factors, solutions and inverses with the results of gonum.
func TestCholesky(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 130} {
		matrix := randomPositive(n, r)
		u, positive := factorize(n, slices.Clone(matrix))
		if !positive {
			t.Fatalf("%d columns: not positive", n)
		}
		if n == 0 {
			continue
		}
		var reference mat.Cholesky
		if !reference.Factorize(mat.NewSymDense(n, matrix)) {
			t.Fatal("gonum finds the matrix not positive")
		}
		var factor mat.TriDense
		reference.UTo(&factor)
		var inverse mat.SymDense
		must.Do(t, reference.InverseTo(&inverse))
		const columns = 3
		right := make([]float64, n*columns)
		for i := range right {
			right[i] = r.NormFloat64()
		}
		var solved mat.Dense
		must.Do(t, reference.SolveTo(&solved, mat.NewDense(n, columns, slices.Clone(right))))
		all := slices.Clone(right)
		u.solveAll(all, columns)
		got := u.inverse()
		for i := range n {
			for c := range columns {
				if want := solved.At(i, c); !close12(all[i*columns+c], want) {
					t.Fatalf("%d columns: solution %d of right side %d is %v, want %v", n, i, c, all[i*columns+c], want)
				}
			}
			for j := i; j < n; j++ {
				if want := factor.At(i, j); !close12(u.data[i*n+j], want) {
					t.Fatalf("%d columns: factor %d, %d is %v, want %v", n, i, j, u.data[i*n+j], want)
				}
				if want := inverse.At(i, j); !close12(got[i*n+j], want) {
					t.Fatalf("%d columns: inverse %d, %d is %v, want %v", n, i, j, got[i*n+j], want)
				}
			}
		}
		for _, bad := range []float64{0, -1, math.NaN()} {
			spoilt := slices.Clone(matrix)
			spoilt[len(spoilt)-1] = bad
			if _, positive := factorize(n, spoilt); positive {
				t.Errorf("%d columns: the matrix with %v on its diagonal is called positive", n, bad)
			}
		}
	}
}

// randomPositive returns a random positive definite matrix of n columns with common factors.
func randomPositive(n int, r *rand.Rand) []float64 {
	root := make([]float64, n*n)
	for i := range root {
		root[i] = r.NormFloat64()
	}
	out := make([]float64, n*n)
	for i := range n {
		for j := range n {
			out[i*n+j] = Product(root[i*n:][:n], root[j*n:][:n])
		}
		out[i*n+i]++
	}
	return out
}

func BenchmarkCholesky(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	const n = 256
	matrix, work := randomPositive(n, r), make([]float64, n*n)
	b.Run("factorize", func(b *testing.B) {
		for b.Loop() {
			copy(work, matrix)
			factorize(n, work)
		}
	})
	u, _ := factorize(n, slices.Clone(matrix))
	b.Run("solve", func(b *testing.B) {
		x := make([]float64, n)
		for b.Loop() {
			x[0] = 1
			u.solve(x)
		}
	})
	b.Run("inverse", func(b *testing.B) {
		for b.Loop() {
			u.inverse()
		}
	})
	b.Run("gonum", func(b *testing.B) {
		var c mat.Cholesky
		for b.Loop() {
			c.Factorize(mat.NewSymDense(n, matrix))
		}
	})
}
