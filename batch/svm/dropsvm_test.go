package svm

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/kernel"
	"blankout/internal/must"
)

func TestDropSVMGolden(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.json")
	must.Require(t, err == nil && len(files) == 3, "%d files of golden vectors, %v", len(files), err)
	total := 0
	for _, file := range files {
		raw := must.Get(os.ReadFile(file))(t)
		var g struct {
			X     [][]float64
			Y     []float64
			Cases []json.RawMessage
		}
		must.Do(t, json.Unmarshal(raw, &g))
		for _, raw := range g.Cases {
			var c struct {
				Algo      string
				Tolerance float64
				Params    struct{ Q, Keep, Sigma, C float64 }
				Kbar      []float64 `json:"kbar_row0"`
				Dual      float64   `json:"dual_objective"`
				Support   int
				Decision  []float64
			}
			var algo struct{ Algo string }
			must.Do(t, json.Unmarshal(raw, &algo))
			if algo.Algo != "dropsvm" {
				continue
			}
			must.Do(t, json.Unmarshal(raw, &c))
			total++
			t.Run(fmt.Sprintf("%s %+v", filepath.Base(file), c.Params), func(t *testing.T) {
				d := denseData(t, g.X, g.Y, nil)
				k := must.Get(Resolve(kernel.RBF{}, d))(t)
				sigma := k.(kernel.RBF).Sigma
				must.True(t, math.Abs(sigma-c.Params.Sigma) <= 1e-12*sigma, "default width %v, want %v", sigma, c.Params.Sigma)
				gram := must.Get(NewGram(k, d, 2))(t)
				dk := must.Get(DropSVM{Q: c.Params.Q, Keep: c.Params.Keep}.Kernel(gram))(t)
				must.True(t, dk.Jitter == 0, "jitter %v", dk.Jitter)
				for j, want := range c.Kbar {
					got := dk.Kbar.At(0, j)
					must.Require(t, math.Abs(got-want) <= 1e-9, "Kbar(0, %d) = %v, want %v", j, got, want)
				}
				r := must.Get(batch.HingeDual(dk.Kbar, g.Y, constant(c.Params.C, len(g.Y))).Solve(t.Context()))(t)
				gamma := dk.Expansion(r.Beta)
				must.True(t, math.Abs(r.Dual-c.Dual) <= c.Tolerance*c.Dual && r.Converged && r.Gap <= 1e-6*c.Dual, "dual %v, want %v; gap %v", r.Dual, c.Dual, r.Gap)
				support := 0
				for i, b := range r.Beta {
					if b != 0 {
						support++
					}
					f := batch.Dot(gram.Row(i), gamma) + r.Intercept
					must.True(t, math.Abs(f-c.Decision[i]) <= c.Tolerance*10 && math.Abs(f-r.Scores[i]) <= 1e-9, "f(x_%d) = %v by expansion, %v by the dual, want %v", i, f, r.Scores[i], c.Decision[i])
				}
				must.True(t, support == c.Support, "%d support vectors, want %d", support, c.Support)
			})
		}
	}
	must.True(t, total == 6, "%d golden cases, want 6", total)
}

// TestDropSVMEpochsTendToTheClosedForm checks that the mean over sampled epochs approaches the closed form at the rate
// of a sample mean.
func TestDropSVMEpochsTendToTheClosedForm(t *testing.T) {
	x, y := problems.Gaussian(8, 25, 5, true)
	d := denseData(t, x, y, nil)
	gram := must.Get(NewGram(kernel.RBF{Sigma: 2}, d, 1))(t)
	for _, keep := range []float64{0, 0.3, 0.8} {
		want := DropSVM{Q: 1, Keep: keep}.penalty(gram)
		last := math.Inf(1)
		for _, epochs := range []int{16, 256, 4096} {
			got := DropSVM{Q: 1, Keep: keep, Epochs: epochs, Seed: 3}.penalty(gram)
			diff, size := 0.0, 0.0
			for i := range want {
				diff += (got[i] - want[i]) * (got[i] - want[i])
				size += want[i] * want[i]
			}
			off := math.Sqrt(diff / size)
			if keep == 0 {
				must.True(t, off <= 1e-12, "keep 0 is not random, yet %v off", off)
				continue
			}
			must.True(t, off <= 2/math.Sqrt(float64(epochs)) && off <= last/2, "keep %v, %d epochs: %v off, %v before", keep, epochs, off, last)
			last = off
		}
	}
}

