package batch

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/loss"
	"blankout/internal/must"
)

func tLogistic(t *testing.T, tt float64, p Problem, prior Prior, lam float64) *TLogistic {
	t.Helper()
	loss := must.Get(loss.NewTLogistic(tt))(t)
	p.Loss = loss
	return must.Get(NewTLogistic(p, prior, lam))(t)
}

func TestGoldenTLogistic(t *testing.T) {
	problems.Cases(t, goldenData, "t-logistic", 9, func(t *testing.T, g *problems.Golden, c *problems.Case) {
		o := tLogistic(t, c.Params.T, Problem{Data: denseData(t, g.X, g.Y), Y: g.Y, Kappa: 1, Intercept: FreeIntercept}, StudentPrior, c.Params.Lam)
		r := must.Get(Solve(context.Background(), o, Options{Tol: 1e-7}))(t)
		must.True(t, math.Abs(r.Objective-c.Objective) <= 1e-8*c.Objective && r.Converged,
			"J %.12g, want %.12g, %d iterations, converged %v", r.Objective, c.Objective, r.Iterations, r.Converged)
		off := problems.Relative(r.W, append(append([]float64(nil), c.Weights...), c.Intercept))
		must.True(t, off <= 1e-5, "weights %.2g away", off)
	})
}

func TestTLogisticDerivatives(t *testing.T) {
	x, y := problems.Gaussian(31, 30, 5, true)
	d := denseData(t, x, y)
	r := rand.New(rand.NewPCG(1, 1))
	for _, prior := range []Prior{StudentPrior, L2Prior} {
		for _, noise := range []loss.Noise{nil, loss.Dropout{Q: 0.5}, loss.Gaussian{SD: 1}} {
			for _, intercept := range []Intercept{FreeIntercept, PenalizedIntercept, NoIntercept} {
				o := tLogistic(t, 1.7, Problem{Data: d, Y: y, Kappa: 0.6, Noise: noise, Intercept: intercept}, prior, 0.3)
				w := must.List(o.Dim(), func(int) float64 { return r.NormFloat64() })
				problems.CheckDerivatives(t, string(prior), o, w, 1e-7)
			}
		}
	}
}

// TestInfluencesFindWrongLabels trains on examples of which some have wrong labels. The influences of these examples
// must be small (Ding & Vishwanathan 2010, section 6). The wrong labels must mislead logistic regression.
func TestInfluencesFindWrongLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	var x [][]float64
	var y []float64
	wrong := map[int]bool{}
	for i := range 200 {
		label := float64(2*(i%2) - 1)
		x = append(x, []float64{2*label + 0.7*r.NormFloat64(), r.NormFloat64()})
		if i%10 == 3 {
			label = -label
			wrong[i] = true
		}
		y = append(y, label)
	}
	o := tLogistic(t, 1.9, Problem{Data: denseData(t, x, y), Y: y, Kappa: 1, Intercept: FreeIntercept}, StudentPrior, 0.1)
	opt := Options{Tol: 1e-6}
	res := must.Get(Solve(context.Background(), o, opt))(t)
	again, err := Solve(context.Background(), o, opt)
	must.True(t, err == nil && slices.Equal(again.W, res.W), "a second run differs (%v)", err)
	xi := o.Influences(res.W)
	order := make([]int, len(xi))
	for i := range order {
		order[i] = i
		must.Require(t, xi[i] > 0 && xi[i] <= 1, "influence %v", xi[i])
	}
	slices.SortFunc(order, func(a, b int) int { return must.Either(xi[a] < xi[b], -1, 1) })
	found := must.Count(len(wrong), func(i int) bool { return wrong[order[i]] })
	must.True(t, found >= len(wrong)-2, "of %d wrong labels %d are among the smallest influences", len(wrong), found)
}

func TestTLogisticBadInput(t *testing.T) {
	x, y := problems.Gaussian(33, 20, 3, false)
	d := denseData(t, x, y)
	l := must.Get(loss.NewTLogistic(1.5))(t)
	p := Problem{Data: d, Y: y, Loss: l, Kappa: 1, Intercept: FreeIntercept}
	for _, lam := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		must.Fails(t, must.Err(NewTLogistic(p, StudentPrior, lam)), "lam", lam, "passed")
	}
	must.Fails(t, must.Err(NewTLogistic(p, "cauchy", 1)), "an unknown prior passed")
	p.Loss = loss.LogisticChen{}
	must.Fails(t, must.Err(NewTLogistic(p, L2Prior, 1)), "another loss passed")
	for i := range x {
		x[i][0] *= 1e9
	}
	for name, labels := range map[string][]float64{"huge": y, "one class": constant(-1, len(y))} {
		p := Problem{Data: denseData(t, x, y), Y: labels, Kappa: 1, Intercept: FreeIntercept}
		o := tLogistic(t, 1.5, p, StudentPrior, 0.5)
		r, err := Solve(context.Background(), o, Options{Tol: 1e-6})
		if err != nil {
			continue
		}
		must.Finite(t, append(r.W, r.Objective), name, r)
	}
}
