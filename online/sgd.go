package online

// This file holds the update rule sgd.

import "math"

// sgd is stochastic gradient descent with step eta/sqrt(t), cut where it would
// overshoot a loss of curvature at most 1, or h, that of the expected loss at hand times
// the importance, where that is more:
//
//	w -= min(eta/sqrt(t), 1/(max(1, h) E|x~|^2)) g.
//
// The ridge's part of a step takes no weight further than to 0.
type sgd struct{ plain }

func newSGD(c ruleSettings) rule { return &sgd{plain{c}} }

func (r *sgd) step(s *step) {
	rate := s.minusEta // becomes the cut rate
	for v := range s.strength {
		norm := 0.0
		for _, g := range s.segments {
			strength, basis := g.strength[v], s.basis[g.from:g.to]
			for i, x := range s.x[g.from:g.to] {
				norm += x*x + strength*basis[i]
			}
		}
		for j := v * r.outputs; j < (v+1)*r.outputs; j++ {
			rate[j] = max(rate[j]/math.Sqrt(float64(s.count)), -1/max(norm*max(1, s.h[j]), 1e-300))
		}
	}
	for _, g := range s.segments {
		for i := g.from; i < g.to; i++ {
			w, u := r.weights(s.rows[i]), r.lags(s.rows[i])
			x, basis, ridge := s.x[i], s.basis[i], s.ridge[i]
			for j, df := range g.df {
				pull := ridge
				if rate[j]*ridge < -1 {
					pull = -1 / rate[j]
				}
				delta := rate[j] * (df*x + (g.shrink[j]*basis+pull)*w[j])
				w[j] += delta
				u[j] -= delta * s.inverse[j]
			}
		}
	}
}