// TestDropSVMAgainstInversion compares Kbar and the expansion with plain matrix inversion, also for a singular K.
func TestDropSVMAgainstInversion(t *testing.T) {
	x, y := problems.Gaussian(9, 30, 4, true)
	x[7] = x[3] // a duplicate example makes every K singular
	d := denseData(t, x, y, nil)
	r := rand.New(rand.NewPCG(1, 1))
	for _, k := range []kernel.Kernel{kernel.RBF{Sigma: 1.5}, kernel.Linear{}, kernel.Polynomial{Degree: 2}} {
		gram := must.Get(NewGram(k, d, 1))(t)
		n := gram.n
		for _, s := range []DropSVM{{Q: 0, Keep: 0.5}, {Q: 0.3, Keep: 0.5}, {Q: 5, Keep: 0.9, Epochs: 3, Seed: 1}, {Q: 2, Keep: 1}, {Q: 0.1, Keep: 0}} {
			what := fmt.Sprintf("%s %+v", k, s)
			dk, err := s.Kernel(gram)
			must.Require(t, err == nil, "%s: %v", what, err)
			a := mat.NewDense(n, n, nil)
			km := mat.NewDense(n, n, gram.data)
			m := s.penalty(gram)
			for i := range n {
				for j := range n {
					a.Set(i, j, gram.At(i, j)+2*s.Q*m[i*n+j])
				}
			}
			// Kbar satisfies A A^+ K = K. Compare A gamma with K beta, which needs no inverse, and Kbar beta with K
			// gamma.
			beta := must.List(n, func(int) float64 { return r.NormFloat64() })
			gamma := dk.Expansion(beta)
			var left, right, kg mat.VecDense
			left.MulVec(a, mat.NewVecDense(n, gamma))
			right.MulVec(km, mat.NewVecDense(n, beta))
			kg.MulVec(km, mat.NewVecDense(n, gamma))
			scale := mat.Norm(&right, math.Inf(1))
			for i := range n {
				must.Require(t, math.Abs(left.AtVec(i)-right.AtVec(i)) <= 1e-6*scale, "%s: (K + 2qM) gamma = %v, want K beta = %v", what, left.AtVec(i), right.AtVec(i))
				kb := batch.Dot(dk.Kbar.Row(i), beta)
				must.Require(t, math.Abs(kb-kg.AtVec(i)) <= 1e-6*scale, "%s: Kbar beta = %v, want K gamma = %v", what, kb, kg.AtVec(i))
			}
		}
	}
}

func TestDropSVMSquareMinimizesItsObjective(t *testing.T) {
	x, y := problems.Gaussian(10, 30, 4, false)
	gram := must.Get(NewGram(kernel.RBF{Sigma: 2}, denseData(t, x, y, nil), 1))(t)
	r := rand.New(rand.NewPCG(2, 2))
	some, ones := make([]float64, len(y)), slices.Repeat([]float64{1}, len(y))
	for i := range some {
		some[i] = float64(r.IntN(3))
	}
	for _, c := range []struct {
		q, ridge  float64
		weight    []float64
		intercept bool
	}{
		{0.7, 0, some, false}, {0.7, 0, some, true}, {0.7, 0.4, some, true}, {0.7, 0.4, ones, false},
		{0, 0.4, some, true}, {0, 0.4, ones, false}, {0, 0.4, ones, true}, {0, 2, slices.Repeat([]float64{3}, len(y)), true},
	} {
		s := DropSVM{Q: c.q, Keep: 0.6}
		m := s.penalty(gram)
		value := func(gamma []float64, b float64) float64 {
			v := 0.0
			for i := range y {
				e := y[i] - batch.Dot(gram.Row(i), gamma) - b
				v += c.weight[i]*e*e + 2*s.Q*gamma[i]*batch.Dot(m[i*gram.n:(i+1)*gram.n], gamma) + c.ridge*gamma[i]*batch.Dot(gram.Row(i), gamma)
			}
			return v
		}
		gamma, b := must.Get2(s.Square(gram, y, c.weight, c.ridge, c.intercept))(t)
		best := value(gamma, b)
		for range 100 {
			g, bb := slices.Clone(gamma), b
			for i := range g {
				g[i] += 1e-3 * r.NormFloat64()
			}
			if c.intercept {
				bb += 1e-3 * r.NormFloat64()
			}
			v := value(g, bb)
			must.Require(t, v >= best, "%+v: %v nearby, below %v", c, v, best)
		}
	}
}

