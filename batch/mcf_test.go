package batch

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/loss"
)

func TestGoldenMCF(t *testing.T) {
	for _, kind := range []MCFLoss{MCFExponential, MCFLogistic} {
		goldenCases(t, string(kind), 6, func(t *testing.T, g *goldenProblem, c *goldenCase) {
			d := denseData(t, g.X, g.Y)
			o, err := NewMCF(Problem{Data: d, Y: g.Y, Noise: c.noise(t), Kappa: 1, Intercept: FreeIntercept,
				Penalty: Ridge(d.Columns(), c.Params.Lam, FreeIntercept)}, kind)
			if err != nil {
				t.Fatal(err)
			}
			for _, solver := range []Solver{Newton, LBFGS} {
				r, err := Solve(context.Background(), o, Options{Solver: solver, Tol: 1e-13})
				if err != nil {
					t.Fatal(err)
				}
				want := append(append([]float64(nil), c.Weights...), c.Intercept)
				if off := relative(r.W, want); off > 1e-6 || math.Abs(r.Objective-c.Objective) > 1e-9*c.Objective || !(r.Gap <= 1e-12*c.Objective) {
					t.Errorf("%s: weights %.2g away, J %.12g, want %.12g, gap %.2g after %d iterations", solver, off, r.Objective, c.Objective, r.Gap, r.Iterations)
				}
			}
		})
	}
}

// checkDerivatives compares gradient, Hessian-vector product and diagonal with
// central differences at w.
func checkDerivatives(t *testing.T, what string, o Objective, w []float64, tol float64) {
	t.Helper()
	n := o.Dim()
	grad, up, down := make([]float64, n), make([]float64, n), make([]float64, n)
	at := func(d int, h float64, grad []float64) float64 {
		u := append([]float64(nil), w...)
		u[d] += h
		return o.ValueGrad(u, grad)
	}
	if a, b := o.ValueGrad(w, nil), o.ValueGrad(w, grad); a != b {
		t.Errorf("%s: value %v, with the gradient %v", what, a, b)
	}
	const h = 1e-5
	hv, second := o.(HessianVector)
	for d := range n {
		numeric := (at(d, h, up) - at(d, -h, down)) / (2 * h)
		if math.Abs(numeric-grad[d]) > tol*(1+norm2(grad)) {
			t.Errorf("%s: derivative %d is %v, by differences %v", what, d, grad[d], numeric)
		}
		if !second {
			continue
		}
		o.ValueGrad(w, make([]float64, n))
		v, out := make([]float64, n), make([]float64, n)
		v[d] = 1
		hv.HessVec(v, out)
		if g, ok := o.(Diagonaler); ok {
			diag := make([]float64, n)
			g.Diagonal(diag)
			if math.Abs(diag[d]-out[d]) > 1e-9*(1+math.Abs(out[d])) {
				t.Errorf("%s: diagonal %d is %v, by a product %v", what, d, diag[d], out[d])
			}
		}
		for e := range n {
			if want := (up[e] - down[e]) / (2 * h); math.Abs(out[e]-want) > tol*(1+norm2(out)) {
				t.Errorf("%s: second derivative %d, %d is %v, by differences %v", what, d, e, out[e], want)
			}
		}
	}
}

func TestMCFDerivatives(t *testing.T) {
	x, y := problems.Gaussian(21, 30, 5, true)
	d := denseData(t, x, y)
	r := rand.New(rand.NewPCG(1, 1))
	weight := make([]float64, len(y))
	for i := range weight {
		weight[i] = float64(r.IntN(3))
	}
	for _, kind := range []MCFLoss{MCFExponential, MCFLogistic} {
		for _, noise := range []loss.Noise{nil, loss.Dropout{Q: 0.3}, loss.Poisson{}, loss.Gaussian{SD: 0.5}} {
			for _, intercept := range []Intercept{FreeIntercept, PenalisedIntercept, NoIntercept} {
				o, err := NewMCF(Problem{Data: d, Y: y, Weight: weight, Noise: noise, Kappa: 0.7, Intercept: intercept,
					Penalty: Ridge(d.Columns(), 0.2, intercept), Threads: 2}, kind)
				if err != nil {
					t.Fatal(err)
				}
				w := make([]float64, o.Dim())
				for i := range w {
					w[i] = 0.5 * r.NormFloat64()
				}
				checkDerivatives(t, fmt.Sprint(kind, noise, intercept), o, w, 1e-6)
			}
		}
	}
}

