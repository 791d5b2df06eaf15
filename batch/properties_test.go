package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// drawProblem draws a training set of two overlapping classes. Uncentered features have a mean far from zero, so that w
// = 0 is optimal under strong noise.
func drawProblem(t testing.TB, seed uint64, rows, columns int, uncentered bool) (x [][]float64, y []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range rows {
		label := float64(2*r.IntN(2) - 1)
		row := make([]float64, columns)
		for d := range row {
			switch {
			case uncentered:
				row[d] = 3 + 0.3*label + r.NormFloat64()
			case r.IntN(3) == 0:
				row[d] = 0.4*label + r.NormFloat64()
			}
		}
		x, y = append(x, row), append(y, label)
	}
	return x, y
}

// everyLoss lists each loss of the table that an Expected objective can be solved for with labels -1 and +1, and a
// hinge with a given margin. TestNumbers covers regression losses with a kink at the target: with two targets, all
// examples would be at the kink.
var everyLoss = func() []loss.Loss {
	out := []loss.Loss{loss.HingeChen{Ell: 0.7}}
	for _, l := range eventtest.Losses() {
		if facts := l.Facts(); facts.Target.Check(-1) == nil && facts.CleanConvex && !(facts.Regression && facts.Kink != nil) {
			out = append(out, l)
		}
	}
	return out
}()

var everyNoise = []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}, loss.Gaussian{SD: 0.4}, loss.Laplace{B: 0.3},
	loss.GroupDropout{Groups: 0.5}, loss.GroupDropout{Q: 0.2, Groups: 0.4},
	loss.GroupDropout{Rates: ownRates}, loss.GroupDropout{Q: 0.2, Rates: ownRates}, loss.Silent{D: 0.5}}

// ownRates are separate dropout rates for two groups of denseData.
var ownRates = map[string]float64{"g": 0.5, "h": 0.1}

var everyIntercept = []Intercept{FreeIntercept, PenalizedIntercept, NoIntercept}

func newExpected(t testing.TB, d *Data, y []float64, l loss.Loss, n loss.Noise, kappa float64, it Intercept) *Expected {
	o, err := NewExpected(Problem{Data: d, Y: y, Loss: l, Noise: n, Kappa: kappa, Intercept: it,
		Penalty: Ridge(d.Columns(), 1, it), Threads: 1})
	must.Do(t, err)
	return o
}

func solve(t testing.TB, o Objective, opt Options) *Result {
	return must.Get(Solve(context.Background(), o, opt))(t)
}

// slowValue computes J as written in docs/mathematics.md, row by row.
func slowValue(x [][]float64, y, w []float64, l loss.Loss, n loss.Noise, kappa float64, it Intercept) float64 {
	d := len(x[0])
	value := Dot(w[:d], w[:d])
	b := 0.0
	if it != NoIntercept {
		b = w[d]
	}
	if it == PenalizedIntercept {
		value += b * b
	}
	for i, row := range x {
		if silent, ok := n.(loss.Silent); ok {
			value += kappa * slowSilent(row, w, make([]float64, d), nil, l, y[i], b, silent)
			continue
		}
		f, v := b, 0.0
		for j, x := range row {
			f += w[j] * x
			for k, z := range row {
				v += w[j] * w[k] * slowCovariance(n, j, k, x, z)
			}
		}
		e, _, _ := l.At(y[i], f, v)
		value += kappa * e
	}
	return value
}

// slowCovariance returns the covariance of the noisy values of columns j and k of denseData.
func slowCovariance(n loss.Noise, j, k int, x, z float64) float64 {
	g, groups := n.(loss.GroupDropout)
	if !groups {
		if j != k {
			return 0
		}
		c0, c1, c2 := n.Coefficients()
		return c0 + c1*x + c2*x*x
	}
	// product is the product of E[factor^2] over the noise factors that both columns share.
	product := 1.0
	for _, group := range slowGroups(j) {
		if slices.Contains(slowGroups(k), group) {
			product /= 1 - g.Rate(group)
		}
	}
	if j == k {
		product /= 1 - g.Q
	}
	return x * z * (product - 1)
}

// slowGroups returns the groups that remove a column of denseData.
func slowGroups(column int) []string {
	return [][]string{{"g"}, {"h"}, {"c"}, {"g", "h"}, {"g"}}[column%5]
}

// TestGroupsByEnumeration checks that slowCovariance equals the sum over every mask of groups and features.
func TestGroupsByEnumeration(t *testing.T) {
	checkByEnumeration(t, loss.GroupDropout{Q: 0.3, Groups: 0.4})
	checkByEnumeration(t, loss.GroupDropout{Q: 0.3, Rates: ownRates})
	checkByEnumeration(t, loss.GroupDropout{Rates: map[string]float64{"c": 0.9, "g": 0.05, "h": 0.3}})
}

