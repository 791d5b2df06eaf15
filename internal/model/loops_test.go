package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/must"
)

// randomValues returns a function that draws n values of different sizes.
func randomValues(seed uint64) func(n int) []float64 {
	r := rand.New(rand.NewPCG(seed, seed+1))
	return func(n int) []float64 {
		x := must.List(n, func(int) float64 { return r.NormFloat64() * math.Exp(3*r.NormFloat64()) })
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
		Subtract(memory[:n:n], factor, row)
		must.True(t, slices.Equal(memory, want), "%d values: %v, want %v", n, memory, want)
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
			subtractRows(got, from, stride, n, &factors)
			must.True(t, slices.Equal(got, want), "four rows of %d values: %v, want %v", n, got, want)
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
		must.True(t, math.Abs(got-want) <= 1e-13*size, "%d values: %v, want %v", n, got, want)
		slow := productGo(a[:done], b)
		must.True(t, n != done || got == slow, "%d values: %v, by the slow loop %v", n, got, slow)
	}
}

// TestCholesky compares factors, solutions and inverses with the results of gonum.
func TestCholesky(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 130} {
		matrix := randomPositive(n, r)
		u, positive := factorize(n, slices.Clone(matrix))
		must.Require(t, positive, "%d columns: not positive", n)
		if n == 0 {
			continue
		}
		var reference mat.Cholesky
		must.Require(t, reference.Factorize(mat.NewSymDense(n, matrix)), "gonum finds the matrix not positive")
		var factor mat.TriDense
		reference.UTo(&factor)
		var inverse mat.SymDense
		must.Do(t, reference.InverseTo(&inverse))
		const columns = 3
		right := must.List(n*columns, func(int) float64 { return r.NormFloat64() })
		var solved mat.Dense
		must.Do(t, reference.SolveTo(&solved, mat.NewDense(n, columns, slices.Clone(right))))
		all := slices.Clone(right)
		for c := range columns {
			one := make([]float64, n)
			for i := range one {
				one[i] = right[i*columns+c]
			}
			u.solve(one)
			for i, x := range one {
				all[i*columns+c] = x
			}
		}
		got := u.inverse()
		for i := range n {
			for c := range columns {
				want := solved.At(i, c)
				must.Require(t, close12(all[i*columns+c], want), "%d columns: solution %d of right side %d is %v, want %v", n, i, c, all[i*columns+c], want)
			}
			for j := i; j < n; j++ {
				want := factor.At(i, j)
				must.Require(t, close12(u.data[i*n+j], want), "%d columns: factor %d, %d is %v, want %v", n, i, j, u.data[i*n+j], want)
				want = inverse.At(i, j)
				must.Require(t, close12(got[i*n+j], want), "%d columns: inverse %d, %d is %v, want %v", n, i, j, got[i*n+j], want)
			}
		}
		for _, bad := range []float64{0, -1, math.NaN()} {
			spoilt := slices.Clone(matrix)
			spoilt[len(spoilt)-1] = bad
			_, positive := factorize(n, spoilt)
			must.True(t, !positive, "%d columns: the matrix with %v on its diagonal is called positive", n, bad)
		}
	}
}

// randomPositive returns a random positive definite matrix of n columns with common factors.
func randomPositive(n int, r *rand.Rand) []float64 {
	root := must.List(n*n, func(int) float64 { return r.NormFloat64() })
	out := make([]float64, n*n)
	for i := range n {
		for j := range n {
			out[i*n+j] = Product(root[i*n:][:n], root[j*n:][:n])
		}
		out[i*n+i]++
	}
	return out
}

// TestCosineValues compares the cosines with math.Cos, and the assembly with Go bit by bit.
func TestCosineValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, columns := range [][]uint32{{0, 7}, {1, 2, 3, 9, 11, 12, 20}} {
		b := NewCosineBasis(columns)
		for range 50 {
			var z CosineNumbers
			for i := range columns {
				z[i] = 3 * r.NormFloat64()
			}
			var got, inGo [Cosines]float64
			b.Values(&z, &got)
			for j := range got {
				phase, used, frequencies := b.Shape(j)
				x := phase
				for i, f := range frequencies {
					for place, column := range columns {
						if column == used[i] {
							x += f * z[place]
						}
					}
				}
				want := math.Cos(2 * math.Pi * x)
				must.Require(t, math.Abs(got[j]-want) <= 1e-12, "cosine %d of %d columns: %v, want %v", j, len(columns), got[j], want)
				inGo[j] = x
			}
			inAssembly := inGo
			takeCosines(&inAssembly)
			takeCosinesGo(&inGo)
			must.Require(t, inGo == inAssembly, "the assembly and Go differ")
		}
	}
}
