package batch

// This file chooses the methods that losses without noise have of their own.

import (
	"context"
	"slices"

	"blankout/internal/loss"
)

// Minimize implements Minimizer: the hinge and, where it is well conditioned, the logistic
// loss without noise are minimized in the dual, and what learns numbers starts from the best
// constant, because far from all targets a loss of Huber has no curvature.
func (o *Expected) Minimize(ctx context.Context, opt Options) (*Result, error) {
	newton := opt.Solver == Newton || opt.Solver == ""
	if y, ok := o.constant(); ok {
		r := &Result{W: make([]float64, o.dim), Converged: true}
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
		if opt.MaxIterations == 0 && !o.formable() { // by epochs of coordinate descent, each as cheap as a gradient
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

// hinge minimizes the hinge loss without noise: by coordinate descent and, where
// the columns are few and that does not get close enough, by the interior point.
func (s *solver) hinge(ctx context.Context, o *Expected, ell float64) error {
	epochs := s.opt.MaxIterations
	if o.formable() {
		epochs = min(epochs, 300) // take about as long
	}
	start := slices.Clone(s.w)
	done, err := s.coordinate(ctx, o, ell, epochs)
	if done || err != nil || !o.formable() {
		return err
	}
	copy(s.w, start)
	return s.interior(ctx, o, ell)
}

// constant returns the target of all rows if they have one and it alone is the score of the minimum: the
// losses are at least 0 and 0 there, and no penalty holds the intercept. A quantile has no curvature then, and
// Newton's system is singular.
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
