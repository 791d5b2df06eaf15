package online

import "blankout"

// arow is AROW with a diagonal covariance s (Crammer, Kulesza & Dredze 2009):
// where the margin m = y f is below 1,
//
//	beta = 1/(sum s x^2 + r),  w += (1-m) beta y s x,  s -= beta (s x)^2.
//
// It sees clean features, has a loss of its own and no ridge; eta is its r, and
// an event of importance i has r/i. The metric is s.
type arow struct{ plain }

func (arow) start(p []float64, n int) {
	for j := range n {
		p[n+j] = 1
	}
}

func (arow) step(l *Learner) {
	now, n := &l.now, l.n
	for j, y := range now.y {
		hinge := 1 - y*now.f[j]
		if y == 0 || hinge <= 0 {
			continue
		}
		sum := l.eta / now.importance
		for i, row := range now.rows {
			sum += row[blankout.ScalerWidth+n+j] * now.x[i] * now.x[i]
		}
		beta := 1 / sum
		for i, row := range now.rows {
			p := row[blankout.ScalerWidth:]
			sx := p[n+j] * now.x[i]
			delta := hinge * beta * y * sx
			p[j] += delta
			p[2*n+j] -= delta * l.inverse
			p[n+j] -= beta * sx * sx
		}
	}
}

// shifted adds the variance of what the intercepts have taken up.
func (arow) shifted(l *Learner, intercepts, p []float64, shift float64) {
	for j := l.n; j < 2*l.n; j++ {
		intercepts[j] = min(intercepts[j]+p[j]*shift*shift, 1)
	}
}

func (arow) rescale(l *Learner, p []float64, ratio float64) {
	n := l.n
	for j := range n {
		p[j] *= ratio
		p[n+j] *= ratio * ratio
		p[2*n+j] *= ratio
	}
}

// forget raises the variance, at most to where it started from.
func (arow) forget(l *Learner, p []float64, keep float64) {
	for j := l.n; j < 2*l.n; j++ {
		p[j] = min(p[j]/keep, 1)
	}
}
