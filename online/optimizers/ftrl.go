package optimizers

// This file has the optimizer ftrl.

import (
	"math"

	"blankout/online/rows"
)

// ftrl is FTRL-Proximal with per-coordinate rates and an L1 penalty (McMahan et al. 2013, algorithm 1):
//
//	sigma = (sqrt(N + g^2) - sqrt(N))/eta,  z += g - sigma w,  N += g^2,
//	w = 0 if |z| <= l1, else -(z - sign(z) l1)/((1 + sqrt(N))/eta + ridge),
//
// with the ridge of one pass. The intercept has no penalty, except that it has the ridge if the setting is "penalized".
// N is the preconditioner of a row, and z is an additional part of the row that only this optimizer uses.
type ftrl struct{ Plain }

func newFTRL(c Settings) Optimizer { return &ftrl{Plain{c}} }

func (r *ftrl) Step(s *rows.Step) {
	for _, part := range s.Segments {
		for i := part.From; i < part.To; i++ {
			r.stepRow(s, i, part.DF, part.Shrink)
		}
	}
}

// stepRow makes the step of row i.
func (r *ftrl) stepRow(s *rows.Step, i int, df, shrink []float64) {
	row := s.Rows[i]
	w, m, u, z := r.Weights(row), r.Accumulators(row), r.Lags(row), r.Own(row)
	x, basis := s.X[i], s.Basis[i]
	l1, ridge := r.penalties(s.IsIntercept(i))
	for j, df := range df {
		if s.Y[j] == 0 {
			continue
		}
		was := w[j]
		g := df*x + shrink[j]*basis*was
		if s.MinusEta[j] == 0 {
			m[j] += g * g
			continue
		}
		root := math.Sqrt(m[j] + g*g)
		z[j] = z[j] + g - (root-math.Sqrt(m[j]))/r.Eta*was
		m[j] += g * g
		w[j] = 0
		if a := math.Abs(z[j]); a > l1 {
			w[j] = -(z[j] - math.Copysign(l1, z[j])) / ((1+root)/r.Eta + ridge)
		}
		u[j] -= (w[j] - was) * s.Inverse[j]
	}
}

func (r *ftrl) penalties(intercept bool) (l1, ridge float64) {
	switch {
	case !intercept:
		return r.L1, r.Ridge
	case r.Penalized:
		return 0, r.Ridge
	}
	return 0, 0
}

// fit recomputes z at index j after other code has changed the weight at j.
func (r *ftrl) fit(row []float64, j int, intercept bool) {
	l1, ridge := r.penalties(intercept)
	if w := r.Weights(row)[j]; w != 0 {
		r.Own(row)[j] = -w*((1+math.Sqrt(r.Accumulators(row)[j]))/r.Eta+ridge) - math.Copysign(l1, w)
	}
}

// Set recomputes z at index j for the intercept b.
func (r *ftrl) Set(row []float64, j int, b float64) {
	r.Weights(row)[j] = b
	r.fit(row, j, true)
}

func (r *ftrl) Shifted(intercepts, _ []float64, from, to int, _ float64) {
	for j := from; j < to; j++ {
		r.fit(intercepts, j, true)
	}
}

func (r *ftrl) Rescale(row []float64, from, to int, ratio float64) {
	r.Plain.Rescale(row, from, to, ratio)
	w, z := r.Weights(row), r.Own(row)
	for j := from; j < to; j++ {
		if w[j] == 0 {
			z[j] /= max(ratio, 1)
		}
		r.fit(row, j, false)
	}
}

func (r *ftrl) Forget(row []float64, intercepts bool, keep float64) {
	r.Plain.Forget(row, intercepts, keep)
	for j := range r.N {
		r.fit(row, j, intercepts)
	}
}
