package online

import "blankout"

// descent is dropout descent (Wager, Wang & Liang 2013, section 5): a step of
// the mirror descent whose metric is the noising penalty's Hessian as gathered
// from the stream,
//
//	A = h0 + sum_{i<=t} curvature_i Var[x~_i],  w -= eta g / A,
//
// this event included; for dropout that is h0 + q/(1-q) H with H = sum A” x^2.
// The ridge is the metric at the start. With the clean gradient it approaches
// the maximum likelihood, with the marginalised one the dropout-regularised
// optimum. The rule is for one fixed noise.
type descent struct{ plain }

func (descent) step(l *Learner) {
	now, n := &l.now, l.n
	v := &l.levels[0]
	h0, inverse := l.ridge, l.inverse
	for i, row := range now.rows {
		p := row[blankout.ScalerWidth:]
		w, m, u := p[:n], p[n:2*n], p[2*n:3*n]
		x, basis, c := now.x[i], now.basis[i], metricVariance(l, v, i)
		for j, df := range now.df {
			m[j] += l.growth * now.h[j] * c
			g := df*x + now.shrink[j]*basis*w[j]
			delta := now.minusEta[j] * g / (h0 + m[j]/l.growth)
			w[j] += delta
			u[j] -= delta * inverse
		}
	}
}

// metricVariance is what the metric gathers of feature i: the variance of its
// noise. Constant noise knows nothing of a feature's scale, so x^2 is added. The
// intercept has no noise, but the metric that a feature of its value would have.
func metricVariance(l *Learner, v *level, i int) float64 {
	x, basis := l.now.x[i], l.now.basis[i]
	if l.isIntercept(i) {
		basis = 1
	}
	if l.noiseKind == constant {
		return x*x + v.strength*basis
	}
	return v.strength * basis
}

func (descent) unlabelled(l *Learner) {
	now := &l.now
	for i, row := range now.rows {
		m, c := row[blankout.ScalerWidth+l.n:], metricVariance(l, &l.levels[0], i)
		for j, h := range now.h {
			m[j] += l.growth * h * c
		}
	}
}