func checkByEnumeration(t *testing.T, n loss.GroupDropout) {
	t.Helper()
	x := []float64{0.7, -1.3, 2, 0.5, -0.4, 1.1}
	w := []float64{1, -0.6, 0.3, 0.9, 2, -0.5}
	groups := []string{"g", "h", "c"}
	mean, square := 0.0, 0.0
	for mask := range 1 << (len(groups) + len(x)) {
		p, f := 1.0, 0.0
		dies := func(bit int, q float64) bool {
			if mask>>bit&1 == 1 {
				p *= q
				return true
			}
			p *= 1 - q
			return false
		}
		var dead []string
		for i, g := range groups {
			if dies(i, n.Rate(g)) {
				dead = append(dead, g)
			}
		}
		for j := range x {
			alive, scale := !dies(len(groups)+j, n.Q), 1/(1-n.Q)
			for _, g := range slowGroups(j) {
				alive, scale = alive && !slices.Contains(dead, g), scale/(1-n.Rate(g))
			}
			if alive {
				f += scale * w[j] * x[j]
			}
		}
		mean += p * f
		square += p * f * f
	}
	f, v := 0.0, 0.0
	for j := range x {
		f += w[j] * x[j]
		for k := range x {
			v += w[j] * w[k] * slowCovariance(n, j, k, x[j], x[k])
		}
	}
	must.True(t, math.Abs(mean-f) <= 1e-12 && math.Abs(square-mean*mean-v) <= 1e-12, "%v: mean %v and variance %v by masks, %v and %v by the formula", n, mean, square-mean*mean, f, v)
	// The objective must give the same variance v, in the expected quadratic loss (f - y)^2 + v.
	o := newExpected(t, denseData(t, [][]float64{x}, []float64{1}), []float64{1}, loss.Quadratic{}, n, 1, NoIntercept)
	got, want := o.ValueGrad(w, nil)-Dot(w, w), (f-1)*(f-1)+v
	must.True(t, math.Abs(got-want) <= 1e-12, "quadratic loss %v, want %v", got, want)
}

// denseAgrees checks that the dense Hessian at w, multiplied by v, equals the Hessian-vector product.
func denseAgrees(t *testing.T, name string, o *Expected, w, v []float64, tolerance float64) {
	t.Helper()
	grad, hv := make([]float64, len(w)), make([]float64, len(w))
	o.ValueGrad(w, grad)
	o.HessVec(v, hv)
	a := o.dense()
	for i := range hv {
		want := 0.0
		for j := range v {
			want += a.At(i, j) * v[j]
		}
		if math.Abs(hv[i]-want) > tolerance*(1+math.Abs(want)) {
			t.Errorf("%s: Hv[%d] = %v, by the dense matrix %v", name, i, hv[i], want)
			return
		}
	}
}

// TestExpectedAgainstTheFormula compares the value, gradient, Hessian and line of every loss, noise and intercept with
// the formula and with finite differences.
func TestExpectedAgainstTheFormula(t *testing.T) {
	x, y := drawProblem(t, 1, 50, 6, false)
	data := denseData(t, x, y)
	r := rand.New(rand.NewPCG(2, 2))
	for _, l := range everyLoss {
		for _, n := range everyNoise {
			for _, it := range everyIntercept {
				name := fmt.Sprint(l, n, it)
				o := newExpected(t, data, y, l, n, 0.7, it)
				dim := o.Dim()
				w, v := make([]float64, dim), make([]float64, dim)
				for i := range w {
					w[i], v[i] = 0.3*r.NormFloat64(), r.NormFloat64()
				}
				grad, hv := make([]float64, dim), make([]float64, dim)
				value := o.ValueGrad(w, grad)
				want := slowValue(x, y, w, l, n, 0.7, it)
				must.True(t, math.Abs(value-want) <= 1e-7*want, "%s: value %v, want %v", name, value, want)
				o.HessVec(v, hv)
				phi := o.Line(v)
				const h = 1e-5
				up, down := make([]float64, dim), make([]float64, dim)
				for i := range w {
					up[i], down[i] = w[i]+h*v[i], w[i]-h*v[i]
				}
				gu, gd := make([]float64, dim), make([]float64, dim)
				vu, vd := o.ValueGrad(up, gu), o.ValueGrad(down, gd)
				slope := (vu - vd) / (2 * h)
				must.True(t, math.Abs(slope-Dot(grad, v)) <= 1e-6*(1+math.Abs(slope)), "%s: slope %v by differences, %v by the gradient", name, slope, Dot(grad, v))
				for i := range gu {
					if want := (gu[i] - gd[i]) / (2 * h); math.Abs(hv[i]-want) > 1e-5*(1+math.Abs(want)) && !(l.Facts().Kink != nil && !o.noisy) {
						t.Errorf("%s: Hv[%d] = %v, by differences %v", name, i, hv[i], want)
						break
					}
				}
				denseAgrees(t, name, o, w, v, 1e-9)
				got, _, _ := phi(h)
				must.True(t, math.Abs(got-vu) <= 1e-10*math.Abs(vu), "%s: value on the line %v, at the point %v", name, got, vu)
			}
		}
	}
}

