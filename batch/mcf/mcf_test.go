package mcf

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
	"blankout/internal/loss"
	"blankout/internal/must"
)

func TestGolden(t *testing.T) {
	for _, kind := range []Loss{Exponential, Logistic} {
		problems.Cases(t, "../testdata", string(kind), 6, func(t *testing.T, g *problems.Golden, c *problems.Case) {
			d := denseData(t, g.X, g.Y)
			o, err := New(batch.Problem{Data: d, Y: g.Y, Noise: c.Noise(t), Kappa: 1, Intercept: batch.FreeIntercept,
				Penalty: batch.Ridge(d.Columns(), c.Params.Lam, batch.FreeIntercept)}, kind)
			must.Do(t, err)
			for _, solver := range []batch.Solver{batch.Newton, batch.LBFGS} {
				r := must.Get(batch.Solve(context.Background(), o, batch.Options{Solver: solver, Tol: 1e-13}))(t)
				want := append(append([]float64(nil), c.Weights...), c.Intercept)
				if off := problems.Relative(r.W, want); off > 1e-6 || math.Abs(r.Objective-c.Objective) > 1e-9*c.Objective || !(r.Gap <= 1e-12*c.Objective) {
					t.Errorf("%s: weights %.2g away, J %.12g, want %.12g, gap %.2g after %d iterations", solver, off, r.Objective, c.Objective, r.Gap, r.Iterations)
				}
			}
		})
	}
}

func TestDerivatives(t *testing.T) {
	x, y := problems.Gaussian(21, 30, 5, true)
	d := denseData(t, x, y)
	r := rand.New(rand.NewPCG(1, 1))
	weight := must.List(len(y), func(int) float64 { return float64(r.IntN(3)) })
	for _, kind := range []Loss{Exponential, Logistic} {
		for _, noise := range []loss.Noise{nil, loss.Dropout{Q: 0.3}, loss.Poisson{}, loss.Gaussian{SD: 0.5}, loss.Laplace{B: 0.3}} {
			for _, intercept := range []batch.Intercept{batch.FreeIntercept, batch.PenalizedIntercept, batch.NoIntercept} {
				o, err := New(batch.Problem{Data: d, Y: y, Weight: weight, Noise: noise, Kappa: 0.7, Intercept: intercept,
					Penalty: batch.Ridge(d.Columns(), 0.2, intercept), Threads: 2}, kind)
				must.Do(t, err)
				w := must.List(o.Dim(), func(int) float64 { return 0.5 * r.NormFloat64() })
				problems.CheckDerivatives(t, fmt.Sprint(kind, noise, intercept), o, w, 1e-6)
			}
		}
	}
}

// TestIsTheExpectation compares the closed form with the average loss of corrupted copies. The exponential form equals
// the expectation; the logistic form is an upper bound.
func TestIsTheExpectation(t *testing.T) {
	x, y := problems.Gaussian(22, 5, 3, true)
	d := denseData(t, x, y)
	w := []float64{0.3, -0.4, 0.5, 0.1}
	r := rand.New(rand.NewPCG(2, 2))
	for _, noise := range []loss.Noise{loss.Dropout{Q: 0.4}, loss.Poisson{}, loss.Gaussian{SD: 0.6}, loss.Laplace{B: 0.4}} {
		var mean [2]float64
		const copies = 100_000
		for range copies {
			for i, row := range x {
				f := w[3]
				for c, v := range row {
					f += w[c] * noise.Corrupt(v, r)
				}
				mean[0] += math.Exp(-y[i]*f) / copies
				mean[1] += math.Log1p(math.Exp(-y[i]*f)) / copies
			}
		}
		for k, kind := range []Loss{Exponential, Logistic} {
			o := must.Get(New(batch.Problem{Data: d, Y: y, Noise: noise, Kappa: 1, Intercept: batch.FreeIntercept, Penalty: batch.Ridge(3, 0, batch.FreeIntercept)}, kind))(t)
			got := o.ValueGrad(w, nil)
			must.True(t, (k != 0 || math.Abs(got-mean[0]) <= 0.02*mean[0]) && (k != 1 || got >= mean[1]*0.995 && got <= mean[1]*1.3),
				"%s under %v: %v, mean over copies %v", kind, noise, got, mean[k])
		}
	}
}

