package batch

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/must"
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
					must.True(t, math.Abs(a-b) <= 1e-10*(1+math.Abs(b)), "%v %v %v: %s is %v, want %v", l, n, it, what, a, b)
				}
				o.Smooth(0.1)
				fresh.Smooth(0.1)
				o.ValueGrad(w, grad)
				o.Line(d)
				axpy(0.7, d, w)
				gap := o.stepGap(w, 0.7)
				passes := o.Passes()
				value := o.ValueGrad(w, grad)
				must.True(t, o.Passes() == passes, "%v %v %v: the gradient takes a pass", l, n, it)
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
func (s system) Diagonal(_ []float64) { panic("not asked for") }

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
			must.Require(t, math.Abs(hp[i]+grad[i]) <= 1e-3, "residual %v", hp[i]+grad[i])
		}
		return products
	}
	c := newCG(n)
	first := count(c)
	c.near = true
	for i := range n {
		a.SetSym(i, i, a.At(i, i)*(1+1e-3*r.Float64()))
	}
	second := count(c)
	must.True(t, second <= first*2/3, "%d products, %d without the directions of the system before", second, first)
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
		must.True(t, exact.Converged && math.IsInf(exact.Gap, 1),
			"%s: at the minimum to rounding: converged %t, gap %g after %d iterations", solver, exact.Converged, exact.Gap, exact.Iterations)
		again := solve(Options{Tol: 1e-9, Start: exact.W})
		must.True(t, again.Converged && again.Iterations <= 10, "%s: from the minimum: converged %t after %d iterations", solver, again.Converged, again.Iterations)
		early := solve(Options{Tol: 1e-9, MaxIterations: 2})
		must.True(t, !early.Converged, "%s: converged after 2 iterations at %g, the minimum is %g", solver, early.Objective, exact.Objective)
	}
}

// windowProblem returns a problem that resembles a window of recent events: few rows, each with a few of many columns.
// Its quadratic penalty pulls every parameter to a center.
func windowProblem(t testing.TB, loss loss.Loss, noise loss.Noise, rows, columns, entries int) Problem {
	r := rand.New(rand.NewPCG(uint64(rows), uint64(columns)))
	var b Builder
	var y []float64
	for range rows {
		e := event.Example{Weight: 1}
		step := columns / entries
		for k := range entries {
			eventtest.Put(&e, uint32(k*step+r.IntN(step)), r.NormFloat64())
		}
		must.Do(t, b.Add(&e))
		y = append(y, float64(2*r.IntN(2)-1))
	}
	d := b.Data(event.NewSchema(20, nil, 2))
	p := Problem{Data: d, Y: y, Loss: loss, Noise: noise, Kappa: 1, Intercept: PenalizedIntercept, Threads: 1}
	for range d.Columns() + 1 {
		p.Penalty.R = append(p.Penalty.R, 0.05+2*r.Float64())
		p.Penalty.Center = append(p.Penalty.Center, 0.1*r.NormFloat64())
	}
	return p
}

