package rows

import (
	"blankout/internal/must"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

const eps = 1e-8

// TestKernels checks that the fast loops return the same bits as the slow ones.
func TestKernels(t *testing.T) { withEachVector(func() { testKernels(t) }) }

// withEachVector calls f with the longest vectors, with shorter ones, and without vectors.
func withEachVector(f func()) {
	f()
	was := hasAVX512
	hasAVX512 = false
	defer func() { hasAVX512 = was }()
	f()
	withoutAVX2(f)
}

func testKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float64 {
		x := must.List(n, func(int) float64 { return r.NormFloat64() * math.Exp(3*r.NormFloat64()) })
		return x
	}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 9, 10, 13, 15, 16, 17, 31, 50} {
		for active := 1; active <= n; active++ {
			if active > 17 && active < n-1 {
				continue
			}
			for _, count := range []int{0, 1, 2, 7, 8} {
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
				sumGo(want, at, n, x, basis, wantSums[0], wantSums[1], wantSums[2])
				if n == 1 {
					f, lag, q := sums[0][0], sums[1][0], sums[2][0]
					sum1Go(rows, at, x, basis, &f, &lag, &q)
					must.True(t, f == wantSums[0][0] && lag == wantSums[1][0] && q == wantSums[2][0], "sumRows1Go of %d rows: %v, %v and %v, want %v", count, f, lag, q, wantSums)
				}
				Sum(rows, at, n, x, basis, sums[0], sums[1], sums[2])
				for i := range sums {
					must.True(t, slices.Equal(sums[i], wantSums[i]), "sum %d of %d rows, %d of %d outputs: %v, want %v", i, count, active, n, sums[i], wantSums[i])
				}
				q := random(active)
				wantQ := slices.Clone(q)
				factors := random(active)
				sumAveragesGo(want, at, n, basis, factors, wantQ)
				SumAverages(rows, at, n, basis, factors, q)
				must.True(t, slices.Equal(q, wantQ), "sumAverages of %d rows, %d of %d outputs: %v, want %v", count, active, n, q, wantQ)
				c := &AdagradConstants{1, eps}
				df, shrink, rates := random(active), random(active), random(2*n)
				adagradStepGo(want, at, n, x, basis, ridge, df, shrink, rates, c)
				if n == 1 {
					g, r := make([]float64, count), make([]float64, count)
					AdagradGradients1(rows, at, x, basis, ridge, df[0], shrink[0], c.Start, g, r)
					s := slices.Clone(r)
					got, want := InverseRoots(r, x, c.Eps), inverseRootsGo(s, x, c.Eps)
					must.True(t, got == want && slices.Equal(r, s), "inverseRoots of %d rows: %v and %v, want %v and %v", count, r, got, s, want)
					AdagradStep1(rows, at, g, r, rates[0], rates[1])
				} else {
					AdagradStep(rows, at, n, x, basis, ridge, df, shrink, rates, c)
				}
				for i := range rows {
					must.True(t, slices.Equal(rows[i], want[i]), "adagradRows, row %d of %d, %d of %d outputs:\n%v, want\n%v", i, count, active, n, rows[i], want[i])
				}
			}
		}
	}
}

// slowKappa computes directly from the formula what AdagradKappa adds to kappa.
func slowKappa(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	for i, row := range rows {
		for k := range df {
			g := math.FMA(math.FMA(shrink[k], basis[i], ridge[i]), row[at+k], df[k]*x[i])
			kappa[k] = math.FMA(x[i]*x[i], InverseRoot(c.Start+math.FMA(g, g, row[at+n+k]), c.Eps), kappa[k])
		}
	}
}

// TestKappa checks that AdagradKappa gives the same bits as slowKappa, AdagradStep with unusual numbers the same as the
// slow loop, and Fused the same as both. The rows are adjacent in memory, and the memory between and around the rows must not change.
func TestKappa(t *testing.T) { withEachVector(func() { testKappa(t) }) }

