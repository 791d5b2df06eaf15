package svm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/kernel"
	"blankout/internal/must"
)

var testKernels = []string{"linear", "rbf", "rbf:2", "poly:2", "poly:3", "chi2", "chi2:0.7"}

func TestKernelMatchesItsDefinition(t *testing.T) {
	x, y := problems.Gaussian(1, 40, 9, true)
	d := denseData(t, x, y, nil)
	for _, name := range testKernels {
		k := must.Get(kernel.Parse(name))(t)
		again, err := kernel.Parse(k.String())
		must.True(t, err == nil && again == k, "%s: reads back as %v, %v", name, again, err)
		k = must.Get(Resolve(k, d))(t)
		g := must.Get(NewGram(k, d, 1))(t)
		mean, pairs := 0.0, 0.0
		for i := range x {
			for j := range x {
				xy, d2, chi := 0.0, 0.0, 0.0
				for c := range x[i] {
					a, b := x[i][c], x[j][c]
					xy += a * b
					d2 += (a - b) * (a - b)
					if a+b > 0 {
						chi += (a - b) * (a - b) / (a + b)
					}
				}
				var want float64
				switch k := k.(type) {
				case kernel.Linear:
					want = xy
				case kernel.Polynomial:
					want = math.Pow(1+xy, float64(k.Degree))
				case kernel.RBF:
					want = math.Exp(-d2 / (2 * k.Sigma * k.Sigma))
					if i != j {
						mean, pairs = mean+math.Sqrt(d2), pairs+1
					}
				case kernel.Chi2:
					want = math.Exp(-chi / (2 * k.Sigma * k.Sigma))
					if i != j {
						mean, pairs = mean+math.Sqrt(chi), pairs+1
					}
				}
				got := g.At(i, j)
				must.Require(t, math.Abs(got-want) <= 1e-13*math.Abs(want) && g.At(j, i) == got, "%s: k(%d, %d) = %v and %v, want %v", name, i, j, got, g.At(j, i), want)
			}
		}
		must.True(t, (name != "rbf" || math.Abs(k.(kernel.RBF).Sigma-mean/pairs) <= 1e-12) && (name != "chi2" || math.Abs(k.(kernel.Chi2).Sigma-mean/pairs) <= 1e-12),
			"%s: the default width is %v, want the mean distance %v", name, k, mean/pairs)
	}
}

func TestGramIsTheSameForAnyNumberOfThreads(t *testing.T) {
	// There are more rows than two shards of batch.KernelRows, so that rows are computed in parallel too.
	x, y := problems.Gaussian(2, 8300, 5, true)
	d := denseData(t, x, y, nil)
	for _, k := range []kernel.Kernel{kernel.Linear{}, kernel.RBF{Sigma: 1.3}, kernel.Chi2{Sigma: 1.1}} {
		one := must.Get(batch.NewCachedGram(k, d, 0, 1))(t)
		many := must.Get(batch.NewCachedGram(k, d, 1<<20, 5))(t)
		r := rand.New(rand.NewPCG(3, 3))
		for range 50 {
			i, j := r.IntN(len(x)), r.IntN(len(x))
			a, b := one.Row(i), one.Row(j) // a must stay valid after the call for b
			must.Require(t, slices.Equal(a, many.Row(i)) && slices.Equal(b, many.Row(j)) && a[j] == b[i], "%s: rows %d and %d differ with the number of threads", k, i, j)
		}
		small := d.Subset(r.Perm(len(x))[:300])
		g1 := must.Get(NewGram(k, small, 1))(t)
		must.Require(t, slices.Equal(g1.data, must.Get(NewGram(k, small, 4))(t).data), "%s: Gram matrices differ with the number of threads", k)
	}
}

func TestKernelRefusesBadInput(t *testing.T) {
	for _, s := range []string{"", "linear:2", "poly", "poly:0", "poly:x", "rbf:0", "rbf:-1", "rbf:NaN", "rbf:", "chi2:Inf", "tanh"} {
		k, err := kernel.Parse(s)
		must.True(t, err != nil, "kernel.Parse(%q) = %v", s, k)
	}
	d := denseData(t, [][]float64{{1, 2}, {-1, 3}}, []float64{1, -1}, nil)
	must.Fails(t, must.Err(Resolve(kernel.Chi2{Sigma: 1}, d)), "chi2 took a negative feature")
	huge := denseData(t, [][]float64{{1e200, 2}, {-1, 1e200}}, []float64{1, -1}, nil)
	must.Fails(t, must.Err(NewGram(kernel.Polynomial{Degree: 3}, huge, 1)), "an infinite kernel value passed")
	must.Fails(t, must.Err(Resolve(kernel.RBF{}, huge)), "an infinite width passed")
	same := denseData(t, [][]float64{{1, 2}, {1, 2}}, []float64{1, -1}, nil)
	k, err := Resolve(kernel.RBF{}, same)
	must.True(t, err == nil && k == (kernel.RBF{Sigma: 1}), "identical examples: %v, %v", k, err)
}

