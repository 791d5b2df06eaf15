package batch

// This file chooses special methods for losses without noise.

import (
	"context"
	"slices"

	"blankout/internal/loss"
)

// Minimize implements Minimizer. It minimizes the hinge loss without noise. It also minimizes the logistic loss without
// noise, in the dual, if that problem is well conditioned. For regression it starts from the best constant, because a
// Huber loss has no curvature far from all targets.
func (o *Expected) Minimize(ctx context.Context, opt Options) (*Result, error) {
	newton := opt.Solver == Newton || opt.Solver == ""
	if y, ok := o.constant(); ok {
		r := &Result{make([]float64, o.dim), Solution{Converged: true}}
		r.W[o.columns] = y
		r.Objective = o.ValueGrad(r.W, nil)
		r.Passes = o.passes
		return r, nil
	}
	switch {
	case opt.Solver == SMO:
		s := newSolver(o, opt)
		if err := s.smo(ctx, o); err != nil {
			return nil, err
		}
		return s.result(), nil
	case newton && o.plainHinge() > 0:
		if opt.MaxIterations == 0 && !o.formable() { // number of epochs of coordinate descent; an epoch costs as much as a gradient
			opt.MaxIterations = 10_000
		}
		s := newSolver(o, opt)
		if err := s.hinge(ctx, o, o.plainHinge()); err != nil {
			return nil, err
		}
		return s.result(), nil
	case opt.Start != nil:
		return nil, nil
	case o.facts.Regression && o.FreeIntercept():
		opt.Start = make([]float64, o.dim)
		o.scores(opt.Start)
		opt.Start[o.columns] = o.center()
		return newSolver(o, opt).solve(ctx)
	case opt.Solver == "" && o.plainLogistic():
		s := newSolver(o, opt)
		done, err := s.logistic(ctx, o)
		if err == nil && !done {
			err = s.newton(ctx, o, false)
		}
		if err != nil {
			return nil, err
		}
		return s.result(), nil
	}
	return nil, nil
}

// hinge minimizes the hinge loss without noise by coordinate descent. If the result is not accurate enough and there
// are few columns, it continues with the interior point method.
func (s *solver) hinge(ctx context.Context, o *Expected, ell float64) error {
	epochs := s.opt.MaxIterations
	if o.formable() {
		epochs = min(epochs, 300) // costs about as much as the interior point method
	}
	start := slices.Clone(s.w)
	done, err := s.coordinate(ctx, o, ell, epochs)
	if done || err != nil || !o.formable() {
		return err
	}
	copy(s.w, start)
	return s.interior(ctx, o, ell)
}

// constant returns the common target of all rows if predicting this constant is optimal. This requires losses that are
// at least 0 and equal 0 at the target. It also requires an intercept without a penalty. A quantile loss has no
// curvature at such a point, so Newton's system would be singular.
func (o *Expected) constant() (y float64, ok bool) {
	if !o.facts.Regression || o.facts.Target != loss.Real || !o.FreeIntercept() || o.p.Penalty.Center != nil || o.free != nil {
		return 0, false
	}
	for i, at := range o.p.Y {
		switch {
		case !o.counts(i):
		case !ok:
			y, ok = at, true
		case at != y:
			return 0, false
		}
	}
	return y, ok
}
