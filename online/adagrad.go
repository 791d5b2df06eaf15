package online

import (
	"math"

	"blankout"
)

// adagrad divides each coordinate's step by the root of the sum of its squared
// gradients, this one included (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
type adagrad struct{ plain }

const adagradEps = 1e-8

func (adagrad) step(l *Learner) {
	now := &l.now
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

// unlabelled adds h x^2, the expected square of a gradient.
func (adagrad) unlabelled(l *Learner) {
	for i, row := range l.now.rows {
		m := row[blankout.ScalerWidth+l.n:]
		for j, h := range l.now.h {
			m[j] += l.growth * h * l.now.x[i] * l.now.x[i]
		}
	}
}
