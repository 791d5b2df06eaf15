package batch

import (
	"math"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// coordinateLasso is a slow reference minimizer. It applies golden-section search to one parameter after the other
// until the value no longer changes.
func coordinateLasso(value func(w []float64) float64, n int) []float64 {
	w := make([]float64, n)
	for range 400 {
		before := value(w)
		for j := range w {
			at := func(x float64) float64 {
				old := w[j]
				w[j] = x
				v := value(w)
				w[j] = old
				return v
			}
			lo, hi := w[j]-1, w[j]+1
			for hi-lo > 1e-12 {
				a, b := lo+0.381966*(hi-lo), lo+0.618034*(hi-lo)
				if at(a) < at(b) {
					hi = b
				} else {
					lo = a
				}
			}
			x := (lo + hi) / 2
			if at(0) <= at(x) {
				x = 0
			}
			w[j] = x
		}
		if before-value(w) < 1e-14*before {
			break
		}
	}
	return w
}

// TestLasso checks that the minimum equals the result of coordinate descent and that zero weights are exactly 0. The
// certificate must bound the gap at every iterate.
func TestLasso(t *testing.T) {
	longtest.Numeric(t)
	x, y := drawProblem(t, 8, 60, 6, false)
	d := denseData(t, x, y)
	zeros := 0
	for _, c := range []Config{
		{Loss: "logistic", Noise: "none", L2: 0, L1: 2},
		{Loss: "logistic", Noise: "dropout:0.4", L2: 0, L1: 1},
		{Loss: "logistic", Noise: "dropout:0.4", L2: 0.5, L1: 3, Intercept: NoIntercept},
		{Loss: "hinge", Noise: "gaussian:0.3", L2: 0, L1: 2},
		{Loss: "hinge", Bound: "chen", Noise: "dropout:0.4", Cost: 0.7, L2: -1, L1: 2, Intercept: PenalizedIntercept},
		{Loss: "squared-hinge", Noise: "none", L2: 0, L1: 4},
		{Loss: "quadratic", Noise: "laplace:0.2", L2: 0, L1: 8},
		{Loss: "logistic", Noise: "silent:0.4", L2: 0, L1: 1},
	} {
		full := DefaultConfig()
		full.Loss, full.Bound, full.Noise, full.L2, full.L1, full.Tol = c.Loss, c.Bound, c.Noise, c.L2, c.L1, 1e-9
		if c.Cost > 0 {
			full.Cost = c.Cost
		}
		if c.Intercept != "" {
			full.Intercept = c.Intercept
		}
		noise := must.Get(loss.ParseNoise(full.Noise))(t)
		build, _ := must.Get2(full.objective(noise))(t)
		problems := must.Get(full.Subproblems(d))(t)
		smooth := must.Get(build(d, problems[0], full))(t)
		value := func(w []float64) float64 { // computed independently of lasso
			v := smooth.ValueGrad(w, nil)
			for _, x := range w[:d.Columns()] {
				v += full.L1 * math.Abs(x)
			}
			return v
		}
		want := coordinateLasso(value, smooth.Dim())
		least := value(want)
		full.Progress = func(p Progress) {
			must.True(t, p.Gap >= p.Objective-least-1e-9*least, "%s %s: the gap %g is below %g at step %d", full.Loss, full.Noise, p.Gap, p.Objective-least, p.Iteration)
		}
		fit := must.Get(Train(t.Context(), d, full))(t)
		w := fit.Problems[0].W
		must.True(t, fit.Converged && fit.Gap <= 2e-9*least && math.Abs(fit.Objective-least) <= 1e-8*least,
			"%s %s: objective %.12g, want %.12g, gap %g, converged %t", full.Loss, full.Noise, fit.Objective, least, fit.Gap, fit.Converged)
		for j := range d.Columns() {
			must.True(t, (w[j] == 0) == (want[j] == 0) && math.Abs(w[j]-want[j]) <= 1e-4, "%s %s: weight %d is %g, want %g", full.Loss, full.Noise, j, w[j], want[j])
			if w[j] == 0 {
				zeros++
			}
		}
	}
	must.True(t, zeros >= 5, "only %d weights are 0: the penalties are too weak to show anything", zeros)
}

// TestLassoLimits checks extreme penalties. If the penalty is above the largest derivative at 0, every weight must be
// 0. If the penalty is tiny, the solution must equal the solution without a penalty. An objective that is not convex
// has no certificate but must converge. Problems that --l1 cannot solve must be rejected.
func TestLassoLimits(t *testing.T) {
	x, y := problems.Gaussian(9, 80, 5, false)
	d := denseData(t, x, y)
	train := func(set func(c *Config)) (*Fit, error) {
		c := DefaultConfig()
		c.Noise, c.Tol = "dropout:0.3", 1e-10
		set(&c)
		return Train(t.Context(), d, c)
	}
	f, err := train(func(c *Config) { c.L1 = 1e4 })
	must.Require(t, err == nil && f.Converged, "a large penalty: %+v, %v", f, err)
	for _, w := range f.Problems[0].W[:5] {
		must.True(t, w == 0, "weights %v under a large penalty", f.Problems[0].W)
	}
	small := must.Get(train(func(c *Config) { c.L1, c.Tol = 1e-7, 1e-9 }))(t)
	none, err := train(func(*Config) {})
	must.True(t, err == nil && problems.Relative(small.Problems[0].W, none.Problems[0].W) <= 1e-4, "a vanishing penalty: %v, without %v, %v", small.Problems[0].W, none.Problems[0].W, err)
	rough, err := train(func(c *Config) { c.Bound, c.L1, c.Tol = "quadratic-noising", 1, 1e-8 })
	must.True(t, err == nil && rough.Converged && math.IsInf(rough.Gap, 1), "not convex: %+v, %v", rough, err)
	again, err := train(func(c *Config) { c.Bound, c.L1, c.Tol, c.Threads = "quadratic-noising", 1, 1e-8, 3 })
	must.True(t, err == nil && again.Objective == rough.Objective, "with three threads: %v against %v, %v", again, rough.Objective, err)
	for name, set := range map[string]func(c *Config){
		"negative":             func(c *Config) { c.L1 = -1 },
		"hinge without deaths": func(c *Config) { c.Loss, c.Noise, c.L1 = "hinge", "silent:0.5", 1 },
		"hinge without noise":  func(c *Config) { c.Loss, c.Noise, c.L1 = "hinge", "none", 1 },
		"t-logistic":           func(c *Config) { c.Loss, c.Noise, c.L1 = "t-logistic:1.5", "none", 1 },
		"newton":               func(c *Config) { c.Solver, c.L1 = Newton, 1 },
	} {
		must.Fails(t, must.Err(train(set)), name, "passed")
	}
}

// TestLassoGap checks the certificate in two cases. In the first case, only the unpenalized intercept is not optimal.
// In the second case, a weight is not optimal.
func TestLassoGap(t *testing.T) {
	x, y := problems.Gaussian(12, 50, 3, false)
	d := denseData(t, x, y)
	for _, l1 := range []float64{2, 1000} { // the second value does not move the intercept
		c := DefaultConfig()
		c.Noise, c.L2, c.L1, c.Tol = "dropout:0.3", 0, l1, 1e-10
		fit := must.Get(Train(t.Context(), d, c))(t)
		build, _ := must.Get2(c.objective(loss.Dropout{Q: 0.3}))(t)
		b := must.Get(c.Subproblems(d))(t)
		smooth := must.Get(build(d, b[0], c))(t)
		for _, step := range []float64{1e-6, 0.01, 0.5, 3} {
			for j := range smooth.Dim() {
				o := must.Get(newLasso(smooth, d, b[0], c, loss.Dropout{Q: 0.3}))(t)
				w, grad := slices.Clone(fit.Problems[0].W), make([]float64, o.Dim())
				w[j] += step
				value := o.ValueGrad(w, grad)
				gap := o.gap(w, grad, value)
				must.True(t, gap >= value-fit.Objective-1e-9*value, "l1 %g, parameter %d off by %g: the gap %g is below %g", l1, j, step, gap, value-fit.Objective)
			}
		}
	}
}