func TestSolversAgree(t *testing.T) {
	longtest.Numeric(t)
	x, y := drawProblem(t, 3, 80, 7, false)
	data := denseData(t, x, y)
	for _, l := range everyLoss {
		for _, n := range everyNoise {
			for _, it := range everyIntercept {
				name := fmt.Sprint(l, " ", n, " ", it)
				var want float64
				for i, s := range []Solver{Newton, IRLS, LBFGS} {
					if l == (loss.LogisticQuadratic{}) && s != LBFGS {
						continue // 2 dv is no curvature, because the loss is not convex
					}
					o := newExpected(t, data, y, l, n, 0.5, it)
					opt := Options{Solver: s, Tol: 1e-9, MaxIterations: 3000}
					tol := 2e-9
					if l.Facts().Kink != nil && o.plainHinge() > 0 && s != Newton {
						opt.Tol, tol = 1e-4, 1e-4 // the loss has kinks everywhere
					}
					r := solve(t, o, opt)
					must.True(t, r.Converged, "%s: %s did not converge: %+v", name, s, r)
					if i == 0 {
						want = r.Objective
					} else if want != 0 && math.Abs(r.Objective-want) > tol*want {
						t.Errorf("%s: %s ends at %.12g, newton at %.12g", name, s, r.Objective, want)
					}
				}
			}
		}
	}
}

// TestIRLSFalls checks that J decreases with every IRLS step for a bound of Chen et al. A step minimizes a quadratic
// that lies above J.
func TestIRLSFalls(t *testing.T) {
	x, y := drawProblem(t, 4, 100, 6, false)
	data := denseData(t, x, y)
	for _, l := range []loss.Loss{loss.HingeChen{Ell: 1}, loss.LogisticChen{}} {
		for _, n := range everyNoise[1:] {
			o := newExpected(t, data, y, l, n, 2, FreeIntercept)
			last, steps := math.Inf(1), 0
			solve(t, o, Options{Solver: IRLS, Tol: 1e-12, Progress: func(p Progress) {
				must.True(t, p.Objective <= last*(1+1e-14), "%v %v: J rises from %.17g to %.17g in step %d", l, n, last, p.Objective, p.Iteration)
				last, steps = p.Objective, steps+1
			}})
			must.True(t, steps >= 3, "%v %v: %d steps show nothing", l, n, steps)
		}
	}
}

// TestLossesWithOffsets checks that an offset of the scores acts as a change of the intercept.
func TestLossesWithOffsets(t *testing.T) {
	x, y := drawProblem(t, 4, 100, 2, false)
	o := newExpected(t, denseData(t, x, y), y, loss.LogisticGaussian{}, loss.Dropout{Q: 0.5}, 2, FreeIntercept)
	must.True(t, slices.Equal(o.Losses([]float64{0.5, -1, 0.25}, slices.Repeat([]float64{0.25}, 100)), o.Losses([]float64{0.5, -1, 0.5}, nil)), "other losses")
}

// TestCertificateIsABound checks that the certificate is never below the true gap, with every kind of intercept. It
// tests random points, points near the optimum, and strong noise on uncentered features, where the kink w = 0 is
// optimal.
func TestCertificateIsABound(t *testing.T) {
	longtest.Numeric(t)
	r := rand.New(rand.NewPCG(5, 5))
	for _, uncentered := range []bool{false, true} {
		x, y := drawProblem(t, 6, 60, 5, uncentered)
		data := denseData(t, x, y)
		for _, l := range everyLoss {
			for _, n := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.95}, loss.Gaussian{SD: 2}, loss.GroupDropout{Groups: 0.4}, loss.GroupDropout{Q: 0.1, Groups: 0.9}, loss.GroupDropout{Rates: ownRates}, loss.Silent{D: 0.8}} {
				for _, it := range everyIntercept {
					name := fmt.Sprintf("%v %v %v uncentered=%v", l, n, it, uncentered)
					o := newExpected(t, data, y, l, n, 1, it)
					best := solve(t, o, Options{Tol: 1e-8})
					if !o.IsConvex() {
						must.True(t, math.IsInf(best.Gap, 1), "%s: not convex, but a gap of %v", name, best.Gap)
						continue
					}
					must.True(t, best.Converged, "%s: the gap stays at %v of %v after %d steps", name, best.Gap, best.Objective, best.Iterations)
					for k := range 12 {
						w := append([]float64(nil), best.W...)
						for i := range w {
							w[i] += math.Pow(10, float64(-k)) * r.NormFloat64()
						}
						if o.Kinked() {
							o.Smooth(math.Pow(10, float64(-r.IntN(8))))
						}
						gap := o.Gap(w)
						// The dual point is feasible only if the intercept's derivatives sum to 0.
						sum := o.residual[len(o.residual)-1]
						must.True(t, it != FreeIntercept || math.Abs(sum) < 1e-9, "%s: the dual point sums to %g", name, sum)
						o.Smooth(0)
						if true := o.ValueGrad(w, nil) - best.Objective; gap < true-1e-15*best.Objective {
							t.Errorf("%s: gap %g below the true %g", name, gap, true)
						}
					}
				}
			}
		}
	}
}