// TestDual checks that the solution in the dual equals the solution in the primal, for every loss and for IRLS.
func TestDual(t *testing.T) {
	robust := must.Get(loss.NewTLogistic(1.5))(t)
	for _, m := range []loss.Loss{loss.LogisticGaussian{}, loss.LogisticChen{}, loss.HingeGaussian{Ell: 1}, loss.HingeChen{Ell: 1}, robust.Theta(), loss.Quadratic{}} {
		for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}, loss.Dropout{Q: 0.01}} {
			t.Run(fmt.Sprint(m, "/", noise), func(t *testing.T) {
				p := windowProblem(t, m, noise, 30, 300, 15)
				o := must.Get(NewExpected(p))(t)
				// Check that P^-1 P is the identity, where P is the majorizer.
				o.Majorise(true)
				w := must.List(o.Dim(), func(i int) float64 { return 0.1 * math.Sin(float64(i)) })
				grad, back := make([]float64, o.Dim()), make([]float64, o.Dim())
				o.ValueGrad(w, grad)
				d := o.dual()
				must.Require(t, d != nil && d.exact, "no dual of the majoriser")
				o.HessVec(w, grad)
				d.apply(grad, back)
				must.Near(t, back, w, 1e-9, "P^-1 P of the parameters")
				o.Majorise(false)
				if o.plainHinge() > 0 {
					return // the hinge has its own solver
				}
				best := math.Inf(1)
				var values []float64
				for _, opt := range []Options{{Solver: Newton, Dual: true}, {Solver: IRLS, Dual: true}, {Solver: Newton}, {Solver: LBFGS}} {
					opt.Tol = 1e-9
					r := must.Get(Solve(t.Context(), o, opt))(t)
					values = append(values, r.Objective)
					best = min(best, r.Objective)
				}
				for i, v := range values[:3] {
					must.True(t, v <= best+1e-7*math.Abs(best), "solver %d: objective %.12g, best %.12g", i, v, best)
				}
			})
		}
	}
}

func TestDualIsForFewRows(t *testing.T) {
	p := windowProblem(t, loss.LogisticChen{}, loss.NoNoise{}, 30, 28, 14)
	o := must.Get(NewExpected(p))(t)
	o.ValueGrad(make([]float64, o.Dim()), make([]float64, o.Dim()))
	must.True(t, o.dual() == nil, "a dual larger than the primal")
	p = windowProblem(t, loss.LogisticChen{}, loss.NoNoise{}, 20, 300, 15)
	p.Penalty.R[len(p.Penalty.R)-1] = 0
	o = must.Get(NewExpected(p))(t)
	o.ValueGrad(make([]float64, o.Dim()), make([]float64, o.Dim()))
	must.True(t, o.dual() == nil, "a dual with a parameter that nothing holds")
}

func TestManyRowsAreIndexedByShards(t *testing.T) {
	x, y := problems.Gaussian(2, 8300, 5, true)
	r := NewKernelRows(kernel.Linear{}, denseData(t, x, y))
	must.True(t, r.Shards() == 2, "%d rows in %d shards, want 2: the tests of threads rely on it", len(x), r.Shards())
}

func TestCachedGramKeepsTheRowsUsedLast(t *testing.T) {
	x, y := problems.Gaussian(4, 30, 4, false)
	d := denseData(t, x, y)
	c := must.Get(NewCachedGram(kernel.Linear{}, d, 3*8*30, 1))(t)
	var held []int // reference cache: row numbers, most recent first
	want := 0
	r := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		i := r.IntN(6) * r.IntN(6)
		c.Row(i)
		if at := slices.Index(held, i); at >= 0 {
			held = slices.Delete(held, at, at+1)
		} else {
			want++
		}
		held = append([]int{i}, held...)
		held = held[:min(len(held), 3)]
		must.Require(t, c.computed == want, "%d rows computed, want %d", c.computed, want)
	}
}

// TestConvergedAtItsGap checks that a solution whose certified gap is within the tolerance counts as converged, and
// only such a solution. The losses have kinks. Some targets are linear in the features, so that the smoothing of the
// kinks is most of the objective.
func TestConvergedAtItsGap(t *testing.T) {
	for _, name := range []string{"absolute", "quantile:0.05"} {
		for seed := range uint64(120) {
			rng := rand.New(rand.NewPCG(seed, 7))
			schema := event.NewSchema(8, nil, 0)
			schema.Target = loss.Real
			var b Builder
			n, columns := 5+rng.IntN(300), 1+rng.IntN(12)
			noise := float64(rng.IntN(3)) // 0: the targets are linear in the features
			for range n {
				var x event.Vec
				for j := range columns {
					x.Index, x.Value = append(x.Index, uint32(j)), append(x.Value, math.Round(2*rng.NormFloat64()))
				}
				must.Do(t, b.Add(&event.Example{Features: x, Target: math.Round(noise*rng.NormFloat64()) + 3*x.Value[0], Weight: 1}))
			}
			c := DefaultConfig()
			c.Loss, c.Noise, c.Cost = name, "none", math.Pow(10, float64(rng.IntN(9)-3))
			fit := must.Get(Train(t.Context(), b.Data(schema), c))(t)
			if within := fit.Gap <= (c.Tol+1e-14)*math.Abs(fit.Objective); fit.Converged != within {
				t.Errorf("%s: converged %v with a gap of %.2g of the objective", fmt.Sprint(name, " ", seed, ", ", n, " events, c = ", c.Cost), fit.Converged, fit.Gap/fit.Objective)
			}
		}
	}
}

