package online

// descent is dropout descent (Wager, Wang & Liang 2013, section 5): a step of
// the mirror descent whose metric is the noising penalty's Hessian as gathered
// from the stream,
//
//	A = h0 + sum_{i<=t} curvature_i Var[x~_i],  w -= eta g / A,
//
// this event included; for dropout that is h0 + q/(1-q) H with H = sum A” x^2.
// The ridge is the metric at the start. With the clean gradient it approaches
// the maximum likelihood, with the marginalised one the dropout-regularised
// optimum.
type descent struct{ plain }

func (descent) step(l *Learner, v *level, at int) {
	now, n := &l.now, l.k
	df, dv, h := now.df[at:at+l.active], now.dv[at:at+l.active], now.h[at:at+l.active]
	eta, h0, inverse := l.eta, l.ridge, l.inverse
	for i, row := range now.rows {
		p := l.part(row, v)
		w, m, u := p[:len(df)], p[n:n+len(df)], p[2*n:2*n+len(df)]
		x, s, c := noiseOf(now, v, i)
		for k, df := range df {
			m[k] += h[k] * c
			g := df*x + dv[k]*s*w[k]
			delta := -eta * g / (h0 + m[k])
			w[k] += delta
			u[k] -= delta * inverse
		}
	}
}

// noiseOf returns a feature's value, its noise's variance and the variance that
// the metric gathers: the intercept has no noise but the metric of a feature.
func noiseOf(now *event, v *level, i int) (x, s, c float64) {
	x = now.x[i]
	c = v.scale*now.basis[i] + v.c0*now.scarce[i]
	if now.basis[i] == 0 && x != 0 {
		return x, 0, v.scale*x*x + v.c0
	}
	return x, c, c
}

func (descent) unlabelled(l *Learner, v *level, at int) {
	now := &l.now
	for i, row := range now.rows {
		m := l.part(row, v)[l.k:]
		_, _, c := noiseOf(now, v, i)
		for k, h := range now.h[at : at+l.active] {
			m[k] += h * c
		}
	}
}
