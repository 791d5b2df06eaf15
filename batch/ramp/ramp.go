// Package ramp holds the ramp loss (Collobert et al. 2006), minimized by a sequence of
// convex problems.
package ramp

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"blankout/batch"
	"blankout/internal/loss"
)

// Objective is the objective of the support vector machine with the ramp loss (Collobert et al. 2006), with which Ding
// & Vishwanathan 2010 compare. The hinge loss is cut off at ell - s, so the loss does not increase further if y f is
// below s,
//
//	J(w) = (1/2)(w-c)'R(w-c) + kappa sum m_n min(h_n, ell - s),
//
// where h_n is the hinge or, under noise, an expected hinge loss. The function min is concave, so min(E h, ell - s) >=
// E min(h, ell - s). J is not convex. Minimize decreases J by majorization: an example beyond the cut counts as a
// constant, and the problem of the remaining examples is solved exactly. This repeats until no example crosses the cut.
// (The paper's concave-convex procedure majorizes an example beyond the cut by max(ell, y f) - s, which is never below
// that constant.) The start is the plain support vector machine if Options.Start is nil.
type Objective struct {
	cut  float64
	data *batch.Expected
	m    []float64 // kappa times importance
	now  []float64 // the same, but 0 for rows beyond the cut
}

// New returns the objective of a problem whose Loss is a hinge. The loss becomes flat at s < ell; Collobert et al. use
// values from -2 to 0.
func New(p batch.Problem, s float64) (*Objective, error) {
	ell := p.Loss.Facts().Margin
	if ell == 0 {
		return nil, fmt.Errorf("the ramp loss cuts off the hinge, not %v", p.Loss)
	}
	if !(s < ell) || math.IsInf(s, 0) {
		return nil, fmt.Errorf("the ramp loss becomes flat at s = %v, which must lie below the margin %v", s, ell)
	}
	data, err := batch.NewExpected(p)
	if err != nil {
		return nil, err
	}
	m := data.Weights()
	return &Objective{ell - s, data, m, make([]float64, len(m))}, nil
}

// Estimator returns the loss for a batch.Config. The number after its name is s, -1 by default.
func Estimator() batch.Estimator {
	return batch.Estimator{Name: "ramp", Bounds: []string{"", "gaussian", "chen"}, New: func(p batch.Problem, level string, c batch.Config) (batch.Objective, error) {
		s := -1.0
		if level != "" {
			var err error
			if s, err = strconv.ParseFloat(level, 64); err != nil || s-s != 0 {
				return nil, fmt.Errorf("loss ramp:%s: the level %q is not a number", level, level)
			}
		}
		p.Loss = loss.HingeGaussian{Ell: c.Ell}
		if c.Bound == "chen" {
			p.Loss = loss.HingeChen{Ell: c.Ell}
		}
		if c.L2 < 0 {
			p.Kappa *= 2 // as for the hinge
		}
		return New(p, s)
	}}
}

// Dim implements batch.Objective.
func (o *Objective) Dim() int { return o.data.Dim() }

// Passes returns the number of passes over the data.
func (o *Objective) Passes() int { return o.data.Passes() }

// ValueGrad implements batch.Objective. For an example exactly at the cut, it uses the gradient of the flat side.
func (o *Objective) ValueGrad(w, grad []float64) float64 {
	flat, _ := o.split(w)
	value := o.data.ValueGrad(w, grad)
	o.data.Weigh(o.m)
	return value + flat
}

// split sets the weight of every example beyond the cut to zero in o.data. It returns the total loss of these examples
// and their number.
func (o *Objective) split(w []float64) (flat float64, count int) {
	o.data.Weigh(o.m)
	losses := o.data.Losses(w, nil)
	copy(o.now, o.m)
	for i, m := range o.m {
		if m != 0 && losses[i] >= o.cut {
			o.now[i] = 0
			flat += m * o.cut
			count++
		}
	}
	o.data.Weigh(o.now)
	return flat, count
}

// Minimize implements batch.Minimizer.
func (o *Objective) Minimize(ctx context.Context, opt batch.Options) (*batch.Result, error) {
	if opt.Solver != "" {
		return nil, nil
	}
	defer o.data.Weigh(o.m)
	progress := opt.Progress
	total := &batch.Result{Solution: batch.Solution{Gap: math.Inf(1), Objective: math.Inf(1)}}
	if opt.Start != nil {
		total.W = append([]float64(nil), opt.Start...)
		total.Objective = o.ValueGrad(opt.Start, nil)
		o.split(opt.Start)
	}
	// A low accuracy is enough as long as examples cross the cut.
	tol := max(opt.Tol, 1e-3)
	for range 1000 {
		step := opt
		step.Solver, step.Start, step.Tol = "", total.W, tol
		if progress != nil {
			step.Progress = func(p batch.Progress) {
				p.Iteration += total.Iterations
				p.Gap = math.Inf(1) // the gap of this step's problem is not a gap of J
				progress(p)
			}
		}
		r, err := batch.Solve(ctx, o.data, step)
		if err != nil {
			return nil, err
		}
		total.Iterations += r.Iterations
		value := o.ValueGrad(r.W, nil)
		gain := total.Objective - value
		if gain > 0 {
			total.W, total.Objective = r.W, value
		}
		if !(gain > 0.1*tol*math.Abs(value)) {
			if tol <= opt.Tol {
				total.Converged = r.Converged
				break
			}
			tol = max(0.1*tol, opt.Tol)
		}
		if _, count := o.split(total.W); count == o.positive() {
			total.Converged = true
			break // all examples are beyond the cut, so J is constant
		}
	}
	total.Passes = o.data.Passes()
	return total, nil
}

// positive returns the number of examples whose weight is positive.
func (o *Objective) positive() int {
	n := 0
	for _, m := range o.m {
		if m != 0 {
			n++
		}
	}
	return n
}