// The closed form against the average loss of corrupted copies: the
// exponential one is the expectation, the logistic one lies above it.
func TestMCFIsTheExpectation(t *testing.T) {
	x, y := problems.Gaussian(22, 5, 3, true)
	d := denseData(t, x, y)
	w := []float64{0.3, -0.4, 0.5, 0.1}
	r := rand.New(rand.NewPCG(2, 2))
	for _, noise := range []loss.Noise{loss.Dropout{Q: 0.4}, loss.Poisson{}, loss.Gaussian{SD: 0.6}} {
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
		for k, kind := range []MCFLoss{MCFExponential, MCFLogistic} {
			o, err := NewMCF(Problem{Data: d, Y: y, Noise: noise, Kappa: 1, Intercept: FreeIntercept, Penalty: Ridge(3, 0, FreeIntercept)}, kind)
			if err != nil {
				t.Fatal(err)
			}
			got := o.ValueGrad(w, nil)
			if k == 0 && math.Abs(got-mean[0]) > 0.02*mean[0] || k == 1 && (got < mean[1]*0.995 || got > mean[1]*1.3) {
				t.Errorf("%s under %v: %v, mean over copies %v", kind, noise, got, mean[k])
			}
		}
	}
}

func TestMCFBadInput(t *testing.T) {
	ctx := context.Background()
	x, y := problems.Gaussian(23, 20, 3, false)
	d := denseData(t, x, y)
	p := Problem{Data: d, Y: y, Kappa: 1, Intercept: FreeIntercept, Penalty: Ridge(3, 0.1, FreeIntercept)}
	for name, noise := range map[string]loss.Noise{"laplace": loss.Laplace{B: 1}, "poisson of negatives": loss.Poisson{}} {
		q := p
		q.Noise = noise
		if _, err := NewMCF(q, MCFLogistic); err == nil {
			t.Errorf("%s passed", name)
		}
	}
	if _, err := NewMCF(p, "mcf"); err == nil {
		t.Error("an unknown loss passed")
	}
	q := p
	q.Weight = make([]float64, len(y))
	if _, err := NewMCF(q, MCFLogistic); err == nil {
		t.Error("no weight at all passed")
	}
	// Huge features and one class: an error or finite numbers.
	for i := range x {
		x[i][0] *= 1e8
	}
	for name, labels := range map[string][]float64{"huge": y, "one class": constant(1, len(y))} {
		for _, kind := range []MCFLoss{MCFExponential, MCFLogistic} {
			q := p
			q.Data, q.Y, q.Noise = denseData(t, x, y), labels, loss.Dropout{Q: 0.5}
			o, err := NewMCF(q, kind)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Solve(ctx, o, Options{Tol: 1e-6})
			if err != nil {
				continue
			}
			for _, w := range append(r.W, r.Objective) {
				if w-w != 0 {
					t.Fatalf("%s %s: %v", name, kind, r)
				}
			}
			if first := o.ValueGrad(make([]float64, o.Dim()), nil); r.Objective > first {
				t.Errorf("%s %s: %v is worse than %v at the start", name, kind, r.Objective, first)
			}
		}
	}
}

// The gap is a bound wherever the free intercept stands, for it is taken to its
// optimum first; where all labels are equal there is none, and no bound.
func TestMCFGap(t *testing.T) {
	x, y := problems.Gaussian(24, 40, 3, false)
	d := denseData(t, x, y)
	for _, kind := range []MCFLoss{MCFExponential, MCFLogistic} {
		p := Problem{Data: d, Y: y, Noise: loss.Dropout{Q: 0.3}, Kappa: 1, Intercept: FreeIntercept, Penalty: Ridge(3, 0.5, FreeIntercept), Threads: 1}
		o, err := NewMCF(p, kind)
		if err != nil {
			t.Fatal(err)
		}
		best := solve(t, o, Options{Tol: 1e-10})
		want := slices.Clone(best.W)
		for _, off := range []float64{-2, -0.1, 0.5, 3} {
			// Only the intercept is off: once it is back, next to nothing is missing.
			w := slices.Clone(best.W)
			w[3] += off
			if gap := o.Gap(w); !(gap <= 1e-6*best.Objective) {
				t.Errorf("%s: a gap of %v of %v with the intercept off by %v", kind, gap, best.Objective, off)
			}
			if math.Abs(w[3]-want[3]) > 1e-4 {
				t.Errorf("%s: the intercept goes to %v, want %v", kind, w[3], want[3])
			}
			w[0] += off
			gap := o.Gap(w)
			if missing := o.ValueGrad(w, nil) - best.Objective; !(gap >= missing-1e-12) {
				t.Errorf("%s: a gap of %v where %v is missing", kind, gap, missing)
			}
		}
		p.Y = constant(1, len(y))
		if o, err = NewMCF(p, kind); err != nil {
			t.Fatal(err)
		}
		if gap := o.Gap(make([]float64, o.Dim())); !math.IsInf(gap, 1) {
			t.Errorf("%s: a gap of %v with one class", kind, gap)
		}
	}
}
