package optimizers

import "blankout/online/rows"

// descent is dropout descent (Wager, Wang & Liang 2013, section 5). It is mirror descent whose preconditioner is the
// Hessian of the noising penalty, summed over the stream including the current event:
//
//	A = h0 + sum_{i<=t} curvature_i Var[x~_i],  w -= eta g / A.
//
// For dropout that is h0 + q/(1-q) H with H = sum 2 dL/dv x^2. The paper uses the clean gradient, that is, the gradient
// of the loss without noise. Then 2 dL/dv is A”(f). If the gradient is noisy, 2 dL/dv is the expectation of A” under
// the noise. The ridge is the initial preconditioner. The weights approach the maximum likelihood with the clean
// gradient, and the dropout-regularized optimum with the noisy gradient. The optimizer supports only one fixed noise.
type descent struct{ Plain }

func newDescent(c Settings) Optimizer { return &descent{Plain{c}} }

func (r *descent) Step(s *rows.Step) {
	h0 := r.Ridge
	for _, part := range s.Segments {
		for i := part.From; i < part.To; i++ {
			row := s.Rows[i]
			w, m, u := r.Weights(row), r.Accumulators(row), r.Lags(row)
			x, basis, c := s.X[i], s.Basis[i], r.variance(s, i, part.Strength[0])
			for j, df := range part.DF {
				m[j] += s.InverseDecay * s.H[j] * c
				g := df*x + part.Shrink[j]*basis*w[j]
				delta := s.MinusEta[j] * g / (h0 + m[j]/s.InverseDecay)
				w[j] += delta
				u[j] -= delta * s.Inverse[j]
			}
		}
	}
}

// variance returns what row i adds to the preconditioner: the variance of its noise, which has the given strength. If
// the variance is not a multiple of x^2, x^2 is added, because the variance alone does not depend on the scale of the
// feature. The intercept has no noise, but is treated like a feature with its value.
func (r *descent) variance(s *rows.Step, i int, strength float64) float64 {
	x, basis := s.X[i], s.Basis[i]
	if s.IsIntercept(i) {
		basis = 1
	}
	if r.UnscaledNoise {
		return x*x + strength*basis
	}
	return strength * basis
}

func (r *descent) Unlabeled(s *rows.Step) {
	for _, part := range s.Segments {
		for i := part.From; i < part.To; i++ {
			m, c := r.Accumulators(s.Rows[i]), r.variance(s, i, part.Strength[0])
			for j, h := range s.H {
				m[j] += s.InverseDecay * h * c
			}
		}
	}
}
