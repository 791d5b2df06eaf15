package optimizers

// This file has the optimizer adagrad.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/online/rows"
)

// adagrad divides each coordinate's step by the square root of the sum of its squared gradients, including the current
// one (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
//
// An event's step is proximal (implicit updates, Kulis & Bartlett 2010). It minimizes the loss plus the distance from
// the old weights in the metric of the preconditioner. Along the step, every unit of -df changes the score by
//
//	kappa = eta sum x^2/(sqrt(start + G) + eps),
//
// so the rates are multiplied by the fraction a in [0, 1] for which a df is the derivative at f - a df kappa. a is far
// below 1 if an event has many new features, as texts have, where the plain step overshoots. If there are several
// outputs, which all share a row, only steps of events with new features (rows.Step.NoOvershoot) are proximal.
// Otherwise the sums would cost as much as the step.
type adagrad struct {
	Plain
	// By noise level and output: kappa, and the fraction a, which is 1 if steps are not proximal.
	kappa, fraction []float64
	// decayed has the ridges for a decaying preconditioner, multiplied by root. For one output, gradients and roots
	// have the gradient and the inverse square root by row.
	decayed, gradients, roots []float64
	fused                     rows.Fused
}

// count returns how many weights of a row the optimizer may change.
func (c *Settings) count() int { return c.N - c.Left }

// NewAdagrad returns the optimizer adagrad.
func NewAdagrad(c Settings) Optimizer {
	return &adagrad{Plain: Plain{c}, kappa: make([]float64, c.count()), fraction: slices.Repeat([]float64{1}, c.count())}
}

// AdagradEps is added to the square root of an accumulator, by which AdaGrad divides its step.
const AdagradEps = 1e-8

func (r *adagrad) Step(s *rows.Step) {
	if r.count() == 0 {
		return
	}
	c := rows.AdagradConstants{Start: r.StartSum, Eps: AdagradEps}
	ridge, root := s.Ridge, math.Sqrt(s.InverseDecay)
	if root != 1 {
		// Multiplying gradients by the square root of InverseDecay does not change the step, and multiplies new terms
		// of the preconditioner by InverseDecay.
		c.Start, c.Eps = c.Start*s.InverseDecay, c.Eps*root
		s.Scale(root)
		r.decayed = append(r.decayed[:0], s.Ridge...)
		for i := range r.decayed {
			r.decayed[i] *= root
		}
		ridge = r.decayed
	}
	x, basis := s.X, s.Basis
	if r.N > 1 {
		if r.Proximal || s.NoOvershoot {
			fuses := rows.Fuses(r.count(), rows.FirstPart, r.N, len(s.Rows[0]))
			if r.shorten(s, ridge, root, &c, fuses); fuses {
				r.fused.Descend(s.Rows, rows.FirstPart, r.N, s.Rates)
				return
			}
		}
		for _, g := range s.Segments {
			rows.AdagradStep(s.Rows[g.From:g.To], rows.FirstPart, r.N, x[g.From:g.To], basis[g.From:g.To], ridge[g.From:g.To], g.DF[:r.count()], g.Shrink, s.Rates, &c)
		}
		return
	}
	n := len(s.Rows)
	r.gradients, r.roots = slices.Grow(r.gradients[:0], n)[:n], slices.Grow(r.roots[:0], n)[:n]
	for _, g := range s.Segments {
		rows.AdagradGradients1(s.Rows[g.From:g.To], rows.FirstPart, x[g.From:g.To], basis[g.From:g.To], ridge[g.From:g.To], g.DF[0], g.Shrink[0], c.Start, r.gradients[g.From:g.To], r.roots[g.From:g.To])
	}
	kappa := rows.InverseRoots(r.roots, x, c.Eps)
	r.fraction[0] = 1
	if r.Proximal || s.NoOvershoot {
		r.kappa[0] = kappa
		r.stepFractions(s, r.kappa, root, r.fraction)
	}
	s.MinusEta[0] *= r.fraction[0]
	rows.AdagradStep1(s.Rows, rows.FirstPart, r.gradients, r.roots, s.MinusEta[0], s.Inverse[0])
}

