package fdrop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/eventtest"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/must"
)

func fdropProblem(d *batch.Data, y []float64, c float64, intercept batch.Intercept) batch.Problem {
	return batch.Problem{Data: d, Y: y, Kappa: c, Intercept: intercept, Penalty: batch.Ridge(d.Columns(), 0.5, intercept)}
}

// TestValue compares the worst deletion with an exhaustive search over all deletions.
func TestValue(t *testing.T) {
	x, y := problems.Gaussian(41, 20, 6, false)
	d := denseData(t, x, y)
	r := rand.New(rand.NewPCG(1, 1))
	for k := range 8 {
		o := must.Get(New(fdropProblem(d, y, 1, batch.FreeIntercept), k))(t)
		w := must.List(7, func(int) float64 { return r.NormFloat64() })
		w[2] = w[1] // equal weights
		want := 0.5 * (batch.Dot(w, w) - w[6]*w[6])
		for i := range x {
			worst := 0.0
			for mask := range 1 << 6 {
				f, deleted := w[6], 0
				for c, v := range x[i] {
					if mask>>c&1 == 1 {
						deleted++
					} else {
						f += w[c] * v
					}
				}
				if deleted <= k {
					worst = max(worst, 1-y[i]*f)
				}
			}
			want += worst
		}
		grad := make([]float64, 7)
		got := o.ValueGrad(w, grad)
		must.True(t, math.Abs(got-want) <= 1e-12*want, "K=%d: J = %v, by trying all deletions %v", k, got, want)
	}
	checkKinkFree(t, d, y)
}

// checkKinkFree checks that the gradient is exact at points where J is smooth.
func checkKinkFree(t *testing.T, d *batch.Data, y []float64) {
	t.Helper()
	o := must.Get(New(fdropProblem(d, y, 0.7, batch.PenalizedIntercept), 2))(t)
	problems.CheckDerivatives(t, "fdrop", o, []float64{0.31, -0.42, 0.53, 0.14, -0.25, 0.36, 0.07}, 1e-6)
}

func TestLargeK(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x := make([]float64, 60)
	w := make([]float64, 60)
	for i := range x {
		x[i], w[i] = 1+r.Float64(), math.Round(3*r.NormFloat64())/2
	}
	row := denseData(t, [][]float64{x}, []float64{1}).Row(0)
	for _, k := range []int{1, 5, 16, 17, 25, 60} {
		var d worstDeletion
		loss, deleted := d.find(row, w, 1, k)
		var gains []float64
		want := 1.0
		for i := range x {
			want -= w[i] * x[i]
			if g := w[i] * x[i]; g > 0 {
				gains = append(gains, g)
			}
		}
		slices.Sort(gains)
		for i := range min(k, len(gains)) {
			want += gains[len(gains)-1-i]
		}
		must.True(t, math.Abs(loss-want) <= 1e-12*(1+math.Abs(want)) && len(deleted) == min(k, len(gains)) && slices.IsSorted(deleted), "K=%d: loss %v, want %v; %d deleted", k, loss, want, len(deleted))
	}
}

