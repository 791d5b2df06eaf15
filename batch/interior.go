package batch

// This file has the interior point method, for the hinge loss without noise and few columns.

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// interior minimizes the hinge loss without noise, the ordinary support vector machine, by a primal-dual interior-point
// method. The objective has kinks everywhere, so Newton's method on a smoothed objective converges poorly beyond a few
// digits. Here every row has its dual variable p in (0, 1) and slacks
//
//	s = xi - z > 0,  z = ell - y f,  xi > 0,
//
// and Newton's method solves the conditions
//
//	R (w - c) = sum m p y x,  p s = mu,  (1 - p) xi = mu,  mu -> 0.
//
// Eliminating all variables except w leaves the matrix R + sum m theta x x' with theta = 1/(xi/(1-p) + s/p). The matrix
// is formed and factorized, so the method is for few columns. Mehrotra's predictor and corrector (1992) choose mu and
// the second-order terms, with two right-hand sides per factorization. The dual variables p are always feasible and
// give the certificate.
func (s *solver) interior(ctx context.Context, o *Expected, ell float64) error {
	n := len(o.f)
	buf := make([]float64, 6*n)
	t := &interior{s: s, o: o, ell: ell, step: make([]float64, s.dim),
		xi: buf[:n], slack: buf[n : 2*n], p: buf[2*n : 3*n], df: buf[3*n : 4*n], dpds: buf[4*n : 5*n], dpdxi: buf[5*n:]}
	o.scores(s.w)
	t.rows(func(i int) {
		z := ell - o.p.Y[i]*o.f[i]
		t.xi[i] = max(z, 0) + ell
		t.slack[i] = t.xi[i] - z
		t.p[i] = 0.5
	})
	stalled := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := t.iterate()
		if err != nil {
			return err
		}
		s.iterations++
		t.rows(func(i int) { o.df[i] = -o.p.Y[i] * t.p[i] })
		var value float64
		s.gap, value = o.interiorGap(s.w, ell)
		if s.value == value {
			stalled++
		}
		s.value = value
		stop, err := s.stop(ctx)
		if stop || err != nil {
			return err
		}
		if stalled > 3 || now < 1e-18*ell {
			return nil
		}
	}
}

// interior is the state of the interior point method.
type interior struct {
	s                *solver
	o                *Expected
	ell              float64
	xi, slack, p, df []float64 // values by row; df has the change of z
	// dpds and dpdxi are the second-order terms dp ds and dp dxi of the predictor. A full Newton step ignores these
	// terms.
	dpds, dpdxi []float64
	step        []float64
	mu          float64
	factor      *mat.Cholesky
}

// rows calls f for every row with positive weight, on several threads.
func (t *interior) rows(f func(i int)) { t.o.eachView(func(_, i int) { f(i) }) }

// mean returns the mean of f over the rows with positive weight, summed in a fixed order.
func (t *interior) mean(f func(i int) float64) float64 {
	var count [1]float64
	total := t.o.sumViews(count[:], func(i int, count []float64) float64 {
		count[0]++
		return f(i)
	})
	return total / count[0]
}

// residuals returns the residuals r1 and r2 of the two complementarity conditions for row i.
func (t *interior) residuals(i int) (r1, r2 float64) {
	return t.mu - t.p[i]*t.slack[i] - t.dpds[i], t.mu - (1-t.p[i])*t.xi[i] + t.dpdxi[i]
}

// change returns the changes of row i's variables along the current step.
func (t *interior) change(i int) (dp, dxi, ds float64) {
	r1, r2 := t.residuals(i)
	dp = t.o.ff[i] * (t.df[i] - r2/(1-t.p[i]) + r1/t.p[i])
	dxi = (r2 + t.xi[i]*dp) / (1 - t.p[i])
	return dp, dxi, dxi - t.df[i]
}