// numbersOf draws targets that depend on the features: numbers with heavy tails, or counts.
func numbersOf(x [][]float64, target loss.Target, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	y := make([]float64, len(x))
	for i, row := range x {
		f := 0.7*row[0] - 0.4*row[1] + 0.2
		if target == loss.Count {
			y[i] = math.Floor(math.Exp(f) + 1.5*r.Float64())
		} else {
			y[i] = 500 + 3*f + r.NormFloat64()*math.Exp(r.NormFloat64())
		}
	}
	return y
}

// numbered returns d with targets parsed from its class names, if the loss is for regression.
func numbered(t testing.TB, d *Data, lossName string) *Data {
	t.Helper()
	target := loss.LabelsOf(lossName)
	if target == loss.Sign {
		return d
	}
	s := *d
	s.Schema = d.Schema.Clone()
	s.Schema.Target, s.Schema.Classes = target, nil
	s.labels, s.targets = make([]int32, d.Rows()), make([]float64, d.Rows())
	for i := range s.targets {
		s.targets[i] = must.Get(strconv.ParseFloat(d.Schema.Classes[d.Label(i)], 64))(t)
	}
	return &s
}

// lossesOfNumbers returns the regression losses whose minimum can be certified. The quantile and Huber losses occur
// twice, with two values of their parameter.
func lossesOfNumbers() []loss.Loss {
	out := []loss.Loss{loss.Quantile{T: 0.1}, loss.Huber{D: 0.2}}
	for _, l := range eventtest.Losses() {
		if facts := l.Facts(); facts.Regression && facts.Convex {
			out = append(out, l)
		}
	}
	return out
}

// TestNumbers checks that every regression loss is solved to a certified gap. The lower bound (objective minus gap)
// must be below the value at every random point and at the solutions of other solvers.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	x, _ := drawProblem(t, 21, 80, 6, false)
	data := denseData(t, x, make([]float64, len(x)))
	for _, l := range lossesOfNumbers() {
		y := numbersOf(x, l.Facts().Target, 5)
		for _, n := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.9}, loss.Gaussian{SD: 0.5}, loss.GroupDropout{Q: 0.1, Groups: 0.4}} {
			for _, it := range everyIntercept {
				name := fmt.Sprint(l, " ", n, " ", it)
				o := newExpected(t, data, y, l, n, 1, it)
				best := solve(t, o, Options{Tol: 1e-6})
				must.True(t, best.Converged && best.Gap <= 1.01e-6*math.Abs(best.Objective), "%s: the gap stays at %v of %v after %d steps", name, best.Gap, best.Objective, best.Iterations)
				other := solve(t, o, Options{Solver: LBFGS, Tol: 1e-4})
				off := 1e-4 * (1 + math.Abs(best.Objective))
				must.True(t, math.Abs(other.Objective-best.Objective) <= off, "%s: lbfgs ends at %.12g, newton at %.12g", name, other.Objective, best.Objective)
				for k := range 12 {
					w := append([]float64(nil), best.W...)
					for i := range w {
						w[i] += math.Pow(10, float64(-k)) * r.NormFloat64()
					}
					gap := o.Gap(w)
					if true := o.ValueGrad(w, nil) - best.Objective; gap < true-1e-13*math.Abs(best.Objective) {
						t.Errorf("%s: gap %g below the true %g", name, gap, true)
					}
				}
			}
		}
	}
}

