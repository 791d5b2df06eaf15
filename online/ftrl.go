package online

import (
	"math"

	"blankout"
)

// ftrl is FTRL-Proximal with per-coordinate rates and an L1 penalty (McMahan et
// al. 2013, algorithm 1):
//
//	sigma = (sqrt(N + g^2) - sqrt(N))/eta,  z += g - sigma w,  N += g^2,
//	w = 0 where |z| <= l1, else -(z - sign(z) l1)/((1 + sqrt(N))/eta + ridge),
//
// with the ridge of one pass. The intercept has neither penalty unless it is
// "penalised", which gives it the ridge. The metric is N; z is a fourth value.
type ftrl struct{ plain }

func (f ftrl) step(l *Learner) {
	now, n := &l.now, l.n
	for i, row := range now.rows {
		p := row[blankout.ScalerWidth:]
		x, basis := now.x[i], now.basis[i]
		l1, ridge := f.penalties(l, l.isIntercept(i))
		for j, df := range now.df {
			if now.y[j] == 0 {
				continue
			}
			w, m := p[j], p[n+j]
			g := df*x + now.shrink[j]*basis*w
			if now.still {
				p[n+j] = m + g*g
				continue
			}
			root := math.Sqrt(m + g*g)
			z := p[3*n+j] + g - (root-math.Sqrt(m))/l.eta*w
			p[n+j], p[3*n+j] = m+g*g, z
			p[j] = 0
			if a := math.Abs(z); a > l1 {
				p[j] = -(z - math.Copysign(l1, z)) / ((1+root)/l.eta + ridge)
			}
			p[2*n+j] -= (p[j] - w) * l.inverse
		}
	}
}

func (ftrl) penalties(l *Learner, intercept bool) (l1, ridge float64) {
	switch {
	case !intercept:
		return l.config.L1, l.ridge
	case l.config.Intercept == "penalised":
		return 0, l.ridge
	}
	return 0, 0
}

// set chooses the z that belongs to an intercept of b.
func (f ftrl) set(l *Learner, p []float64, j int, b float64) {
	p[j] = b
	f.fit(l, p, j, true)
}

// fit makes z fit a weight that was changed from outside.
func (f ftrl) fit(l *Learner, p []float64, j int, intercept bool) {
	l1, ridge := f.penalties(l, intercept)
	if w := p[j]; w != 0 {
		p[3*l.n+j] = -w*((1+math.Sqrt(p[l.n+j]))/l.eta+ridge) - math.Copysign(l1, w)
	}
}

func (f ftrl) shifted(l *Learner, p, _ []float64, _ float64) {
	for j := range l.n {
		f.fit(l, p, j, true)
	}
}

func (f ftrl) rescale(l *Learner, p []float64, ratio float64) {
	f.plain.rescale(l, p, ratio)
	for j := range l.n {
		if p[j] == 0 {
			p[3*l.n+j] /= max(ratio, 1)
		}
		f.fit(l, p, j, false)
	}
}

func (f ftrl) forget(l *Learner, p []float64, keep float64) {
	f.plain.forget(l, p, keep)
	for j := range l.n {
		f.fit(l, p, j, &p[0] == &l.weights(l.bias)[0])
	}
}