// solve computes step and writes the change of z to df. The changes of all other variables follow from step and df. It
// returns the fraction of the step that keeps all variables positive.
func (t *interior) solve() (float64, error) {
	o := t.o
	// The right-hand side is the gradient, computed with the p that the complementarity conditions predict.
	t.rows(func(i int) {
		r1, r2 := t.residuals(i)
		t.df[i] = -o.p.Y[i] * (t.p[i] + o.ff[i]*(r1/t.p[i]-r2/(1-t.p[i])))
	})
	o.scatterAll(t.df, t.s.grad, t.s.w)
	if norm := norm2(t.s.grad); !finite(norm) {
		return 0, errNotFinite(math.NaN(), norm)
	}
	if err := solveFactored(t.factor, t.s.grad, t.step); err != nil {
		return 0, err
	}
	o.setPair(t.step, t.step)
	o.pass()
	db := o.bias(t.step)
	longest := make([]float64, len(o.sum.partial)) // by group, the largest ratio of a full step to its distance from a bound
	o.eachView(func(g, i int) {
		a, _, _, _ := o.gather(i, rowBuffer{})
		t.df[i] = -o.p.Y[i] * (a + db)
		dp, dxi, ds := t.change(i)
		longest[g] = max(longest[g], -dp/t.p[i], dp/(1-t.p[i]), -dxi/t.xi[i], -ds/t.slack[i])
	})
	return 1 / max(slices.Max(longest), 1e-300), nil
}

// iterate makes one predictor-corrector step. It returns the complementarity gap before the step.
func (t *interior) iterate() (now float64, err error) {
	o := t.o
	t.rows(func(i int) {
		o.ff[i], o.fv[i], o.vv[i] = 1/(t.xi[i]/(1-t.p[i])+t.slack[i]/t.p[i]), 0, 0
		t.dpds[i], t.dpdxi[i] = 0, 0
	})
	o.hasSecond, o.majorise = true, false
	copy(o.w, t.s.w)
	if t.factor, err = factorize(o.dense()); err != nil {
		return 0, err
	}
	// Predictor: the pure Newton step, and its largest feasible length.
	t.mu = 0
	length, err := t.solve()
	if err != nil {
		return 0, err
	}
	length = min(length, 1)
	now = t.mean(func(i int) float64 { return 0.5 * (t.p[i]*t.slack[i] + (1-t.p[i])*t.xi[i]) })
	then := t.mean(func(i int) float64 {
		dp, dxi, ds := t.change(i)
		return 0.5 * ((t.p[i]+length*dp)*(t.slack[i]+length*ds) + (1-t.p[i]-length*dp)*(t.xi[i]+length*dxi))
	})
	t.rows(func(i int) {
		dp, dxi, ds := t.change(i)
		t.dpds[i], t.dpdxi[i] = dp*ds, dp*dxi
	})
	// Corrector step: choose mu by Mehrotra's rule.
	ratio := max(then/now, 0)
	t.mu = now * ratio * ratio * ratio
	if length, err = t.solve(); err != nil {
		return 0, err
	}
	length = min(1, length*max(0.9, 1-t.mu/now))
	length = min(length, 0.9999)
	t.rows(func(i int) {
		dp, dxi, _ := t.change(i)
		t.p[i] = min(max(t.p[i]+length*dp, 1e-300), 1-1e-16)
		o.f[i] -= length * t.df[i] * o.p.Y[i] // y is -1 or +1
		t.xi[i] = max(t.xi[i]+length*dxi, 1e-300)
		t.slack[i] = max(t.xi[i]-(t.ell-o.p.Y[i]*o.f[i]), 1e-300)
	})
	for d, v := range t.step {
		t.s.w[d] += length * v
	}
	return now, nil
}

// interiorGap returns the duality gap of w, and J(w). The dual point must be in o.df and the scores in o.f.
func (o *Expected) interiorGap(w []float64, ell float64) (gap, value float64) {
	gap = o.dualGap(w, func(i int, theta float64) float64 {
		z := ell - o.p.Y[i]*o.f[i]
		return max(z, 0) + theta*o.df[i]*o.p.Y[i]*z
	})
	return gap, o.lossAtScores() + o.p.Penalty.ValueGrad(w, nil)
}

// scatterAll writes R (w - c) + sum m df x to out.
func (o *Expected) scatterAll(df, out, w []float64) {
	o.passes++
	o.sumViews(o.total, func(i int, acc []float64) float64 {
		o.scatter(acc, i, rowGradient{x: o.m[i] * df[i], one: o.m[i] * df[i]}, nil)
		return 0
	})
	o.unpack(o.total, w, out, nil)
	o.p.Penalty.ValueGrad(w, out)
}
