package online

import (
	"math"

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
	if l.k == 1 && l.config.Adapt {
		adagrad{}.temper(l)
	}
	c := adagradConstants{l.config.Start, adagradEps, l.inverse}
	if g := math.Sqrt(l.growth); g != 1 {
		// With gradients times g the step is the same, and what is added to the
		// metric grows by g^2.
		c.start, c.eps = c.start*l.growth, c.eps*g
		for j := range now.df {
			now.df[j] *= g
			now.shrink[j] *= g
		}
		now.faded = append(now.faded[:0], now.ridge...)
		for i := range now.faded {
			now.faded[i] *= g
		}
		adagradRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, now.faded, now.df, now.shrink, now.minusEta, &c)
		return
	}
	if l.n == 1 {
		adagradRows1(now.rows, blankout.ScalerWidth, now.x, now.basis, now.ridge, now.df[0], now.shrink[0], now.minusEta[0], &c)
		return
	}
	adagradRows(now.rows, blankout.ScalerWidth, l.n, now.x, now.basis, now.ridge, now.df, now.shrink, now.minusEta, &c)
}

// temper divides the rates by 1 + h kappa.
func (adagrad) temper(l *Learner) {
	now, n := &l.now, l.n
	kappa := now.kappa
	clear(kappa)
	start, growth := l.config.Start, 1/l.growth
	for i, row := range now.rows {
		x, b, ridge := now.x[i], now.basis[i], now.ridge[i]
		p := row[blankout.ScalerWidth:]
		w, m := p[:n], p[n:2*n]
		for j, df := range now.df {
			g := df*x + (now.shrink[j]*b+ridge)*w[j]
			kappa[j] += x * x / (math.Sqrt(start+m[j]*growth+g*g) + adagradEps)
		}
	}
	for j, k := range kappa {
		now.minusEta[j] /= 1 - now.minusEta[j]*now.h[j]*k
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
