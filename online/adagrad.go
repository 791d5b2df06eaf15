package online

import "math"

// adagrad divides each coordinate's step by the root of the sum of its squared
// gradients, this one included (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
type adagrad struct{ plain }

const adagradEps = 1e-8

func (adagrad) step(l *Learner, v *level, at int) {
	now, n := &l.now, l.k
	df, dv := now.df[at:at+l.active], now.dv[at:at+l.active]
	eta, start, inverse := l.eta, l.config.Start, l.inverse
	for i, row := range now.rows {
		p := l.part(row, v)
		w, m, u := p[:len(df)], p[n:n+len(df)], p[2*n:2*n+len(df)]
		x, s, ridge := now.x[i], v.scale*now.basis[i]+v.c0*now.scarce[i], now.ridge[i]
		if now.basis[i] == 0 && x != 0 {
			s = 0 // the intercept is never noisy
		}
		for k, df := range df {
			g := df*x + (dv[k]*s+ridge)*w[k]
			m[k] += g * g
			delta := -eta * g / (math.Sqrt(start+m[k]) + adagradEps)
			w[k] += delta
			u[k] -= delta * inverse
		}
	}
}

func (adagrad) unlabelled(l *Learner, v *level, at int) { addCurvature(l, at, v) }

// addCurvature adds h x^2, the expected square of a gradient, to the metric.
func addCurvature(l *Learner, at int, v *level) {
	h := l.now.h[at : at+l.active]
	for i, row := range l.now.rows {
		m := l.part(row, v)[l.k:]
		for k, h := range h {
			m[k] += h * l.now.x[i] * l.now.x[i]
		}
	}
}