// TestNumbersThatAreAllEqual checks that the solution is the intercept alone if all targets are equal.
func TestNumbersThatAreAllEqual(t *testing.T) {
	x, _ := drawProblem(t, 22, 30, 5, false)
	for _, value := range []float64{0, 7.25, -1e9} {
		y := slices.Repeat([]float64{value}, len(x))
		data := denseData(t, x, y)
		s := *data
		s.Schema = data.Schema.Clone()
		s.Schema.Target, s.Schema.Classes = loss.Real, nil
		s.targets = y
		for _, l := range []string{"squared", "absolute", "quantile:0.9", "quantile:0.1", "huber:1"} {
			for _, noise := range []string{"none", "dropout:0.5", "silent:0.5"} {
				for _, solver := range []Solver{"", Newton, IRLS, LBFGS} {
					c := DefaultConfig()
					c.Loss, c.Noise, c.Solver = l, noise, solver
					fit, err := Train(context.Background(), &s, c)
					if err != nil {
						t.Errorf("%s %s %s: %v", l, noise, solver, err)
						continue
					}
					w := fit.Problems[0].W
					must.True(t, w[5] == value && !slices.ContainsFunc(w[:5], func(x float64) bool { return x != 0 }) && fit.Converged && fit.Objective == 0 && fit.Gap == 0,
						"%s %s %s: weights %v, objective %v, gap %v for targets of %v", l, noise, solver, w, fit.Objective, fit.Gap, value)
				}
			}
		}
	}
	// A penalty on the intercept pulls the intercept to 0. Rows with weight 0 may have other targets.
	data := denseData(t, x, nil)
	o := newExpected(t, data, slices.Repeat([]float64{7}, len(x)), loss.Linear{}, loss.NoNoise{}, 1, PenalizedIntercept)
	r := solve(t, o, Options{})
	must.True(t, r.W[5] < 6.9, "a penalized intercept is %v", r.W[5])
	weight := make([]float64, len(x))
	y := slices.Repeat([]float64{3}, len(x))
	y[4], weight[5] = 9, 1
	o = must.Get(NewExpected(Problem{Data: data, Y: y, Weight: weight, Loss: loss.Quantile{T: 0.9}, Kappa: 1, Intercept: FreeIntercept, Penalty: Ridge(5, 1, FreeIntercept)}))(t)
	r = solve(t, o, Options{})
	must.True(t, r.W[5] == 3 && r.Objective == 0, "%+v", r)
}

// TestQuantileAmongOutliers checks that a quantile between outliers is found. Between the outliers the objective has no
// curvature within the initial smoothing. Noise does not smooth the objective, because the weights are 0.
func TestQuantileAmongOutliers(t *testing.T) {
	x, _ := drawProblem(t, 23, 60, 2, false)
	for _, size := range []float64{1e4, 1e9, 1e12} {
		y := make([]float64, len(x))
		for i, row := range x {
			if y[i] = 5 + 3*row[0] - 2*row[1]; i%7 == 0 {
				y[i] *= size
			}
		}
		data := denseData(t, x, y)
		data.Schema = data.Schema.Clone()
		data.Schema.Target, data.Schema.Classes, data.targets = loss.Real, nil, y
		for _, noise := range []string{"none", "dropout:0.3", "silent:0.5"} {
			c := DefaultConfig()
			c.Loss, c.Noise = "quantile:0.9", noise
			fit, err := Train(context.Background(), data, c)
			must.Require(t, err == nil, "size %g, noise %s: %v", size, noise, err)
			must.True(t, fit.Converged, "size %g, noise %s: %+v", size, noise, fit.Solution)
		}
	}
}