// shorten multiplies the rates by the fractions of a proximal step if there are several outputs or levels. If fuses is
// true, it also prepares the step.
func (r *adagrad) shorten(s *rows.Step, ridge []float64, root float64, c *rows.AdagradConstants, fuses bool) {
	clear(r.kappa)
	r.fused.Begin(len(s.Rows))
	for _, g := range s.Segments {
		of, x, basis, ridge := s.Rows[g.From:g.To], s.X[g.From:g.To], s.Basis[g.From:g.To], ridge[g.From:g.To]
		if fuses {
			r.fused.Gradients(g.From, of, rows.FirstPart, r.N, x, basis, ridge, g.DF, g.Shrink, r.kappa, c)
		} else {
			rows.AdagradKappa(of, rows.FirstPart, r.N, x, basis, ridge, g.DF[:r.count()], g.Shrink, r.kappa, c)
		}
	}
	r.stepFractions(s, r.kappa, root, r.fraction)
	for j, a := range r.fraction {
		s.MinusEta[j] *= a
	}
}

// stepFractions computes the fractions a of a proximal step, in fractions. The given kappa is kappa divided by root,
// and the derivatives in s are df multiplied by root.
func (r *adagrad) stepFractions(s *rows.Step, kappa []float64, root float64, fractions []float64) {
	for j, k := range kappa {
		fractions[j] = Fraction(r.Loss, s, j, s.DF[j]/root, -s.MinusEta[j]*k*root)
	}
}

const (
	// If a step changes the score by less than shortStep, the curvature at its start is accurate enough.
	shortStep = 0.1
	// stepTolerance is the relative tolerance of the fraction a.
	stepTolerance = 0.01
	// mostNewton is the number of steps of Newton's method. After these steps only bisection is used, because Newton's
	// method may alternate between two points at which the loss has almost no curvature.
	mostNewton = 6
)

// Fraction returns the fraction of a proximal step: the solution of a = df(f - a df kappa)/df for value j of a step.
func Fraction(l loss.Loss, s *rows.Step, j int, df, kappa float64) float64 {
	return SolveFraction(math.Abs(df)*kappa, max(s.H[j], 0)*kappa, func(a float64) (slope, curvature float64) {
		_, d, dv := l.At(s.Y[j], s.F[j]-a*df*kappa, s.Variance[j])
		return s.Importance * d / df, 2 * s.Importance * dv * kappa
	})
}

// SolveFraction returns the fraction a of a proximal step, the solution of a = slope(a), by Newton's method within
// bounds. slope(a) is the loss's derivative along the step, after the fraction a of the step, divided by that before the
// step. at returns it and its negative derivative, which is curvature before the step. The whole step changes the score
// by change. If the loss is convex, there is exactly one solution in [0, 1].
func SolveFraction(change, curvature float64, at func(a float64) (slope, curvature float64)) float64 {
	a := 1 / (1 + curvature)
	if change < shortStep {
		return a
	}
	low, high := 0.0, 1.0
	for i := range 20 {
		slope, curvature := at(a)
		over := a - slope
		if math.Abs(over) <= stepTolerance*a {
			break
		}
		if over > 0 {
			high = a
		} else {
			low = a
		}
		if a -= over / (1 + curvature); !(a > low && a < high) || i >= mostNewton {
			a = (low + high) / 2
		}
	}
	return a
}

// Unlabeled adds h x^2, the expected square of the gradient, to the accumulators.
func (r *adagrad) Unlabeled(s *rows.Step) {
	for i, row := range s.Rows {
		m := r.Accumulators(row)
		for j, h := range s.H {
			m[j] += s.InverseDecay * h * s.X[i] * s.X[i]
		}
	}
}
