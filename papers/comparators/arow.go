package comparators

import (
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// arow is AROW with a diagonal covariance s (Crammer, Kulesza & Dredze 2009). If the margin m = y f is below 1, a step
// is
//
//	beta = 1/(sum s x^2 + r),  w += (1-m) beta y s x,  s -= beta (s x)^2.
//
// AROW ignores the noise and the configured loss, and has no ridge. Its r is eta, divided by the importance of the
// event. s starts at 1. A row stores s - 1, because new rows are 0.
type arow struct{ optimizers.Plain }

// AROW is the entry of AROW.
var AROW = optimizers.Entry{Name: "arow", Eta: 1, Parts: 3, ClassesOnly: true, Make: func(c optimizers.Settings) optimizers.Optimizer {
	return &arow{optimizers.Plain{Settings: c}}
}}

func (r *arow) Step(s *rows.Step) {
	for j, y := range s.Y {
		hinge := 1 - y*s.F[j]
		if y == 0 || hinge <= 0 {
			continue
		}
		sum := r.Eta / s.Importance
		for i, row := range s.Rows {
			sum += (1 + r.Accumulators(row)[j]) * s.X[i] * s.X[i]
		}
		beta := 1 / sum
		for i, row := range s.Rows {
			w, m, u := r.Weights(row), r.Accumulators(row), r.Lags(row)
			sx := (1 + m[j]) * s.X[i]
			delta := hinge * beta * y * sx
			w[j] += delta
			u[j] -= delta * s.Inverse[j]
			m[j] -= beta * sx * sx
		}
	}
}

// Shifted adds the variance of the shift to the variance of the intercepts.
func (r *arow) Shifted(intercepts, row []float64, from, to int, shift float64) {
	s, m := r.Accumulators(intercepts), r.Accumulators(row)
	for j := from; j < to; j++ {
		s[j] = min(s[j]+(1+m[j])*shift*shift, 0)
	}
}

func (r *arow) Rescale(row []float64, from, to int, ratio float64) {
	w, m, u := r.Weights(row), r.Accumulators(row), r.Lags(row)
	for j := from; j < to; j++ {
		w[j] *= ratio
		m[j] = (1+m[j])*ratio*ratio - 1
		u[j] *= ratio
	}
}

// Forget increases the variance s, at most to its initial value.
func (r *arow) Forget(row []float64, _ bool, keep float64) {
	m := r.Accumulators(row)
	for j := range m {
		m[j] = min((1+m[j])/keep, 1) - 1
	}
}
