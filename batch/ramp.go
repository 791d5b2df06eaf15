package batch

// This file holds the ramp loss, minimised by a sequence of convex problems.

import (
	"context"
	"fmt"
	"math"
)

// Ramp is the support vector machine with the ramp loss (Collobert et al.
// 2006), a comparator of Ding & Vishwanathan 2010: the hinge loss cut off at
// ell - s, so that an example further off than y f = s costs no more,
//
//	J(w) = (1/2)(w-c)'R(w-c) + kappa sum m_n min(h_n, ell - s),
//
// h_n the hinge or, under noise, an expected hinge loss: the minimum being
// concave, min(E h, ell - s) >= E min(h, ell - s). J is not convex. Solve descends
// by majorising: examples beyond the cut are taken for the constant they cost
// now, the others solved exactly; until none changes sides. (The concave-convex
// procedure of the paper majorises the former by max(ell, y f) - s, which is
// never below that constant.) It starts from the plain support vector machine
// unless Options.Start says otherwise.
type Ramp struct {
	cut  float64
	data *Expected
	m    []float64 // kappa times importance
}

// NewRamp returns the objective of a problem whose Loss is a hinge. s < ell is
// where the loss becomes flat; Collobert et al. take values from -2 to 0.
func NewRamp(p Problem, s float64) (*Ramp, error) {
	ell := p.Loss.Facts().Margin
	if ell == 0 {
		return nil, fmt.Errorf("the ramp loss cuts off the hinge, not %v", p.Loss)
	}
	if !(s < ell) || math.IsInf(s, 0) {
		return nil, fmt.Errorf("the ramp loss becomes flat at s = %v, which must lie below the margin %v", s, ell)
	}
	data, err := NewExpected(p)
	if err != nil {
		return nil, err
	}
	return &Ramp{ell - s, data, append([]float64(nil), data.m...)}, nil
}

// Dim implements Objective.
func (o *Ramp) Dim() int { return o.data.dim }

// StartSize implements Restarter.
func (o *Ramp) StartSize() float64 { return o.data.weightSize() }

// Passes returns how often the data have been read.
func (o *Ramp) Passes() int { return o.data.passes }

// ValueGrad implements Objective; at the cut the gradient is that of the flat side.
func (o *Ramp) ValueGrad(w, grad []float64) float64 {
	flat, _ := o.split(w)
	value := o.data.ValueGrad(w, grad)
	copy(o.data.m, o.m)
	return value + flat
}

// split gives every example beyond the cut the weight zero in o.data and
// returns what they cost together, and their number.
func (o *Ramp) split(w []float64) (flat float64, count int) {
	copy(o.data.m, o.m)
	o.data.scores(w)
	for i, m := range o.m {
		if m == 0 {
			continue
		}
		l, y := o.data.row(i)
		if h, _, _ := l.At(y, o.data.f[i], o.data.v[i]); h >= o.cut {
			o.data.m[i] = 0
			flat += m * o.cut
			count++
		}
	}
	return flat, count
}

// Minimise implements Minimiser.
func (o *Ramp) Minimise(ctx context.Context, opt Options) (*Result, error) {
	if opt.Solver != "" {
		return nil, nil
	}
	defer copy(o.data.m, o.m)
	progress := opt.Progress
	total := &Result{Gap: math.Inf(1), Objective: math.Inf(1)}
	if opt.Start != nil {
		total.W = append([]float64(nil), opt.Start...)
		total.Objective = o.ValueGrad(opt.Start, nil)
		o.split(opt.Start)
	}
	// While examples still change sides, a rough answer is enough.
	tol := max(opt.Tol, 1e-3)
	for range 1000 {
		step := opt
		step.Solver, step.Start, step.Tol = "", total.W, tol
		if progress != nil {
			step.Progress = func(p Progress) {
				p.Iteration += total.Iterations
				p.Gap = math.Inf(1) // of this step's problem, not of J
				progress(p)
			}
		}
		r, err := Solve(ctx, o.data, step)
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
			break // everything is beyond the cut: a constant
		}
	}
	total.Passes = o.data.passes
	return total, nil
}

// positive returns the number of examples that cost anything.
func (o *Ramp) positive() int {
	n := 0
	for _, m := range o.m {
		if m != 0 {
			n++
		}
	}
	return n
}