// TestSquareTakesTheCost checks that the cost weights the square loss as it weights the hinge. With the penalty |w|^2
// and no penalty on samples, l2 must act as the lambda of kernel ridge regression, equation 38 of Tran.
func TestSquareTakesTheCost(t *testing.T) {
	x, y := problems.Gaussian(11, 40, 3, false)
	d := denseData(t, x, y, nil)
	train := func(set func(c *batch.Config, k *Config)) *Fit {
		t.Helper()
		c, k := batch.DefaultConfig(), Config{Kernel: "rbf:1", Memory: 1 << 30, Drop: DropSVM{Q: 0.2, Keep: 0.5}, Square: true}
		set(&c, &k)
		return must.Get(Train(t.Context(), d, c, k))(t)
	}
	one := train(func(*batch.Config, *Config) {})
	ten := train(func(c *batch.Config, _ *Config) { c.Cost = 10 })
	weaker := train(func(_ *batch.Config, k *Config) { k.Drop.Q = 0.02 }) // a tenth of the sample penalty
	must.True(t, !slices.Equal(scoresOf(one, d), scoresOf(ten, d)), "the cost changes nothing")
	off := problems.Relative(scoresOf(ten, d), scoresOf(weaker, d))
	must.True(t, off <= 1e-9 && math.Abs(ten.Objective-10*weaker.Objective) <= 1e-9*ten.Objective, "cost 10 is %g from a tenth of the penalty; objectives %g and %g", off, ten.Objective, weaker.Objective)
	const lambda = 0.3
	ridge := train(func(c *batch.Config, k *Config) {
		k.Drop.Q, k.Ridge, c.L2, c.Intercept = 0, true, lambda, batch.NoIntercept
	})
	gram := must.Get(NewGram(kernel.RBF{Sigma: 1}, d, 1))(t)
	n := len(y)
	a := mat.NewSymDense(n, slices.Clone(gram.data))
	for i := range n {
		a.SetSym(i, i, a.At(i, i)+lambda)
	}
	var solution mat.VecDense
	must.Do(t, solution.SolveVec(a, mat.NewVecDense(n, y)))
	want, objective := make([]float64, n), 0.0
	for i := range want {
		want[i] = batch.Dot(gram.Row(i), solution.RawVector().Data)
		objective += (y[i]-want[i])*(y[i]-want[i]) + lambda*solution.AtVec(i)*want[i]
	}
	off = problems.Relative(scoresOf(ridge, d), want)
	must.True(t, off <= 1e-6 && math.Abs(ridge.Objective-objective) <= 1e-9*objective, "kernel ridge regression is %g away; objectives %g and %g", off, ridge.Objective, objective)
}

func TestDropSVMRefusesBadSettings(t *testing.T) {
	gram := &Gram{n: 1, data: []float64{1}}
	for _, s := range []DropSVM{{Q: -1, Keep: .5}, {Q: math.NaN()}, {Q: 1, Keep: 1.5}, {Q: 1, Keep: math.NaN()}, {Q: 1, Keep: .5, Epochs: -1}} {
		must.Fails(t, must.Err(s.Kernel(gram)), s, "passed")
	}
	must.Fails(t, must.Err((DropSVM{Q: 1, Keep: .5}).Kernel(&Gram{n: 2, data: make([]float64, 4)})), "a kernel matrix of zeros passed")
}

// TestSyrk checks block products for matrix sizes just below, at and above the size of a block.
func TestSyrk(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{0, 1, 3, 256, 300} {
		x, got := make([]float64, n*n), make([]float64, n*n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		syrk(x, got, n)
		for range min(n*n, 500) {
			i, j, want := r.IntN(n), r.IntN(n), 0.0
			for k := range n {
				want += x[k*n+i] * x[k*n+j]
			}
			must.Require(t, math.Abs(got[i*n+j]-want) <= 1e-11 && got[i*n+j] == got[j*n+i], "n=%d: (x'x)(%d, %d) = %v, want %v", n, i, j, got[i*n+j], want)
		}
	}
}
