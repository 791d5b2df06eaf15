package online

// This file holds the update rule sgd.

import "math"

// sgd is stochastic gradient descent with step eta/sqrt(t), cut where it would
// overshoot a loss of unit curvature:
//
//	w -= min(eta/sqrt(t), 1/E|x~|^2) g.
type sgd struct{ plain }

func newSGD(c ruleSettings) rule { return &sgd{plain{c}} }

func (r *sgd) step(s *step) {
	rate := s.minusEta // becomes the cut rate
	for v, strength := range s.strength {
		norm := 0.0
		for i, x := range s.x {
			norm += x*x + strength*s.basis[i]
		}
		for j := v * r.outputs; j < (v+1)*r.outputs; j++ {
			rate[j] = max(rate[j]/math.Sqrt(float64(s.count)), -1/max(norm, 1e-300))
		}
	}
	for i, row := range s.rows {
		w, u := r.weights(row), r.lags(row)
		x, basis, ridge := s.x[i], s.basis[i], s.ridge[i]
		for j, df := range s.df {
			delta := rate[j] * (df*x + (s.shrink[j]*basis+ridge)*w[j])
			w[j] += delta
			u[j] -= delta * s.inverse[j]
		}
	}
}
