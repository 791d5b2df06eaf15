package batch

import (
	"context"
	"math"
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
// theta = 1/(xi/(1-p) + s/p), which is formed and factorised for few columns and
// met by conjugate gradients otherwise, like any Hessian here. p is dual
// feasible all the time and gives the certificate.
func (s *solver) interior(ctx context.Context, o *Expected, ell float64) error {
	n := len(o.f)
	buf := make([]float64, 4*n)
	xi, slack, p, df := buf[:n], buf[n:2*n], buf[2*n:3*n], buf[3*n:]
	rows := func(f func(i int)) {
		o.sum.each(func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				if o.m[i] != 0 {
					f(i)
				}
			}
		})
	}
	mean := func(f func(i int) float64) float64 { // over the rows in use, in fixed order
		count := 0.0
		total := o.sum.sum(nil, func(lo, hi int, _ []float64) float64 {
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
	step, diag := make([]float64, s.dim), make([]float64, s.dim)
	cg := newCG(s.dim)
	sigma := 0.1
	for {
		mu := sigma * mean(func(i int) float64 { return 0.5 * (p[i]*slack[i] + (1-p[i])*xi[i]) })
		// The right-hand side is a gradient with p moved by what the
		// complementarity conditions ask for.
		rows(func(i int) {
			theta := 1 / (xi[i]/(1-p[i]) + slack[i]/p[i])
			r1, r2 := mu-p[i]*slack[i], mu-(1-p[i])*xi[i]
			o.ff[i], o.fv[i], o.vv[i] = theta, 0, 0
			df[i] = -o.p.Y[i] * (p[i] + theta*(r1/p[i]-r2/(1-p[i])))
		})
		o.curved, o.majorise = true, false
		o.scatterAll(df, s.grad, s.w)
		if !finite(norm2(s.grad)) {
			return errNotFinite(math.NaN(), norm2(s.grad))
		}
		copy(o.w, s.w)
		if err := s.direction(ctx, o, cg, diag, step, 0.01); err != nil {
			return err
		}
		o.setPair(step, step)
		o.passes++
		db := o.bias(step)
		// df becomes the change of z; the change of the others follows.
		rows(func(i int) {
			a, _ := o.gather(i)
			df[i] = -o.p.Y[i] * (a + db)
		})
		change := func(i int) (dp, dxi, ds float64) {
			r1, r2 := mu-p[i]*slack[i], mu-(1-p[i])*xi[i]
			dp = o.ff[i] * (df[i] - r2/(1-p[i]) + r1/p[i])
			dxi = (r2 + xi[i]*dp) / (1 - p[i])
			return dp, dxi, dxi - df[i]
		}
		t := 1.0
		longest := make([]float64, len(o.sum.partial))
		o.sum.each(func(g, lo, hi int) {
			shrink := 1.0 // the largest part of a distance to its bound that a full step uses
			for i := lo; i < hi; i++ {
				if o.m[i] != 0 {
					dp, dxi, ds := change(i)
					shrink = max(shrink, -dp/p[i], dp/(1-p[i]), -dxi/xi[i], -ds/slack[i])
				}
			}
			longest[g] = 1 / shrink
		})
		for _, l := range longest {
			t = min(t, l)
		}
		t = min(1, 0.99*t)
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
		// A short step means that the path was left: aim nearer to it.
		sigma = min(max(0.5*(1-t)*(1-t), 0.02), 0.5)
		s.iterations++
		rows(func(i int) { o.df[i] = -o.p.Y[i] * p[i] })
		var value float64
		s.gap, value = o.interiorGap(s.w, ell)
		stalled := s.value == value
		s.value = value
		stop, err := s.stop(ctx)
		if stop || err != nil {
			return err
		}
		if stalled || mu < 1e-18*ell {
			return nil
		}
	}
}

// interiorGap returns the duality gap of w and the dual point in o.df, at the
// scores o.f, and J(w).
func (o *Expected) interiorGap(w []float64, ell float64) (gap, value float64) {
	hinge := func(i int) float64 { return max(ell-o.p.Y[i]*o.f[i], 0) }
	gap = o.dualGap(w, func(i int, theta float64) float64 {
		return hinge(i) + theta*o.df[i]*o.p.Y[i]*(ell-o.p.Y[i]*o.f[i])
	})
	value = o.sum.sum(nil, func(lo, hi int, _ []float64) float64 {
		sum := 0.0
		for i := lo; i < hi; i++ {
			if o.m[i] != 0 {
				sum += o.m[i] * hinge(i)
			}
		}
		return sum
	})
	return gap, value + o.p.Penalty.valueGrad(w, nil)
}

// scatterAll writes R (w - c) + sum m df x to out.
func (o *Expected) scatterAll(df, out, w []float64) {
	o.passes++
	o.sum.sum(o.total, func(lo, hi int, acc []float64) float64 {
		for i := lo; i < hi; i++ {
			if o.m[i] != 0 {
				o.scatter(acc, i, o.m[i]*df[i], 0)
			}
		}
		return 0
	})
	o.unpack(o.total, w, out, nil)
	o.p.Penalty.valueGrad(w, out)
}