// TestCorruptedCopiesTendToTheExpectation checks that the average over corrupted copies converges to the expectation
// for the quadratic loss, whose formula is exact. For the other losses the bound must be above the average.
func TestCorruptedCopiesTendToTheExpectation(t *testing.T) {
	longtest.Numeric(t)
	x, y := drawProblem(t, 8, 60, 5, false)
	data := denseData(t, x, y)
	w := []float64{0.5, -0.3, 0.2, 0.4, -0.1, 0.2}
	for i, n := range everyNoise[1:] {
		for j, l := range everyLoss {
			if l == (loss.LogisticQuadratic{}) || !longtest.Some(i+j, 2) {
				continue
			}
			want := newExpected(t, data, y, l, n, 1, FreeIntercept).ValueGrad(w, nil)
			far := func(copies int) float64 {
				c := must.Get(data.Corrupted(n, copies, 3))(t)
				yc := must.List(c.Rows(), func(i int) float64 { return y[i/copies] })
				return newExpected(t, c, yc, l, loss.NoNoise{}, 1, FreeIntercept).ValueGrad(w, nil)/want - 1
			}
			got := far(1000)
			switch l.(type) {
			case loss.Quadratic, loss.Linear:
				must.True(t, math.Abs(got) <= 0.02, "%v %v: 1000 copies are %g away", l, n, got)
			default:
				// The expectation under a normal score is not a bound: with five features in three groups the noisy
				// score is far from normal.
				_, groups := n.(loss.GroupDropout)
				must.True(t, got <= 0.005 || groups && got < 0.01, "%v %v: 1000 copies lie %g above the bound", l, n, got)
			}
		}
	}
}

// TestImportanceWeights checks that an example with weight 2 has the same effect as the example twice. An example with
// weight 0 must have no effect.
func TestImportanceWeights(t *testing.T) {
	x, y := drawProblem(t, 10, 30, 4, false)
	var two, weighted Builder
	var y2, yw []float64
	for i := range x {
		e := event.Example{Weight: float64(i % 3), Features: event.Vec{Index: []uint32{0, 1, 2, 3}, Value: x[i]}}
		must.Do(t, weighted.Add(&e))
		yw = append(yw, y[i])
		for range i % 3 {
			e.Weight = 1
			must.Do(t, two.Add(&e))
			y2 = append(y2, y[i])
		}
	}
	for _, l := range everyLoss {
		a := solve(t, newExpected(t, two.d.copy(), y2, l, loss.Dropout{Q: 0.4}, 1, FreeIntercept), Options{Tol: 1e-12})
		b := solve(t, newExpected(t, weighted.d.copy(), yw, l, loss.Dropout{Q: 0.4}, 1, FreeIntercept), Options{Tol: 1e-12})
		far := problems.Relative(b.W, a.W)
		must.True(t, far <= 1e-5, "%v: weights %g away", l, far)
	}
}

// copy returns Data with the events of d, which was taken from an unfinished Builder. The columns must be 0 … 3.
func (d *Data) copy() *Data {
	c := *d
	c.columns = []uint32{0, 1, 2, 3}
	return &c
}

// TestThreadsDoNotChangeABit checks that every kind of noise gives the same bits for any number of threads. It compares
// gradients, the Hessian, its products and diagonal, certificates and corrupted copies.
func TestThreadsDoNotChangeABit(t *testing.T) {
	t.Parallel()
	x, y := drawProblem(t, 13, 1800, 6, false)
	data := denseData(t, x, y)
	for k, noise := range []loss.Noise{loss.Dropout{Q: 0.3}, loss.Silent{D: 0.5}, loss.GroupDropout{Groups: 0.4}, loss.GroupDropout{Q: 0.1, Groups: 0.3}, loss.GroupDropout{Rates: ownRates}} {
		var want, models [][]float64
		for _, threads := range longtest.Few([]int{1, 2, 3}, 0, 2) {
			o, err := NewExpected(Problem{Data: data, Y: y, Loss: loss.LogisticGaussian{}, Noise: noise, Kappa: 1,
				Intercept: FreeIntercept, Penalty: Ridge(6, 1, FreeIntercept), Threads: threads})
			must.Do(t, err)
			must.Require(t, len(o.sum.partial) >= 4, "too few groups of rows to show anything")
			w := []float64{0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.1}
			grad, product, diagonal := make([]float64, 7), make([]float64, 7), make([]float64, 7)
			value := o.ValueGrad(w, grad)
			o.HessVec(grad, product)
			o.Diagonal(diagonal)
			matrix := o.dense().RawSymmetric().Data
			got := [][]float64{{value}, grad, product, diagonal, matrix, {o.Gap(w)}}
			var trained [][]float64
			for _, copies := range []int{0, 2} {
				for _, solver := range longtest.Few([]Solver{"", IRLS, LBFGS}, k+copies/2, 2) {
					c := DefaultConfig()
					c.Noise, c.Copies, c.Solver, c.Threads = noise.String(), copies, solver, threads
					f := must.Get(Train(t.Context(), data, c))(t)
					trained = append(trained, append(f.Problems[0].W, f.Objective, f.Gap))
				}
			}
			if threads == 1 {
				want, models = got, trained
			}
			for i := range got {
				must.True(t, slices.Equal(got[i], want[i]), "%v: of value, gradient, product, diagonal, matrix and gap number %d is %v with %d threads, %v with one", noise, i, got[i], threads, want[i])
			}
			for i := range trained {
				must.True(t, slices.Equal(trained[i], models[i]), "%v: training number %d ends at %v with %d threads, at %v with one", noise, i, trained[i], threads, models[i])
			}
		}
	}
}