// TestSMOMeetsTheOptimalityConditions checks every solution against the definition of the optimality conditions,
// with the full matrix.
func TestSMOMeetsTheOptimalityConditions(t *testing.T) {
	x, y := problems.Gaussian(6, 200, 8, true)
	d := denseData(t, x, y, nil)
	r := rand.New(rand.NewPCG(7, 7))
	for _, name := range testKernels {
		k, _ := kernel.Parse(name)
		k = must.Get(Resolve(k, d))(t)
		g := must.Get(NewGram(k, d, 2))(t)
		for _, cost := range []float64{0.01, 1, 30} {
			if _, ok := k.(kernel.Polynomial); ok {
				cost /= 30 // badly conditioned: cost 30 would need millions of steps
			}
			c := constant(cost, len(y))
			for i := range c {
				c[i] *= float64(r.IntN(4)) // importance weights, including zero
			}
			var first *batch.DualResult
			for _, variant := range []string{"shrinking", "cached", "no intercept"} {
				p := batch.HingeDual(g, y, c)
				switch variant {
				case "cached":
					p.K = must.Get(batch.NewCachedGram(k, d, 8*len(y)*20, 1))(t)
				case "no intercept":
					p.Intercept = false
				}
				got := must.Get(p.Solve(context.Background()))(t)
				what := fmt.Sprintf("%s c=%v %s (%d steps)", name, cost, variant, got.Iterations)
				must.True(t, got.Converged && got.Gap <= 1e-6*got.Primal && got.Gap >= -1e-10*got.Primal,
					"%s: gap %v of %v, violation %v, converged %v", what, got.Gap, got.Primal, got.Violation, got.Converged)
				sum, primal := 0.0, 0.0
				for i := range y {
					f := batch.Dot(g.Row(i), got.Beta) + got.Intercept
					alpha := y[i] * got.Beta[i]
					margin := 1 - y[i]*f
					sum += got.Beta[i]
					primal += 0.5*got.Beta[i]*(f-got.Intercept) + c[i]*max(0, margin)
					tol := 1.1e-6 + 1e-9*math.Abs(f)
					must.True(t, alpha >= 0 && alpha <= c[i] && (alpha >= c[i] || margin <= tol) && (alpha <= 0 || margin >= -tol), "%s: example %d: alpha %v of %v at margin %v", what, i, alpha, c[i], margin)
				}
				must.True(t, variant == "no intercept" || math.Abs(sum) <= 1e-9*cost*float64(len(y)), "%s: sum of beta %v", what, sum)
				must.True(t, math.Abs(primal-got.Primal) <= 1e-9*primal, "%s: objective %v, stated %v", what, primal, got.Primal)
				if first == nil {
					first = got
				}
				must.True(t, variant == "no intercept" || math.Abs(primal-first.Primal) <= 2e-6*primal, "%s: objective %v, %v with shrinking", what, primal, first.Primal)
				must.True(t, variant != "cached" || slices.Equal(got.Beta, first.Beta), "%s: the cache changes the answer", what)
			}
		}
	}
}

func TestSMODegenerate(t *testing.T) {
	ctx := context.Background()
	x := [][]float64{{1, 0}, {1, 0}, {0, 1}, {0, 1}}
	for name, y := range map[string][]float64{"one class": {1, 1, 1, 1}, "the other": {-1, -1, -1, -1}} {
		g := must.Get(NewGram(kernel.RBF{Sigma: 1}, denseData(t, x, y, nil), 1))(t)
		r, err := batch.HingeDual(g, y, constant(1, 4)).Solve(ctx)
		must.True(t, err == nil && r.Intercept == y[0] && r.Converged && r.Primal == 0, "%s: %+v, %v", name, r, err)
	}
	// Both classes contain the same points and the matrix is singular, so the solution is w = 0.
	y := []float64{1, -1, 1, -1}
	g := must.Get(NewGram(kernel.Linear{}, denseData(t, x, y, nil), 1))(t)
	r, err := batch.HingeDual(g, y, constant(1, 4)).Solve(ctx)
	must.True(t, err == nil && r.Converged && math.Abs(r.Primal-4) <= 1e-9, "contradicting labels: %+v, %v", r, err)
	must.Fails(t, must.Err(batch.HingeDual(g, y, []float64{1, 1, math.NaN(), 1}).Solve(ctx)), "a cost that is not a number passed")
	must.Fails(t, must.Err(batch.HingeDual(g, y, []float64{1, -1, 1, 1}).Solve(ctx)), "a negative cost passed")
	empty := &Gram{}
	r, err = batch.HingeDual(empty, nil, nil).Solve(ctx)
	must.True(t, err == nil && r.Gap == 0, "no example: %+v, %v", r, err)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	must.Fails(t, must.Err(batch.HingeDual(g, y, constant(1, 4)).Solve(canceled)), "a canceled search gave an answer")
}
