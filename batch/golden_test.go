package batch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

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
	var b Builder
	eventtest.Add(t, &b, examples...)
	return b.Data(schema)
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
			if math.Abs(r.Objective-c.Objective) > objectiveTol*c.Objective {
				t.Errorf("%s: objective %.12g, want %.12g (%+v)", name, r.Objective, c.Objective, *r)
			}
			want := append(append([]float64(nil), c.Weights...), c.Intercept)
			if far := problems.Relative(r.W, want); far > weightTol {
				t.Errorf("%s: weights %.2g away; gap %g, %d iterations, J %.15g want %.15g", name, far, r.Gap, r.Iterations, r.Objective, c.Objective)
			}
			if testing.Verbose() {
				t.Logf("%s: %d iterations %d passes gap %.2g J-J* %.2g", name, r.Iterations, r.Passes, r.Gap, r.Objective-c.Objective)
			}
		}
	}
	if total != 187 {
		t.Errorf("%d cases, want 187", total)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []Solver{IRLS, Newton} {
				r := must.Get(Solve(context.Background(), o, Options{Solver: s, Tol: 1e-13, Start: c.StartWeights}))(t)
				name := fmt.Sprintf("%s %s %s", g.Problem, c.Params.Loss, s)
				if math.Abs(r.Objective-c.Objective) > 1e-9*c.Objective {
					t.Errorf("%s: objective %.12g, want %.12g", name, r.Objective, c.Objective)
				}
				if far := problems.Relative(r.W, append(append([]float64(nil), c.Weights...), c.Intercept)); far > 1e-6 {
					t.Errorf("%s: weights %.2g away", name, far)
				}
			}
		}
	}
	if total != 6 {
		t.Errorf("%d cases, want 6", total)
	}
}

func constant(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
