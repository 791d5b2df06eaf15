package online

import "math"

// sgd is stochastic gradient descent with step eta/sqrt(t), cut where it would
// overshoot: no step may move the event's own score further than to where a
// unit of curvature would take it,
//
//	w -= min(eta/sqrt(t), 1/|x|^2) g.
type sgd struct{ plain }

func (sgd) step(l *Learner, v *level, at int) {
	now, n := &l.now, l.k
	df, dv := now.df[at:at+l.active], now.dv[at:at+l.active]
	norm := 0.0
	for i, x := range now.x {
		norm += x*x + v.scale*now.basis[i]
	}
	rate := min(l.eta/math.Sqrt(float64(l.steps)), 1/max(norm, 1e-300))
	for i, row := range now.rows {
		p := l.part(row, v)
		w, u := p[:len(df)], p[2*n:2*n+len(df)]
		x, s, _ := noiseOf(now, v, i)
		ridge := now.ridge[i]
		for k, df := range df {
			delta := -rate * (df*x + (dv[k]*s+ridge)*w[k])
			w[k] += delta
			u[k] -= delta * l.inverse
		}
	}
}

func (sgd) unlabelled(*Learner, *level, int) {}
