package online

import (
	"math"

	"blankout"
)

// sgd is stochastic gradient descent with step eta/sqrt(t), cut where it would
// overshoot a loss of unit curvature:
//
//	w -= min(eta/sqrt(t), 1/E|x~|^2) g.
type sgd struct{ plain }

func (sgd) step(l *Learner) {
	now, n := &l.now, l.n
	rate := now.minusEta // becomes the cut rate; Learner.step fills it anew
	for v := range l.levels {
		norm := 0.0
		for i, x := range now.x {
			norm += x*x + l.levels[v].strength*now.basis[i]
		}
		for j := v * l.k; j < (v+1)*l.k; j++ {
			rate[j] = max(rate[j]/math.Sqrt(float64(l.steps)), -1/max(norm, 1e-300))
		}
	}
	for i, row := range now.rows {
		p := row[blankout.ScalerWidth:]
		w, u := p[:n], p[2*n:3*n]
		x, basis, ridge := now.x[i], now.basis[i], now.ridge[i]
		for j, df := range now.df {
			delta := rate[j] * (df*x + (now.shrink[j]*basis+ridge)*w[j])
			w[j] += delta
			u[j] -= delta * l.inverse
		}
	}
}
