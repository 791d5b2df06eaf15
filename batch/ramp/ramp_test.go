package ramp

import (
	"context"
	"math"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

func rampProblem(d *batch.Data, y []float64, noise loss.Noise) batch.Problem {
	return batch.Problem{Data: d, Y: y, Kappa: 2, Loss: loss.HingeGaussian{Ell: 1}, Noise: noise, Intercept: batch.FreeIntercept,
		Penalty: batch.Ridge(d.Columns(), 1, batch.FreeIntercept)}
}

func TestRamp(t *testing.T) {
	ctx := context.Background()
	x, y := problems.Gaussian(51, 200, 5, false)
	opt := batch.Options{Tol: 1e-10}
	for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}} {
		solve := func(x [][]float64, y []float64, s float64) (*Objective, *batch.Result) {
			o := must.Get(New(rampProblem(denseData(t, x, y), y, noise), s))(t)
			r := must.Get(batch.Solve(ctx, o, opt))(t)
			got := o.ValueGrad(r.W, nil)
			must.True(t, got == r.Objective && r.Converged, "J %v, stated %v; converged %v", got, r.Objective, r.Converged)
			return o, r
		}
		// If the cut is far away, the solution equals the support vector machine.
		plain := must.Get(batch.NewExpected(rampProblem(denseData(t, x, y), y, noise)))(t)
		svm := must.Get(batch.Solve(ctx, plain, opt))(t)
		_, far := solve(x, y, -1e6)
		must.True(t, math.Abs(far.Objective-svm.Objective) <= 1e-9*svm.Objective, "%v: J %v with the cut far away, the support vector machine has %v", noise, far.Objective, svm.Objective)
		// The ramp is the hinge with a cut, so J is below the hinge objective at the same weights.
		o, r := solve(x, y, -0.2)
		hinge := plain.ValueGrad(r.W, nil)
		must.True(t, r.Objective < hinge && r.Objective < svm.Objective, "%v: J %v, with the hinge %v, started from %v", noise, r.Objective, hinge, svm.Objective)
		_, count := o.split(r.W)
		must.True(t, count != 0, "%v: nothing lies beyond the cut", noise)
		off := append([]float64(nil), svm.W...) // the solution itself is at kinks
		for i := range off {
			off[i] *= 0.93
		}
		problems.CheckDerivatives(t, "ramp", o, off, 1e-5)
		// The solution must be a fixed point: a search that the caller starts there must return it.
		again := opt
		again.Start = r.W
		next, err := batch.Solve(ctx, o, again)
		must.True(t, err == nil && math.Abs(next.Objective-r.Objective) <= 1e-9*r.Objective, "%v: %v from its own answer %v (%v)", noise, next.Objective, r.Objective, err)
	}
	// A far outlier changes the hinge's solution but not the ramp's.
	o := must.Get(New(rampProblem(denseData(t, x, y), y, nil), -1))(t)
	before := must.Get(batch.Solve(ctx, o, opt))(t)
	for i, v := range before.W[:5] {
		x[0][i] = -60 * y[0] * v
	}
	o = must.Get(New(rampProblem(denseData(t, x, y), y, nil), -1))(t)
	opt.Start = before.W
	after := must.Get(batch.Solve(ctx, o, opt))(t)
	off := problems.Relative(after.W, before.W)
	must.True(t, off <= 0.05, "an outlier moves the weights by %v", off)
	must.Fails(t, must.Err(New(rampProblem(denseData(t, x, y), y, nil), 1)), "a cut at the margin passed")
	p := rampProblem(denseData(t, x, y), y, nil)
	p.Loss = loss.LogisticChen{}
	must.Fails(t, must.Err(New(p, 0)), "the logistic loss passed")
}

// denseData returns the Data of a matrix, see problems.Dense.
func denseData(t testing.TB, x [][]float64, y []float64) *batch.Data {
	examples, schema := problems.Dense(x, y)
	return eventtest.Data(t, new(batch.Builder), schema, examples...)
}