func testKappa(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int) []float64 {
		return must.List(n, func(int) float64 { return r.NormFloat64() * math.Exp(3*r.NormFloat64()) })
	}
	var u Fused
	for _, n := range []int{4, 2, 3, 5, 6, 7, 8, 9, 12, 15, 20, 30} {
		for active := max(1, n-8); active <= n; active++ {
			for _, count := range []int{0, 1, 2, 9} {
				const at = 3
				width := at + 3*n + r.IntN(9)
				memory := random(count * width)
				for i := range memory {
					if part := i%width - at; part >= n && part < 2*n || part >= 3*n {
						memory[i] = math.Abs(memory[i])
					} else if r.IntN(20) == 0 {
						memory[i] = [3]float64{math.Inf(1), math.NaN(), math.Copysign(0, -1)}[r.IntN(3)]
					}
				}
				slow := slices.Clone(memory)
				rows, want := make([][]float64, count), make([][]float64, count)
				for i := range rows {
					rows[i], want[i] = memory[i*width:][:width:width], slow[i*width:][:width:width]
				}
				x, basis, ridge := random(count), random(count), random(count)
				df, shrink, rates, kappa := random(active), random(active), random(2*n), random(n)
				start, wantKappa := slices.Clone(kappa), slices.Clone(kappa)
				c := &AdagradConstants{1, eps}
				AdagradKappa(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
				slowKappa(want, at, n, x, basis, ridge, df, shrink, wantKappa, c)
				where := fmt.Sprintf("%d of %d outputs, %d rows", active, n, count)
				must.True(t, sameBits(kappa, wantKappa), "%s: kappa %v, want %v", where, kappa, wantKappa)
				must.True(t, sameBits(memory, slow), "%s: the rows have changed", where)
				adagradStepGo(want, at, n, x, basis, ridge, df, shrink, rates, c)
				if cut := r.IntN(count + 1); Fuses(active, at, n, width) {
					fusedKappa := slices.Clone(start)
					u.Begin(count)
					u.Gradients(0, rows[:cut], at, n, x[:cut], basis[:cut], ridge[:cut], df, shrink, fusedKappa, c)
					u.Gradients(cut, rows[cut:], at, n, x[cut:], basis[cut:], ridge[cut:], df, shrink, fusedKappa, c)
					must.True(t, sameBits(fusedKappa, wantKappa), "%s: kappa fused %v, want %v", where, fusedKappa, wantKappa)
					u.Descend(rows, at, n, rates)
				} else {
					AdagradStep(rows, at, n, x, basis, ridge, df, shrink, rates, c)
				}
				must.True(t, sameBits(memory, slow), "%s: the step leaves\n%v, want\n%v", where, memory, slow)
			}
		}
	}
}

// sameBits reports whether two lists are equal bit by bit, except that all NaN count as equal.
func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	})
}

// TestInverseRoot compares InverseRoot with the processor's square root and division. It also checks arguments for
// which these overflow.
func TestInverseRoot(t *testing.T) {
	inf := math.Inf(1)
	s := []float64{0, 5e-324, 1e-300, 1e-18, 1e-16, 1e-3, 0.5, 1, 2, 3, 4, 1e100, math.MaxFloat64, inf, math.NaN()}
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		s = append(s, math.Exp(30*r.NormFloat64()))
	}
	for _, eps := range []float64{0, eps} {
		fast := slices.Clone(s)
		InverseRoots(fast, fast, eps)
		for i, s := range s {
			got, want := InverseRoot(s, eps), 1/(math.Sqrt(s)+eps)
			must.True(t, fast[i] == got, "inverseRoots(%v) = %v, want %v", s, fast[i], got)
			switch {
			case s < 1e-290: // the guess fails, but a gradient with such a square changes nothing
				must.True(t, got >= 0 && got < inf, "InverseRoot(%v) = %v", s, got)
			case math.IsInf(s, 0), math.IsNaN(s):
				must.True(t, got == 0, "InverseRoot(%v) = %v, want 0", s, got)
			case math.Sqrt(s) > 1e6*eps && !(math.Abs(got/want-1) < 1e-10):
				t.Errorf("InverseRoot(%v, %v) = %v, want %v", s, eps, got, want)
			case got > want*(1+1e-10):
				t.Errorf("InverseRoot(%v, %v) = %v, more than %v", s, eps, got, want)
			}
		}
	}
}

// BenchmarkKernels sums rows and makes proximal steps: of 12 rows at three noise levels, as for JSON events, to many rows
// and outputs, as for dense images.
func BenchmarkKernels(b *testing.B) {
	for _, d := range []struct{ count, n int }{{12, 3}, {130, 3}, {12, 8}, {784, 20}, {784, 30}, {128, 18}} {
		width := (5 + 3*d.n + 7) / 8 * 8 // as in a Table
		memory := make([]float64, d.count*width)
		rows := make([][]float64, d.count)
		for i := range rows {
			rows[i] = memory[i*width:][:width]
		}
		x, df, rates := slices.Repeat([]float64{0.5}, d.count), slices.Repeat([]float64{0.1}, d.n), slices.Repeat([]float64{-0.1}, 2*d.n)
		kappa, lag, q := make([]float64, d.n), make([]float64, d.n), make([]float64, d.n)
		c := &AdagradConstants{1, eps}
		var u Fused
		b.Run(fmt.Sprintf("sum/rows=%d/n=%d", d.count, d.n), func(b *testing.B) {
			for b.Loop() {
				Sum(rows, 5, d.n, x, x, kappa, lag, q)
			}
		})
		b.Run(fmt.Sprintf("step/rows=%d/n=%d", d.count, d.n), func(b *testing.B) {
			for b.Loop() {
				if clear(kappa); Fuses(d.n, 5, d.n, len(rows[0])) {
					u.Begin(d.count)
					u.Gradients(0, rows, 5, d.n, x, x, x, df, df, kappa, c)
					u.Descend(rows, 5, d.n, rates)
					continue
				}
				AdagradKappa(rows, 5, d.n, x, x, x, df, df, kappa, c)
				AdagradStep(rows, 5, d.n, x, x, x, df, df, rates, c)
			}
		})
	}
}