func TestBadInput(t *testing.T) {
	ctx := context.Background()
	x, y := problems.Gaussian(23, 20, 3, false)
	d := denseData(t, x, y)
	p := batch.Problem{Data: d, Y: y, Kappa: 1, Intercept: batch.FreeIntercept, Penalty: batch.Ridge(3, 0.1, batch.FreeIntercept)}
	for name, noise := range map[string]loss.Noise{"groups": loss.GroupDropout{Groups: 0.1}, "poisson of negatives": loss.Poisson{}} {
		q := p
		q.Noise = noise
		must.Fails(t, must.Err(New(q, Logistic)), name, "passed")
	}
	must.Fails(t, must.Err(New(p, "mcf")), "an unknown loss passed")
	q := p
	q.Weight = make([]float64, len(y))
	must.Fails(t, must.Err(New(q, Logistic)), "no weight at all passed")
	// Huge features with one class must give an error or finite numbers.
	for i := range x {
		x[i][0] *= 1e8
	}
	for name, labels := range map[string][]float64{"huge": y, "one class": slices.Repeat([]float64{1}, len(y))} {
		for _, kind := range []Loss{Exponential, Logistic} {
			q := p
			q.Data, q.Y, q.Noise = denseData(t, x, y), labels, loss.Dropout{Q: 0.5}
			o := must.Get(New(q, kind))(t)
			r, err := batch.Solve(ctx, o, batch.Options{Tol: 1e-6})
			if err != nil {
				continue
			}
			must.Finite(t, append(r.W, r.Objective), name, kind, r)
			first := o.ValueGrad(make([]float64, o.Dim()), nil)
			must.True(t, r.Objective <= first, "%s %s: %v is worse than %v at the start", name, kind, r.Objective, first)
		}
	}
}

// TestGap checks that the gap is a bound for every value of the free intercept, because Gap first moves the intercept
// to its optimum. If all labels are equal, no optimum exists and Gap must be +Inf.
func TestGap(t *testing.T) {
	x, y := problems.Gaussian(24, 40, 3, false)
	d := denseData(t, x, y)
	for _, kind := range []Loss{Exponential, Logistic} {
		p := batch.Problem{Data: d, Y: y, Noise: loss.Dropout{Q: 0.3}, Kappa: 1, Intercept: batch.FreeIntercept, Penalty: batch.Ridge(3, 0.5, batch.FreeIntercept), Threads: 1}
		o := must.Get(New(p, kind))(t)
		best := must.Get(batch.Solve(t.Context(), o, batch.Options{Tol: 1e-10}))(t)
		want := slices.Clone(best.W)
		for _, off := range []float64{-2, -0.1, 0.5, 3} {
			// Only the intercept is off. Gap moves it back, so almost no gap remains.
			w := slices.Clone(best.W)
			w[3] += off
			gap := o.Gap(w)
			must.True(t, gap <= 1e-6*best.Objective, "%s: a gap of %v of %v with the intercept off by %v", kind, gap, best.Objective, off)
			must.True(t, math.Abs(w[3]-want[3]) <= 1e-4, "%s: the intercept goes to %v, want %v", kind, w[3], want[3])
			w[0] += off
			gap = o.Gap(w)
			missing := o.ValueGrad(w, nil) - best.Objective
			must.True(t, gap >= missing-1e-12, "%s: a gap of %v where %v is missing", kind, gap, missing)
		}
		p.Y = slices.Repeat([]float64{1}, len(y))
		o = must.Get(New(p, kind))(t)
		gap := o.Gap(make([]float64, o.Dim()))
		must.True(t, math.IsInf(gap, 1), "%s: a gap of %v with one class", kind, gap)
	}
}

// denseData returns the Data of a matrix, see problems.Dense.
func denseData(t testing.TB, x [][]float64, y []float64) *batch.Data {
	examples, schema := problems.Dense(x, y)
	return eventtest.Data(t, new(batch.Builder), schema, examples...)
}

// TestLaplaceStaysInside trains under Laplace noise of scale b, on data whose loss would decrease with larger weights.
// It checks that every solver keeps all weights below 1/b in absolute value, because the expectation is infinite beyond
// 1/b.
func TestLaplaceStaysInside(t *testing.T) {
	x := [][]float64{{1, 0}, {2, 0.1}, {-1, 0}, {-2, 0.1}} // the first feature separates the classes
	y := []float64{1, 1, -1, -1}
	for _, kind := range []Loss{Exponential, Logistic} {
		for _, b := range []float64{1e-3, 1, 4} {
			o := must.Get(New(batch.Problem{Data: denseData(t, x, y), Y: y, Noise: loss.Laplace{B: b}, Kappa: 100, Intercept: batch.FreeIntercept, Penalty: batch.Ridge(2, 0.01, batch.FreeIntercept)}, kind))(t)
			v := o.ValueGrad([]float64{1.01 / b, 0, 0}, nil)
			must.True(t, math.IsInf(v, 1), "%s, b %g: %g beyond the bound", kind, b, v)
			for _, solver := range []batch.Solver{batch.Newton, batch.LBFGS} {
				r, err := batch.Solve(t.Context(), o, batch.Options{Solver: solver, Tol: 1e-9})
				must.Require(t, err == nil, "%s, b %g, %s: %v", kind, b, solver, err)
				must.True(t, r.Converged && math.Abs(r.W[0]) < 1/b && r.W[0] > 0, "%s, b %g, %s: weights %v, converged %t", kind, b, solver, r.W, r.Converged)
			}
		}
	}
}
