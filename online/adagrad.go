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
// An event's step is proximal: it goes to where the loss, to second order in the
// score, and the distance in the metric are least together. To be added to the
// score for each unit of -df are
//
//	kappa = eta sum x^2/(sqrt(start + G) + eps),
//
// so the step is divided by 1 + h kappa, h being the loss's curvature (implicit
// updates, Kulis & Bartlett 2010). That is far from 1 where an event has many
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
	if temper {
		clear(now.kappa)
	}
	if l.n > 1 {
		if temper {
			temperRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, ridge, now.df, now.shrink, now.kappa, &c)
			now.temper(root)
		}
		adagradRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, ridge, now.df, now.shrink, now.minusEta, &c)
		return
	}
	n := len(now.rows)
	now.gradients, now.roots = slices.Grow(now.gradients[:0], n)[:n], slices.Grow(now.roots[:0], n)[:n]
	g, r := now.gradients, now.roots
	gradients1(now.rows, blankout.ScalerWidth, now.x, now.basis, ridge, now.df[0], now.shrink[0], c.start, g, r)
	inverseRoots(r, c.eps)
	if temper {
		kappa := 0.0
		for i, x := range now.x[:n] {
			kappa = math.FMA(x*x, r[i], kappa)
		}
		now.kappa[0] = kappa
		now.temper(root)
	}
	adagradRows1(now.rows, blankout.ScalerWidth, g, r, now.minusEta[0], c.inverse)
}

// temper divides the rates by 1 + h kappa; kappa comes divided by root.
func (now *event) temper(root float64) {
	for j, k := range now.kappa {
		now.minusEta[j] /= 1 - now.minusEta[j]*now.h[j]*(k*root)
	}
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