func TestCancel(t *testing.T) {
	x, y := drawProblem(t, 12, 50, 5, false)
	data := denseData(t, x, y)
	for _, s := range []Solver{Newton, IRLS, LBFGS} {
		for _, l := range everyLoss[:4] {
			ctx, cancel := context.WithCancel(context.Background())
			_, err := Solve(ctx, newExpected(t, data, y, l, loss.Dropout{Q: 0.3}, 1, FreeIntercept),
				Options{Solver: s, Progress: func(Progress) { cancel() }})
			cancel()
			must.True(t, err == context.Canceled, "%v %s: %v after canceling", l, s, err)
		}
	}
}

// TestCenterHinge compares the shift of the scores from centerHinge with a search over all kinks.
func TestCenterHinge(t *testing.T) {
	longtest.NotRaced(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		x, y := drawProblem(t, seed, 2+r.IntN(30), 2, false)
		o := newExpected(t, denseData(t, x, y), y, loss.HingeChen{Ell: 1}, loss.NoNoise{}, 1, FreeIntercept)
		for i := range o.f {
			o.f[i] = float64(r.IntN(7)-3) / 2 // many equal scores
			o.m[i] = float64(r.IntN(3))
		}
		value := func(shift float64) (sum float64) {
			for i, m := range o.m {
				sum += m * max(1-y[i]*(o.f[i]+shift), 0)
			}
			return sum
		}
		best, weight := math.Inf(1), 0.0
		for i, m := range o.m {
			best = min(best, value(y[i]-o.f[i]))
			weight += m
		}
		if weight == 0 {
			continue
		}
		before := append([]float64(nil), o.f...)
		by := o.centerHinge(1)
		for i, f := range o.f {
			must.Require(t, f == before[i]+by, "seed %d: the scores moved by %v, not %v", seed, f-before[i], by)
		}
		copy(o.f, before)
		got := value(by)
		must.True(t, got <= best+1e-12*(1+best), "seed %d: shift %v leaves %v, the best kink %v", seed, by, got, best)
	}
}

// TestHessianVectorByKindOfValue checks HessVec for values of 1, float32 and float64, which have separate loops.
func TestHessianVectorByKindOfValue(t *testing.T) {
	for _, value := range []float64{1, 0.5, 0.1} { // an exact integer, an exact float32, and neither
		var x [][]float64
		var y []float64
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 40 {
			row := make([]float64, 7)
			for d := range row {
				if i == 0 || r.IntN(2) == 0 {
					row[d] = value
				}
			}
			x, y = append(x, row), append(y, float64(2*r.IntN(2)-1))
		}
		for _, n := range append(everyNoise, loss.Poisson{}) {
			o := newExpected(t, denseData(t, x, y), y, loss.HingeGaussian{Ell: 1}, n, 1, FreeIntercept)
			w, v := make([]float64, 8), make([]float64, 8)
			for i := range w {
				w[i], v[i] = 0.3*r.NormFloat64(), r.NormFloat64()
			}
			if n == (loss.NoNoise{}) {
				o.Smooth(0.5)
			}
			denseAgrees(t, fmt.Sprint(value, " ", n), o, w, v, 1e-12)
		}
	}
}

// TestNoLossIsTheMinimum checks that a loss of zero is recognized as the minimum. The problem has no penalty and so no
// certificate, but zero is a lower bound of the objective.
func TestNoLossIsTheMinimum(t *testing.T) {
	x, y := [][]float64{{1, 0}, {-1, 0}, {2, 1}, {0, -3}}, []float64{1, -1, 1, -1}
	data := denseData(t, x, y)
	for _, it := range everyIntercept {
		o := must.Get(NewExpected(Problem{Data: data, Y: y, Loss: loss.HingeGaussian{Ell: 1}, Kappa: 1, Intercept: it, Penalty: Ridge(2, 0, it)}))(t)
		got := solve(t, o, Options{Tol: 1e-6})
		must.True(t, got.Objective == 0 && got.Gap == 0 && got.Converged, "%v: objective %v, gap %v, converged %v", it, got.Objective, got.Gap, got.Converged)
	}
}

// TestSolveLogit checks that solveLogit finds the zero of t + c + k sigma(t), for many values of c and k and any start.
func TestSolveLogit(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	for range 10_000 {
		start, c, k := 20*r.NormFloat64(), 30*r.NormFloat64(), math.Exp(8*r.NormFloat64())
		at, p := solveLogit(start, c, k)
		must.Require(t, p == 1/(1+math.Exp(-at)), "sigma(%v) is not %v", at, p)
		side := func(t float64) float64 { return t + c + k/(1+math.Exp(-t)) }
		near := 1e-3 + 1e-12*k
		must.Require(t, side(at-near) <= 0 && side(at+near) >= 0, "from %v, c %v, k %v: %v leaves %v", start, c, k, at, side(at))
	}
}

