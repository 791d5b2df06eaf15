package online

// descent is dropout descent (Wager, Wang & Liang 2013, section 5): a step of
// the mirror descent whose preconditioner is the noising penalty's Hessian as
// gathered from the stream,
//
//	A = h0 + sum_{i<=t} curvature_i Var[x~_i],  w -= eta g / A,
//
// this event included; for dropout that is h0 + q/(1-q) H with H = sum A” x^2.
// The ridge is the preconditioner at the start. With the clean gradient it approaches
// the maximum likelihood, with the marginalised one the dropout-regularised
// optimum. The rule is for one fixed noise.
type descent struct{ plain }

func newDescent(c ruleSettings) rule { return &descent{plain{c}} }

func (r *descent) step(s *step) {
	h0 := r.ridge
	for _, part := range s.segments {
		for i := part.from; i < part.to; i++ {
			row := s.rows[i]
			w, m, u := r.weights(row), r.preconditioner(row), r.lags(row)
			x, basis, c := s.x[i], s.basis[i], r.variance(s, i, part.strength[0])
			for j, df := range part.df {
				m[j] += s.growth * s.h[j] * c
				g := df*x + part.shrink[j]*basis*w[j]
				delta := s.minusEta[j] * g / (h0 + m[j]/s.growth)
				w[j] += delta
				u[j] -= delta * s.inverse[j]
			}
		}
	}
}

// variance is what the preconditioner gathers of row i, whose noise is of this
// strength: the variance of its noise.
// Noise whose variance is no multiple of x^2 says too little of a feature's scale, so x^2
// is added. The intercept has no noise, but gathers what a feature of its value would.
func (r *descent) variance(s *step, i int, strength float64) float64 {
	x, basis := s.x[i], s.basis[i]
	if s.isIntercept(i) {
		basis = 1
	}
	if r.unscaledNoise {
		return x*x + strength*basis
	}
	return strength * basis
}

func (r *descent) unlabelled(s *step) {
	for _, part := range s.segments {
		for i := part.from; i < part.to; i++ {
			m, c := r.preconditioner(s.rows[i]), r.variance(s, i, part.strength[0])
			for j, h := range s.h {
				m[j] += s.growth * h * c
			}
		}
	}
}
