package batch

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/loss"
	"blankout/internal/must"

	"gonum.org/v1/gonum/mat"
)

// TestAfterAStep checks that the certificate, gradient and diagonal that Newton's method reuses after a step equal
// newly computed values.
func TestAfterAStep(t *testing.T) {
	x, y := drawProblem(t, 5, 60, 6, false)
	data := denseData(t, x, y)
	for _, l := range []loss.Loss{loss.HingeGaussian{Ell: 1}, loss.LogisticGaussian{}, loss.LogisticChen{}, loss.HingeChen{Ell: 1}} {
		for _, n := range everyNoise[1:] {
			for _, it := range everyIntercept {
				o, fresh := newExpected(t, data, y, l, n, 1, it), newExpected(t, data, y, l, n, 1, it)
				r := rand.New(rand.NewPCG(7, 8))
				dim := o.Dim()
				w, d, grad, want := make([]float64, dim), make([]float64, dim), make([]float64, dim), make([]float64, dim)
				for i := range w {
					w[i], d[i] = 0.5*r.NormFloat64(), 0.5*r.NormFloat64()
				}
				close := func(what string, a, b float64) {
					t.Helper()
					if !(math.Abs(a-b) <= 1e-10*(1+math.Abs(b))) {
						t.Errorf("%v %v %v: %s is %v, want %v", l, n, it, what, a, b)
					}
				}
				o.Smooth(0.1)
				fresh.Smooth(0.1)
				o.ValueGrad(w, grad)
				o.Line(d)
				axpy(0.7, d, w)
				gap := o.stepGap(w, 0.7)
				passes := o.Passes()
				value := o.ValueGrad(w, grad)
				if o.Passes() != passes {
					t.Errorf("%v %v %v: the gradient takes a pass", l, n, it)
				}
				close("value", value, fresh.ValueGrad(w, want))
				for i := range grad {
					close("gradient", grad[i], want[i])
				}
				o.Diagonal(grad)
				fresh.secondDerivatives()
				clear(fresh.fv)
				clear(fresh.vv)
				a := fresh.dense()
				for i := range grad {
					close("diagonal", grad[i], a.At(i, i))
				}
				close("gap", gap, fresh.Gap(w))
			}
		}
	}
}

type system struct{ *mat.SymDense }

func (s system) Dim() int                         { return s.SymmetricDim() }
func (s system) ValueGrad(_, _ []float64) float64 { panic("not asked for") }
func (s system) HessVec(v, out []float64) {
	mat.NewVecDense(len(out), out).MulVec(s, mat.NewVecDense(len(v), v))
}

// TestConjugateGradientsKeepDirections checks that search directions kept from one linear system speed up a second
// system with a nearly equal matrix. They must not change the solution of the second system.
func TestConjugateGradientsKeepDirections(t *testing.T) {
	const n = 40
	r := rand.New(rand.NewPCG(9, 10))
	a := mat.NewSymDense(n, nil)
	for k := range 6 { // a few eigenvalues are large
		x := mat.NewVecDense(n, nil)
		for i := range n {
			x.SetVec(i, r.NormFloat64())
		}
		a.SymRankOne(a, float64(k+1), x)
	}
	diag, grad := make([]float64, n), make([]float64, n)
	for i := range n {
		a.SetSym(i, i, a.At(i, i)+1)
	}
	count := func(c *cg) (products int) {
		p, hp := make([]float64, n), make([]float64, n)
		for i := range n {
			diag[i], grad[i] = 1, r.NormFloat64()
		}
		must.Do(t, c.solve(context.Background(), system{a}, grad, diag, p, 1e-5, func([]float64) bool { products++; return false }))
		system{a}.HessVec(p, hp)
		for i := range hp {
			if math.Abs(hp[i]+grad[i]) > 1e-3 {
				t.Fatalf("residual %v", hp[i]+grad[i])
			}
		}
		return products
	}
	c := newCG(n)
	first := count(c)
	c.near = true
	for i := range n {
		a.SetSym(i, i, a.At(i, i)*(1+1e-3*r.Float64()))
	}
	if second := count(c); second > first*2/3 {
		t.Errorf("%d products, %d without the directions of the system before", second, first)
	}
}

// TestProbitIsSolvedWithACertificate checks that probit is solved to a certified gap. Probit is a loss for comparisons
// only and has no objective of its own.
func TestProbitIsSolvedWithACertificate(t *testing.T) {
	x, y := problems.Gaussian(52, 100, 4, false)
	d := denseData(t, x, y)
	for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}} {
		p := Problem{Data: d, Y: y, Kappa: 1, Loss: loss.Probit{}, Noise: noise, Intercept: FreeIntercept, Penalty: Ridge(4, 1, FreeIntercept)}
		var objective []float64
		for _, solver := range []Solver{Newton, LBFGS} {
			o := must.Get(NewExpected(p))(t)
			r := must.Get(Solve(context.Background(), o, Options{Solver: solver, Tol: 1e-10}))(t)
			if !r.Converged || !(r.Gap <= 1e-10*r.Objective) {
				t.Errorf("%s %v: %+v", solver, noise, r)
			}
			objective = append(objective, r.Objective)
			problems.CheckDerivatives(t, "probit", o, r.W, 1e-6)
		}
		if math.Abs(objective[0]-objective[1]) > 1e-9*objective[0] {
			t.Errorf("%v: %v", noise, objective)
		}
	}
}

// TestSettles checks convergence without a certificate, in two cases. In the first case rounding hides a gradient as
// small as the tolerance. In the second case the start is the minimum. An interrupted search must not report
// convergence.
func TestSettles(t *testing.T) {
	x, y := drawProblem(t, 6, 200, 40, false)
	data := denseData(t, x, y)
	for _, solver := range []Solver{Newton, IRLS, LBFGS} {
		o := newExpected(t, data, y, loss.LogisticQuadratic{}, loss.Dropout{Q: 0.5}, 1, FreeIntercept)
		solve := func(opt Options) *Result {
			t.Helper()
			opt.Solver = solver
			return must.Get(Solve(t.Context(), o, opt))(t)
		}
		exact := solve(Options{Tol: 1e-15})
		if !exact.Converged || !math.IsInf(exact.Gap, 1) {
			t.Errorf("%s: at the minimum to rounding: converged %t, gap %g after %d iterations", solver, exact.Converged, exact.Gap, exact.Iterations)
		}
		if again := solve(Options{Tol: 1e-9, Start: exact.W}); !again.Converged || again.Iterations > 10 {
			t.Errorf("%s: from the minimum: converged %t after %d iterations", solver, again.Converged, again.Iterations)
		}
		if early := solve(Options{Tol: 1e-9, MaxIterations: 2}); early.Converged {
			t.Errorf("%s: converged after 2 iterations at %g, the minimum is %g", solver, early.Objective, exact.Objective)
		}
	}
}