// TestLBFGSOnRareFeatures checks that L-BFGS needs few iterations even if the frequencies of features differ widely.
func TestLBFGSOnRareFeatures(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	var x [][]float64
	var y []float64
	for range 1000 {
		row, label := make([]float64, 60), float64(2*r.IntN(2)-1)
		for d := range row {
			if r.IntN(1+d*d/4) == 0 {
				row[d] = float64(1 + r.IntN(40/(d+1)+1))
				if r.IntN(3) > 0 {
					row[d] += label / float64(d+1)
				}
			}
		}
		x, y = append(x, row), append(y, label)
	}
	data := denseData(t, x, y)
	for i := 200; i < len(y); i++ {
		y[i] = math.NaN()
	}
	for _, l := range []loss.Loss{loss.LogisticChen{}, loss.LogisticGaussian{}, loss.LogisticQuadratic{}} {
		o, err := NewExpected(Problem{Data: data, Y: y, Loss: l, Noise: loss.Dropout{Q: 0.5}, Kappa: 1, Alpha: 0.4,
			Intercept: FreeIntercept, Penalty: Ridge(data.Columns(), 1e-3, FreeIntercept)})
		must.Do(t, err)
		got := solve(t, o, Options{Tol: 1e-6, Solver: LBFGS})
		must.True(t, got.Converged && got.Iterations <= 150, "%v: converged %v after %d iterations at %v", l, got.Converged, got.Iterations, got.Objective)
	}
}

const goldenData = "testdata"

func targets(y []float64, rows int) []float64 {
	out := append([]float64(nil), y...)
	for len(out) < rows {
		out = append(out, math.NaN())
	}
	return out
}

// denseData returns the Data of a matrix, see problems.Dense.
func denseData(t testing.TB, x [][]float64, y []float64) *Data {
	examples, schema := problems.Dense(x, y)
	return eventtest.Data(t, new(Builder), schema, examples...)
}

// expectedOf returns the objective of a golden case, or nil if this package has no objective for the case.
func expectedOf(t testing.TB, g *problems.Golden, c *problems.Case) *Expected {
	p := Problem{Kappa: 1, Intercept: FreeIntercept, Noise: c.Noise(t)}
	l2 := 1.0
	x := g.X
	switch c.Algo {
	case "dropout-logistic":
		p.Loss = loss.LogisticChen{}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "gaussian-logistic":
		p.Loss = loss.LogisticGaussian{}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "dropout-svm", "svm":
		p.Loss = loss.HingeChen{Ell: c.Params.Ell}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "gaussian-hinge":
		p.Loss = loss.HingeGaussian{Ell: c.Params.Ell}
		p.Kappa = loss.Cost(p.Loss, c.Params.C)
	case "mcf-quadratic":
		p.Loss = loss.Quadratic{}
		l2 = c.Params.Lam
	case "quadratic-noising-logistic":
		p.Loss = loss.LogisticQuadratic{}
		l2 = c.Params.Lam / 2
		if c.Params.Unlabeled {
			x = append(append([][]float64(nil), g.X...), g.Unlabeled...)
			p.Alpha = c.Params.Alpha
		}
	default:
		return nil
	}
	p.Data = denseData(t, x, g.Y)
	p.Y = targets(g.Y, p.Data.Rows())
	p.Penalty = Ridge(p.Data.Columns(), l2, p.Intercept)
	return must.Get(NewExpected(p))(t)
}

func TestGoldenExpected(t *testing.T) {
	total := 0
	for _, g := range problems.ReadGolden(t, goldenData) {
		for i := range g.Cases {
			c := &g.Cases[i]
			o := expectedOf(t, &g, c)
			if o == nil {
				continue
			}
			total++
			name := fmt.Sprintf("%s %s %s %v c=%v ell=%v", g.Problem, c.Algo, c.Params.Noise, c.Params.Level, c.Params.C, c.Params.Ell)
			r, err := Solve(context.Background(), o, Options{Tol: 1e-13})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			tol := c.Tolerance
			weightTol, objectiveTol := 1e-6, 1e-9
			if tol > 0 {
				weightTol, objectiveTol = tol, tol
			}
			if c.Algo == "quadratic-noising-logistic" {
				weightTol, objectiveTol = math.Inf(1), 1e-8
			}
			must.True(t, math.Abs(r.Objective-c.Objective) <= objectiveTol*c.Objective, "%s: objective %.12g, want %.12g (%+v)", name, r.Objective, c.Objective, *r)
			want := append(append([]float64(nil), c.Weights...), c.Intercept)
			far := problems.Relative(r.W, want)
			must.True(t, far <= weightTol, "%s: weights %.2g away; gap %g, %d iterations, J %.15g want %.15g", name, far, r.Gap, r.Iterations, r.Objective, c.Objective)
			if testing.Verbose() {
				t.Logf("%s: %d iterations %d passes gap %.2g J-J* %.2g", name, r.Iterations, r.Passes, r.Gap, r.Objective-c.Objective)
			}
		}
	}
	must.True(t, total == 187, "%d cases, want 187", total)
}

