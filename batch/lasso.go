package batch

// This file adds the L1 penalty, Chen et al.'s equation 1 with Omega(w) = |w|_1, to the L2 penalty.

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"blankout/internal/loss"
)

// lasso is a smooth Objective plus l1 |w|_1; the intercept is not penalized. It is minimized by L-BFGS in one orthant
// after another (Andrew & Gao 2007).
type lasso struct {
	Objective
	l1       float64
	weights  int     // number of parameters before the intercept
	largest  float64 // largest absolute value of a feature
	reach    float64 // 1/(kappa m), where m is the smallest importance of the rows that bound the intercept
	bounded  bool    // whether gaps can be computed
	pseudo   []float64
	lowest   float64 // lower bound of the objective
	gradient []float64
}

// newLasso adds the L1 penalty to o, the objective of a problem under noise.
func newLasso(o Objective, d *Data, b Subproblem, c Config, noise loss.Noise) (*lasso, error) {
	if _, ok := o.(HessianVector); !ok {
		return nil, fmt.Errorf("loss %s has no second derivatives, which --l1 needs", c.Loss)
	}
	if k, ok := o.(*Expected); ok && k.Kinked() {
		switch noise.(type) {
		case loss.Silent:
			return nil, fmt.Errorf("loss %s has kinks where nothing has died, which --l1 is not solved for: take a loss such as squared-hinge", c.Loss)
		case loss.NoNoise:
			return nil, fmt.Errorf("loss %s without noise has kinks, which --l1 is not solved for: take noise, or a loss such as squared-hinge", c.Loss)
		}
	}
	l := &lasso{Objective: o, l1: c.L1, weights: d.Columns(), pseudo: make([]float64, o.Dim()), gradient: make([]float64, o.Dim()), lowest: math.Inf(-1)}
	convex, ok := o.(interface{ IsConvex() bool })
	factor := 1.0
	if e, ok := o.(*Expected); ok {
		factor = e.facts.Cost
	}
	kappa, _ := c.Penalization(factor)
	// heaviest has the largest row importance of each label.
	var heaviest [2]float64
	for i, y := range b.Y {
		side := 0
		if y > 0 {
			side = 1
		}
		heaviest[side] = max(heaviest[side], d.importance(b.Weight, i))
		row := d.Row(i)
		for j := range row.Index {
			l.largest = max(l.largest, math.Abs(row.At(j)))
		}
	}
	l.reach = 1 / (kappa * min(heaviest[0], heaviest[1]))
	if e, ok := o.(*Expected); ok {
		l.reach *= float64(len(e.views)) // one of the views is the complete row
	}
	l.bounded = ok && convex.IsConvex() && d.Schema.Target == loss.Sign && !math.IsInf(l.reach, 0)
	return l, nil
}

// ValueGrad returns the value of the objective, and writes the gradient of its smooth part.
func (o *lasso) ValueGrad(w, grad []float64) float64 {
	value := o.Objective.ValueGrad(w, grad)
	for _, x := range w[:o.weights] {
		value += o.l1 * math.Abs(x)
	}
	return value
}

// descend writes the pseudo-gradient (Andrew & Gao 2007) to out and returns its norm. The negative pseudo-gradient is
// the direction of steepest descent. In this direction a weight of 0 moves to the side where the value decreases.
func (o *lasso) descend(w, grad, out []float64) float64 {
	copy(out, grad)
	for j, x := range w[:o.weights] {
		switch g := grad[j]; {
		case x > 0 || x == 0 && g < -o.l1:
			out[j] = g + o.l1
		case x < 0 || x == 0 && g > o.l1:
			out[j] = g - o.l1
		default:
			out[j] = 0
		}
	}
	return norm2(out)
}

// gap bounds value - min J if the losses are convex and each loss is at least max(0, -y f) or its square root. Let g be
// the gradient of the smooth part and w* the minimizer. Then
//
//	J - J* <= sum_d (g_d w_d + l1 |w_d|) + max_d (|g_d| - l1)_+ |w*|_1 + |g_b| |b - b*|,
//
// where |w*|_1 <= J/l1, and b* keeps the loss of a row of either label below J.
func (o *lasso) gap(w, grad []float64, value float64) float64 {
	if !o.bounded {
		return math.Inf(1)
	}
	most := value / o.l1 // upper bound of |w*|_1
	gap, over := 0.0, 0.0
	for j, x := range w[:o.weights] {
		gap += grad[j]*x + o.l1*math.Abs(x)
		over = max(over, math.Abs(grad[j])-o.l1)
	}
	gap += over * most
	if len(w) > o.weights {
		gap += math.Abs(grad[o.weights]) * (math.Abs(w[o.weights]) + 2 + value*o.reach + most*o.largest)
	}
	o.lowest = max(o.lowest, value-gap)
	return max(value-o.lowest, 0)
}

