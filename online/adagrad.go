package online

// adagrad divides each coordinate's step by the root of the sum of its squared
// gradients, this one included (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
type adagrad struct{ plain }

const adagradEps = 1e-8

func (adagrad) step(l *Learner, v *level, at int) {
	now := &l.now
	c := adagradConstants{-l.eta, l.config.Start, adagradEps, l.inverse}
	adagradRows(now.rows, v.offset, l.k, now.x, l.spreads(v), now.ridge, now.df[at:at+l.active], now.dv[at:at+l.active], &c)
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