// relative returns |a-b| / |b| in the maximum norm.

// TestGoldenRefresh checks the IRLS step of the online learner. The step solves the last rows exactly. The quadratic
// (1/2)(w - w_t)'D(w - w_t) represents all earlier rows.
func TestGoldenRefresh(t *testing.T) {
	total := 0
	for _, g := range problems.ReadGolden(t, goldenData) {
		for i := range g.Cases {
			c := &g.Cases[i]
			if c.Algo != "irls-refresh" {
				continue
			}
			total++
			var l loss.Loss = loss.LogisticChen{}
			if c.Params.Loss == "hinge" {
				l = loss.HingeChen{Ell: c.Params.Ell}
			}
			// Add all rows, with weight 0 for the rows before the refresh, so that all columns exist.
			d := denseData(t, g.X, g.Y)
			weight := make([]float64, d.Rows())
			for i := c.Params.FromRow; i < d.Rows(); i++ {
				weight[i] = 1
			}
			o, err := NewExpected(Problem{Data: d, Y: g.Y, Weight: weight, Loss: l, Noise: loss.Dropout{Q: c.Params.Level},
				Kappa: loss.Cost(l, c.Params.C), Intercept: PenalizedIntercept, Penalty: Penalty{R: c.Metric, Center: c.StartWeights}})
			must.Do(t, err)
			for _, s := range []Solver{IRLS, Newton} {
				r := must.Get(Solve(context.Background(), o, Options{Solver: s, Tol: 1e-13, Start: c.StartWeights}))(t)
				name := fmt.Sprintf("%s %s %s", g.Problem, c.Params.Loss, s)
				must.True(t, math.Abs(r.Objective-c.Objective) <= 1e-9*c.Objective, "%s: objective %.12g, want %.12g", name, r.Objective, c.Objective)
				far := problems.Relative(r.W, append(append([]float64(nil), c.Weights...), c.Intercept))
				must.True(t, far <= 1e-6, "%s: weights %.2g away", name, far)
			}
		}
	}
	must.True(t, total == 6, "%d cases, want 6", total)
}

func constant(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

// TestRowLoops checks that the loops over four entries at a time give the same bits as the reference. The reference
// must agree with the formula.
func TestRowLoops(t *testing.T) {
	was := hasAVX2
	defer func() { hasAVX2 = was }()
	random := rand.New(rand.NewPCG(3, 4))
	const columns = 300
	normal := func(n int) []float64 {
		x := must.List(n, func(int) float64 { return random.NormFloat64() })
		return x
	}
	for n := range 23 {
		for kind := range 3 {
			for _, c := range [][2]float64{{0, 1}, {0.7, 0}, {0.3, 2.5}} {
				var r Row
				for d := range n {
					r.Index = append(r.Index, uint32(d*13+random.IntN(13)))
				}
				switch kind {
				case kindFloat32:
					r.f32 = make([]float32, n, n+1)
					for i := range r.f32 {
						r.f32[i] = float32(random.ExpFloat64())
					}
				case kindFloat64:
					r.f64 = make([]float64, n, n+1)
					for i := range r.f64 {
						r.f64[i] = random.ExpFloat64()
					}
				}
				type result struct {
					s, t, u           float64
					z, mixed, pairSum []float64
				}
				p, mixed, pair := normal(2*columns), normal(columns), normal(2*columns)
				a, b := random.NormFloat64(), random.NormFloat64()
				run := func() (o result) {
					o = result{z: make([]float64, n), mixed: append([]float64(nil), mixed...), pairSum: append([]float64(nil), pair...)}
					o.s, o.t, o.u = r.gather(p, o.z, c[0], c[1])
					r.addMixed(o.mixed, o.z, a, b)
					r.addPair(o.pairSum, a, b, c[0], c[1])
					return o
				}
				fast := run()
				hasAVX2 = false
				reference := run()
				hasAVX2 = was
				if got, want := fmt.Sprint(fast), fmt.Sprint(reference); got != want {
					t.Fatalf("%d entries of kind %d: %s, reference %s", n, kind, got, want)
				}
				slow := result{z: make([]float64, n), mixed: mixed, pairSum: pair}
				for i, d := range r.Index {
					x := r.At(i)
					v := c[0]*x + c[1]*x*x
					slow.s += x * p[2*d]
					slow.z[i] = v * p[2*d+1]
					slow.t += slow.z[i] * p[2*d]
					slow.u += v * p[2*d] * p[2*d]
					slow.mixed[d] += a*x + b*slow.z[i]
					slow.pairSum[2*d] += a * x
					slow.pairSum[2*d+1] += b * v
				}
				flat := func(o result) []float64 {
					x := append([]float64{o.s, o.t, o.u}, o.z...)
					return append(append(x, o.mixed...), o.pairSum...)
				}
				got := flat(fast)
				must.Near(t, got, flat(slow), 1e-13*float64(n+1), n, "entries of kind", kind)
			}
		}
	}
}

// maskedData returns examples of a few columns with weights and targets. Some of the examples are unlabeled.
func maskedData(t *testing.T, n, columns int, unlabeled bool) (*Data, []float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(12, 12))
	var b Builder
	for i := range n {
		e := event.Example{Label: r.IntN(2), Weight: 1 + float64(r.IntN(2))}
		if unlabeled && i%7 == 3 {
			e.Label = event.Unlabeled
		}
		for c := range columns {
			if r.IntN(3) > 0 {
				eventtest.Put(&e, uint32(c), r.NormFloat64())
			}
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"a", "b"}, 2))
	return d, d.signs(1)
}