// Minimize implements Minimizer.
func (o *lasso) Minimize(ctx context.Context, opt Options) (*Result, error) {
	opt.MaxIterations = cmp.Or(opt.MaxIterations, 10_000)
	n := o.Dim()
	r := &Result{W: make([]float64, n)}
	copy(r.W, opt.Start)
	grad, next, nextGrad, p := o.gradient, make([]float64, n), make([]float64, n), make([]float64, n)
	o.lowest = math.Inf(-1)
	value := o.ValueGrad(r.W, grad)
	first, least, lowest, stalled := -1.0, math.Inf(1), math.Inf(1), 0
	var bfgs curvature
	bfgs.diag = make([]float64, n)
	for i := range bfgs.diag {
		bfgs.diag[i] = 1
	}
	r.Passes = 1
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		norm := o.descend(r.W, grad, o.pseudo)
		if !finite(value) || !finite(norm) {
			return nil, errNotFinite(value, norm)
		}
		if first < 0 {
			first = norm
		}
		r.Objective, r.Gap = value, o.gap(r.W, grad, value)
		if opt.Progress != nil {
			opt.Progress(Progress{Problems: 1, Iteration: r.Iterations, Objective: value, Gap: r.Gap})
		}
		if stalled++; norm < 0.99*least || value < lowest-1e-12*math.Abs(value) {
			least, lowest, stalled = min(norm, least), value, 0
		}
		r.Converged = r.Gap <= opt.Tol*value || math.IsInf(r.Gap, 1) && norm <= opt.Tol*first
		if r.Converged || stalled > 100 || r.Iterations >= opt.MaxIterations {
			break
		}
		if d, ok := o.Objective.(HessianVector); ok && (r.Iterations == 10 || r.Iterations == 100 || r.Iterations == 300) {
			o.ValueGrad(r.W, grad) // moves to the point for Diagonal
			r.Passes++
			scales(d, bfgs.diag)
		}
		bfgs.direction(o.pseudo, norm, p)
		for j := range o.weights {
			if p[j]*o.pseudo[j] >= 0 {
				p[j] = 0 // the step would leave the orthant of the derivative
			}
		}
		r.Iterations++
		to, ok := o.search(r, p, next, nextGrad, value, norm)
		if !ok {
			if bfgs.pairs == nil {
				break // no step decreases the value, not even along the derivative
			}
			bfgs.pairs = nil
			continue
		}
		bfgs.remember(next, r.W, nextGrad, grad)
		copy(r.W, next)
		copy(grad, nextGrad)
		value = to
	}
	r.Gap += 1e-15 * math.Abs(value) // rounding of the objective
	return r, nil
}

// search tries shorter and shorter steps along p. It sets weights that would change their sign to 0. It accepts a step
// if the value decreases by a fraction of the decrease that the derivative predicts. If rounding hides the decrease, it
// accepts a step that reduces the norm of the derivative.
func (o *lasso) search(r *Result, p, next, nextGrad []float64, value, norm float64) (to float64, ok bool) {
	t, spare := 1.0, make([]float64, len(p))
	for range 50 {
		promised := 0.0
		for j, x := range r.W {
			next[j] = x + t*p[j]
			if side := x; j < o.weights {
				if side == 0 {
					side = -o.pseudo[j]
				}
				if next[j]*side <= 0 {
					next[j] = 0
				}
			}
			promised += o.pseudo[j] * (next[j] - x)
		}
		r.Passes++
		to = o.ValueGrad(next, nextGrad)
		near := to <= value+1e-14*math.Abs(value) && -promised <= 1e-10*math.Abs(value)
		if promised < 0 && (to <= value+1e-4*promised || near && o.descend(next, nextGrad, spare) < norm) {
			return to, true
		}
		t /= 2
	}
	return value, false
}
