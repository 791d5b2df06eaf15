package batch

// This file holds the interior point method, for the hinge loss without noise where
// columns are few.

import (
	"context"
	"math"
	"slices"
)

// interior minimises the hinge loss without noise, the ordinary support vector
// machine, by a primal-dual interior-point method. Its objective has kinks
// everywhere, so smoothing it for Newton's method converges badly beyond a few
// digits; here every row carries its dual variable p in (0, 1) and slacks
//
//	s = xi - z > 0,  z = ell - y f,  xi > 0,
//
// and Newton's method runs on the conditions
//
//	R (w - c) = sum m p y x,  p s = mu,  (1 - p) xi = mu,  mu -> 0.
//
// Eliminating all but w leaves the matrix R + sum m theta x x' with
// theta = 1/(xi/(1-p) + s/p), which is formed and factorised: the method is for few
// columns. mu and the second-order terms are chosen by Mehrotra's predictor and
// corrector (1992), two right-hand sides for one factorisation. p is dual feasible
// all the time and gives the certificate.
func (s *solver) interior(ctx context.Context, o *Expected, ell float64) error {
	n := len(o.f)
	buf := make([]float64, 4*n)
	xi, slack, p, df := buf[:n], buf[n:2*n], buf[2*n:3*n], buf[3*n:]
	rows := func(f func(i int)) {
		o.sum.Each(func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				if o.m[i] != 0 {
					f(i)
				}
			}
		})
	}
	mean := func(f func(i int) float64) float64 { // over the rows in use, in fixed order
		count := 0.0
		total := o.sum.Sum(nil, func(lo, hi int, _ []float64) float64 {
			sum := 0.0
			for i := lo; i < hi; i++ {
				if o.m[i] != 0 {
					sum += f(i)
				}
			}
			return sum
		})
		for _, m := range o.m {
			if m != 0 {
				count++
			}
		}
		return total / count
	}
	o.scores(s.w)
	rows(func(i int) {
		z := ell - o.p.Y[i]*o.f[i]
		xi[i] = max(z, 0) + ell
		slack[i] = xi[i] - z
		p[i] = 0.5
	})
	step := make([]float64, s.dim)
	// The predictor's second-order terms dp ds and dp dxi that a full step
	// would leave behind.
	dpds, dpdxi := make([]float64, n), make([]float64, n)
	stalled := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows(func(i int) {
			o.ff[i], o.fv[i], o.vv[i] = 1/(xi[i]/(1-p[i])+slack[i]/p[i]), 0, 0
			dpds[i], dpdxi[i] = 0, 0
		})
		o.curved, o.majorise = true, false
		copy(o.w, s.w)
		factor, err := factorise(o.dense())
		if err != nil {
			return err
		}
		mu := 0.0
		residuals := func(i int) (r1, r2 float64) {
			return mu - p[i]*slack[i] - dpds[i], mu - (1-p[i])*xi[i] + dpdxi[i]
		}
		change := func(i int) (dp, dxi, ds float64) {
			r1, r2 := residuals(i)
			dp = o.ff[i] * (df[i] - r2/(1-p[i]) + r1/p[i])
			dxi = (r2 + xi[i]*dp) / (1 - p[i])
			return dp, dxi, dxi - df[i]
		}
		// solve fills step, and df with the change of z; the change of the
		// others follows from it. It returns how much of the step leaves all
		// of them positive.
		solve := func() (float64, error) {
			// The right-hand side is a gradient with p moved by what the
			// complementarity conditions ask for.
			rows(func(i int) {
				r1, r2 := residuals(i)
				df[i] = -o.p.Y[i] * (p[i] + o.ff[i]*(r1/p[i]-r2/(1-p[i])))
			})
			o.scatterAll(df, s.grad, s.w)
			if norm := norm2(s.grad); !finite(norm) {
				return 0, errNotFinite(math.NaN(), norm)
			}
			if err := solveFactored(factor, s.grad, step); err != nil {
				return 0, err
			}
			o.setPair(step, step)
			o.pass()
			db := o.bias(step)
			longest := make([]float64, len(o.sum.partial))
			o.sum.Each(func(g, lo, hi int) {
				shrink := 0.0 // the largest part of a distance to its bound that a full step uses
				for i := lo; i < hi; i++ {
					if o.m[i] != 0 {
						a, _, _ := o.gather(i, rowBuffer{})
						df[i] = -o.p.Y[i] * (a + db)
						dp, dxi, ds := change(i)
						shrink = max(shrink, -dp/p[i], dp/(1-p[i]), -dxi/xi[i], -ds/slack[i])
					}
				}
				longest[g] = shrink
			})
			return 1 / max(slices.Max(longest), 1e-300), nil
		}
		// Predictor: the pure Newton step, and how far it gets.
		t, err := solve()
		if err != nil {
			return err
		}
		t = min(t, 1)
		now := mean(func(i int) float64 { return 0.5 * (p[i]*slack[i] + (1-p[i])*xi[i]) })
		then := mean(func(i int) float64 {
			dp, dxi, ds := change(i)
			return 0.5 * ((p[i]+t*dp)*(slack[i]+t*ds) + (1-p[i]-t*dp)*(xi[i]+t*dxi))
		})
		rows(func(i int) {
			dp, dxi, ds := change(i)
			dpds[i], dpdxi[i] = dp*ds, dp*dxi
		})
		// Corrector.
		ratio := max(then/now, 0)
		mu = now * ratio * ratio * ratio
		if t, err = solve(); err != nil {
			return err
		}
		t = min(1, t*max(0.9, 1-mu/now))
		t = min(t, 0.9999)
		rows(func(i int) {
			dp, dxi, _ := change(i)
			p[i] = min(max(p[i]+t*dp, 1e-300), 1-1e-16)
			o.f[i] -= t * df[i] * o.p.Y[i] // y^2 = 1
			xi[i] = max(xi[i]+t*dxi, 1e-300)
			slack[i] = max(xi[i]-(ell-o.p.Y[i]*o.f[i]), 1e-300)
		})
		for d, v := range step {
			s.w[d] += t * v
		}
		s.iterations++
		rows(func(i int) { o.df[i] = -o.p.Y[i] * p[i] })
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

// interiorGap returns the duality gap of w and the dual point in o.df, at the
// scores o.f, and J(w).
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
	o.sum.Sum(o.total, func(lo, hi int, acc []float64) float64 {
		for i := lo; i < hi; i++ {
			if o.m[i] != 0 {
				o.scatter(acc, i, o.m[i]*df[i], 0, nil)
			}
		}
		return 0
	})
	o.unpack(o.total, w, out, nil)
	o.p.Penalty.ValueGrad(w, out)
}