// TestExactIsTheSumOverMasks checks that the objective with the bound "exact" equals the penalty plus the sum of the
// losses over all masks, each times its probability.
func TestExactIsTheSumOverMasks(t *testing.T) {
	d, y := maskedData(t, 12, 6, false)
	r := rand.New(rand.NewPCG(13, 13))
	for _, name := range []string{"logistic", "hinge", "squared-hinge", "quadratic", "probit", "erf"} {
		for _, q := range []float64{0, 0.3, 0.9} {
			c := DefaultConfig()
			c.Loss, c.Bound, c.Cost = name, ExactBound, 0.8
			noise := must.Either[loss.Noise](q == 0, loss.NoNoise{}, loss.Dropout{Q: q})
			build, told, err := c.objective(noise)
			must.Require(t, err == nil && (strings.HasPrefix(told, name+":exact") || name == "quadratic"), "%s: %q, %v", name, told, err)
			o := must.Get(build(d, Subproblem{Y: y}, c))(t)
			l := must.Get(loss.Parse(name))(t)
			if clean := l.Facts().Clean; clean != nil {
				l = clean
			}
			for range 5 {
				w := make([]float64, d.Columns()+1)
				want := 0.0
				for i := range w {
					w[i] = r.NormFloat64()
					if i < d.Columns() {
						want += w[i] * w[i]
					}
				}
				for i := range d.Rows() {
					row := d.Row(i)
					for mask := range 1 << row.Len() {
						f, p := w[d.Columns()], 1.0
						for j, c := range row.Index {
							if mask>>j&1 == 1 {
								f, p = f+w[c]*row.At(j)/(1-q), p*(1-q)
							} else {
								p *= q
							}
						}
						at, _, _ := l.At(y[i], f, 0)
						want += loss.Cost(l, c.Cost) * d.Weight(i) * p * at
					}
				}
				got := o.ValueGrad(w, nil)
				must.True(t, math.Abs(got-want) <= 1e-10*want, "%s, q = %v: J = %v, the sum over masks is %v", name, q, got, want)
			}
		}
	}
}

// TestExactRefuses checks that problems whose masks cannot be enumerated are rejected with an error that names the
// reason. Settings without effect must be rejected too.
func TestExactRefuses(t *testing.T) {
	small, _ := maskedData(t, 20, 4, true)
	large, _ := maskedData(t, 5, 60, false)
	many, _ := maskedData(t, 12_000, 16, false)
	for _, x := range []struct {
		change func(*Config)
		d      *Data
		want   string
	}{
		{func(c *Config) { c.Noise = "gaussian:0.5" }, small, "needs dropout, not noise gaussian"},
		{func(c *Config) { c.Noise = "group:0.5" }, small, "needs dropout, not noise group"},
		{func(c *Config) { c.Copies = 3 }, small, "excludes copies"},
		{func(c *Config) { c.Loss = "t-logistic:1.5" }, small, "no bound exact"},
		{func(*Config) {}, small, "this loss cannot use unlabeled examples"},
		{func(*Config) {}, large, "at most 16"},
		{func(*Config) {}, many, "fewer or smaller events"},
	} {
		c := DefaultConfig()
		c.Noise, c.Bound, c.Alpha = "dropout:0.5", ExactBound, 0.4
		x.change(&c)
		err := c.Check()
		if err == nil {
			_, err = Train(t.Context(), x.d, c)
		}
		must.True(t, err != nil && strings.Contains(err.Error(), x.want), "%v, want %q", err, x.want)
		must.True(t, x.want != "this loss cannot use unlabeled examples" || errors.Is(err, ErrUnlabeled), "%v is no ErrUnlabeled", err)
	}
	c := DefaultConfig()
	c.Noise, c.Bound, c.Alpha = "dropout:0.5", ExactBound, 0
	must.Do(t, must.Err(Train(t.Context(), small, c)))
}

// TestExactWithSplines checks that dropout removes a number together with its spline columns. For the quadratic loss the
// approximation is exact and must give the same result.
func TestExactWithSplines(t *testing.T) {
	d, _ := curvedData(t, 60, curvedWeight)
	var told [2]float64
	for i, bound := range []string{"", ExactBound} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Bound = "quadratic", "dropout:0.4", bound
		f := must.Get(Train(t.Context(), d, c))(t)
		told[i] = f.Objective
	}
	must.True(t, math.Abs(told[0]-told[1]) <= 1e-6*told[0], "objectives %v", told)
}