// TestReachesTheOptimum checks the certificate: no other method may find a point with a value below J - Gap. For K = 0
// the solution must equal a support vector machine solved by SMO.
func TestReachesTheOptimum(t *testing.T) {
	x, y := problems.Gaussian(42, 150, 8, false)
	d := denseData(t, x, y)
	gram := must.Get(batch.NewCachedGram(kernel.Linear{}, d, 1<<20, 1))(t)
	for _, intercept := range []batch.Intercept{batch.FreeIntercept, batch.PenalizedIntercept, batch.NoIntercept} {
		for _, k := range []int{0, 1, 3} {
			for _, c := range []float64{0.05, 1, 4} {
				what := fmt.Sprintf("%s K=%d C=%v", intercept, k, c)
				o := must.Get(New(fdropProblem(d, y, c, intercept), k))(t)
				r := must.Get(batch.Solve(context.Background(), o, batch.Options{Tol: 1e-6}))(t)
				must.True(t, r.Converged && r.Gap <= 1e-6*r.Objective && r.Objective == o.ValueGrad(r.W, nil), "%s: J %v, gap %v after %d iterations", what, r.Objective, r.Gap, r.Iterations)
				if k == 0 && intercept != batch.PenalizedIntercept {
					p := batch.HingeDual(gram, y, slices.Repeat([]float64{c}, len(y)))
					p.Intercept = intercept == batch.FreeIntercept
					svm := must.Get(p.Solve(context.Background()))(t)
					must.True(t, math.Abs(svm.Primal-r.Objective) <= 2e-6*svm.Primal, "%s: J %v, SMO %v", what, r.Objective, svm.Primal)
				}
				// Subgradient descent from the solution finds no value below the bound.
				w, grad := slices.Clone(r.W), make([]float64, len(r.W))
				for step := range 300 {
					j := o.ValueGrad(w, grad)
					must.Require(t, j >= r.Objective-r.Gap*(1+1e-9)-1e-12, "%s: a point at %v, below the bound %v - %v", what, j, r.Objective, r.Gap)
					for i, g := range grad {
						w[i] -= 1e-3 / (math.Sqrt(batch.Dot(grad, grad)) * float64(step+1)) * g
					}
				}
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	x, y := problems.Gaussian(43, 20, 3, false)
	d := denseData(t, x, y)
	must.Fails(t, must.Err(New(fdropProblem(d, y, 1, batch.FreeIntercept), -1)), "K = -1 passed")
	p := fdropProblem(d, y, 1, batch.FreeIntercept)
	p.Penalty = batch.Ridge(3, 0, batch.FreeIntercept)
	must.Fails(t, must.Err(New(p, 1)), "no penalty passed")
	p = fdropProblem(d, y, 0, batch.FreeIntercept)
	must.Fails(t, must.Err(New(p, 1)), "no cost passed")
	for i := range x {
		x[i][0] *= 1e8
	}
	for name, labels := range map[string][]float64{"huge": y, "one class": slices.Repeat([]float64{-1}, len(y))} {
		o := must.Get(New(fdropProblem(denseData(t, x, y), labels, 1, batch.FreeIntercept), 1))(t)
		r := must.Get(batch.Solve(context.Background(), o, batch.Options{Tol: 1e-6}))(t)
		must.Finite(t, append(r.W, r.Objective, r.Gap), name, r)
		must.True(t, name != "one class" || r.Objective <= 1e-12, "one class: %+v", r)
	}
}

// denseData returns the Data of a matrix, see problems.Dense.
func denseData(t testing.TB, x [][]float64, y []float64) *batch.Data {
	examples, schema := problems.Dense(x, y)
	return eventtest.Data(t, new(batch.Builder), schema, examples...)
}

// TestObjectiveIsTheHinges checks the reported objective of FDROP without deletions, with and without an explicit
// penalty. It must equal the documented objective of the hinge.
func TestObjectiveIsTheHinges(t *testing.T) {
	x, y := problems.Gaussian(41, 30, 4, false)
	d := denseData(t, x, y)
	r := rand.New(rand.NewPCG(3, 3))
	hinge := must.Get(loss.Parse("hinge"))(t)
	for _, l2 := range []float64{-1, 0.3} {
		c := batch.DefaultConfig()
		c.Loss, c.Noise, c.Cost, c.L2, c.Intercept = "hinge", "none", 0.7, l2, batch.FreeIntercept
		all := batch.Subproblem{Y: y}
		of := must.Get(batch.NewExpected(c.Problem(d, all, hinge, loss.NoNoise{})))(t)
		o := must.Get(Estimator().New(c.Problem(d, all, nil, loss.NoNoise{}), "0", c))(t)
		for range 20 {
			w := must.List(5, func(int) float64 { return r.NormFloat64() })
			got, want := o.ValueGrad(w, make([]float64, 5)), of.ValueGrad(w, make([]float64, 5))
			must.True(t, math.Abs(got-want) <= 1e-12*want, "l2 %v: J = %v, of the hinge %v", l2, got, want)
		}
	}
}
