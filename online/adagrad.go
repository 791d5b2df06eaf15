package online

import (
	"math"
	"slices"

	"blankout"
)

// adagrad divides each coordinate's step by the root of the sum of its squared
// gradients, this one included (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
//
// An event's step is proximal (implicit updates, Kulis & Bartlett 2010): it goes
// to where the loss and the distance in the metric are least together. Along
// the step every unit of -df moves the score by
//
//	kappa = eta sum x^2/(sqrt(start + G) + eps),
//
// so the rates are multiplied by the share s of df for which s df is the
// derivative at f - s df kappa. That is far from 1 where an event has many
// features that are new, as texts have: there the plain step overshoots. With
// several outputs, which all share a row, it is left out: the sums would cost as
// much as the step.
type adagrad struct{ plain }

const adagradEps = 1e-8

func (adagrad) step(l *Learner) {
	now := &l.now
	c := adagradConstants{l.config.Start, adagradEps, l.inverse}
	ridge, root := now.ridge, math.Sqrt(l.growth)
	if root != 1 {
		// With gradients times the root of growth the step is the same, and what is
		// added to the metric grows by growth.
		c.start, c.eps = c.start*l.growth, c.eps*root
		for j := range now.df {
			now.df[j] *= root
			now.shrink[j] *= root
		}
		now.faded = append(now.faded[:0], now.ridge...)
		for i := range now.faded {
			now.faded[i] *= root
		}
		ridge = now.faded
	}
	temper := l.k == 1 && l.config.Adapt
	if l.n > 1 {
		if temper {
			clear(now.kappa)
			temperRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, ridge, now.df, now.shrink, now.kappa, &c)
			l.temper(root)
		}
		adagradRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, ridge, now.df, now.shrink, now.minusEta, &c)
		return
	}
	n := len(now.rows)
	now.gradients, now.roots = slices.Grow(now.gradients[:0], n)[:n], slices.Grow(now.roots[:0], n)[:n]
	g, r := now.gradients, now.roots
	gradients1(now.rows, blankout.ScalerWidth, now.x, now.basis, ridge, now.df[0], now.shrink[0], c.start, g, r)
	kappa := inverseRoots(r, now.x, c.eps)
	if temper {
		now.kappa[0] = kappa
		l.temper(root)
	}
	adagradRows1(now.rows, blankout.ScalerWidth, g, r, now.minusEta[0], c.inverse)
}

// temper multiplies the rates by the share of a step that does not overshoot;
// kappa comes divided by root, and df multiplied by it.
func (l *Learner) temper(root float64) {
	now := &l.now
	for j, k := range now.kappa {
		now.minusEta[j] *= l.share(j, now.df[j]/root, -now.minusEta[j]*k*root)
	}
}

const (
	// A step that moves the score by less is short enough for the curvature at its
	// beginning to tell where it ends.
	shortStep = 0.1
	// The share is found to this part of it.
	shareTolerance = 0.01
)

// share solves s df = df(f - s df kappa), of which there is one solution in
// [0, 1] where the loss is convex, by Newton's method between bounds.
func (l *Learner) share(j int, df, kappa float64) float64 {
	now := &l.now
	s := 1 / (1 + max(now.h[j], 0)*kappa)
	if math.Abs(df)*kappa < shortStep {
		return s
	}
	v := l.variance(&l.levels[j/l.k], j, j%l.k)
	low, high := 0.0, 1.0
	for range 20 {
		_, d, dv := l.loss.At(now.y[j], now.f[j]-s*df*kappa, v)
		over := s - now.importance*d/df
		if math.Abs(over) <= shareTolerance*s {
			break
		}
		if over > 0 {
			high = s
		} else {
			low = s
		}
		if s -= over / (1 + 2*now.importance*dv*kappa); !(s > low && s < high) {
			s = (low + high) / 2
		}
	}
	return s
}

// unlabelled adds h x^2, the expected square of a gradient.
func (adagrad) unlabelled(l *Learner) {
	for i, row := range l.now.rows {
		m := row[blankout.ScalerWidth+l.n:]
		for j, h := range l.now.h {
			m[j] += l.growth * h * l.now.x[i] * l.now.x[i]
		}
	}
}
