package comparators

import (
	"math"

	"blankout/online/optimizers"
	"blankout/online/rows"
)

// sgd is stochastic gradient descent with step eta/sqrt(t). Let h be the curvature of the expected loss times the
// importance. A step is shortened if it would overshoot a loss with curvature max(1, h):
//
//	w -= min(eta/sqrt(t), 1/(max(1, h) E|x~|^2)) g.
//
// It is also shortened if it would change the score by more than mostMove. The ridge's part of a step moves no weight
// past 0.
type sgd struct{ optimizers.Plain }

// mostMove is the largest change of a score by a step. Standardized targets and log-odds are usually smaller than
// mostMove.
const mostMove = 16

// SGD is the entry of stochastic gradient descent.
var SGD = optimizers.Entry{Name: "sgd", Eta: 0.5, Parts: 3, Make: func(c optimizers.Settings) optimizers.Optimizer {
	return &sgd{optimizers.Plain{Settings: c}}
}}

func (r *sgd) Step(s *rows.Step) {
	rate := s.MinusEta // shortened below if necessary
	for v := range s.Strength {
		norm := 0.0
		for _, g := range s.Segments {
			strength, basis := g.Strength[v], s.Basis[g.From:g.To]
			for i, x := range s.X[g.From:g.To] {
				norm += x*x + strength*basis[i]
			}
		}
		for j := v * r.Outputs; j < (v+1)*r.Outputs; j++ {
			rate[j] = max(rate[j]/math.Sqrt(float64(s.Count)), -1/max(norm*max(1, s.H[j]), 1e-300))
			if df := math.Abs(s.DF[j]); df*norm*-rate[j] > mostMove {
				rate[j] = -mostMove / norm / df
			}
		}
	}
	for _, g := range s.Segments {
		for i := g.From; i < g.To; i++ {
			w, u := r.Weights(s.Rows[i]), r.Lags(s.Rows[i])
			x, basis, ridge := s.X[i], s.Basis[i], s.Ridge[i]
			for j, df := range g.DF {
				pull := ridge
				if rate[j]*ridge < -1 {
					pull = -1 / rate[j]
				}
				delta := rate[j] * (df*x + (g.Shrink[j]*basis+pull)*w[j])
				w[j] += delta
				u[j] -= delta * s.Inverse[j]
			}
		}
	}
}
