package papers

// This file computes the exact expected logistic loss under dropout, without copies and without assuming normal scores.

import (
	"math"
	"math/cmplx"

	"blankout/batch"
)

// exactDropout is the objective sum_i E[A(f~_i)] - y_i f_i + l2 |w|^2 of logistic regression under dropout. Here A(f) =
// log(1 + e^f), and y is 0 or 1. Dropout removes binary features with rate q and divides survivors by p = 1 - q. The
// last parameter is a free intercept b. The expectation is over all masks. It follows from the Fourier transform of the
// second derivative of A, which is pi t/sinh(pi t):
//
//	E[A(f~)] = f/2 + log 2 + integral_0^inf (1 - Re phi(t)) / (t sinh(pi t)) dt,
//	phi(t) = E[e^(i t f~)] = e^(i t b) prod_j (q + p e^(i t w_j/p)).
//
// The integrand is even and analytic for |Im t| < 1, so the error of the midpoint rule decreases exponentially with
// 1/step. It is of the order of E[e^|f~|] e^(-2 pi/step), which determines the step.
type exactDropout struct {
	rows    *batch.Data
	y       []float64 // labels, 0 or 1
	q, l2   float64
	threads int
	by      [][]uint32 // rows by column

	// Values at the current nodes of the integration:
	factor, slope [][dropoutChunk]complex128 // factor q + p e^(i t w/p) and slope i t e^(i t w/p)/factor, by column
	phi           [][dropoutChunk]complex128 // phi by row
}

const (
	dropoutChunk = 32 // number of nodes that are processed together
	dropoutEnd   = 6  // end of the integral, where sinh(pi t) is 8e7
)

func newExactDropout(d *batch.Data, q, l2 float64, threads int) *exactDropout {
	o := &exactDropout{rows: d, q: q, l2: l2, threads: threads, y: make([]float64, d.Rows()), by: make([][]uint32, d.Columns()),
		factor: make([][dropoutChunk]complex128, d.Columns()), slope: make([][dropoutChunk]complex128, d.Columns()), phi: make([][dropoutChunk]complex128, d.Rows())}
	for i := range o.y {
		o.y[i] = float64(d.Label(i))
		for _, c := range d.Row(i).Index {
			o.by[c] = append(o.by[c], uint32(i))
		}
	}
	return o
}

// Dim implements batch.Objective.
func (o *exactDropout) Dim() int { return o.rows.Columns() + 1 }

// score returns the score f of row i.
func (o *exactDropout) score(w []float64, i int) float64 {
	return o.rows.Row(i).Dot(w) + w[len(w)-1]
}

// penalty returns R = sum_i E[A(f~_i)] - A(f_i) at w.
func (o *exactDropout) penalty(w []float64) float64 {
	sum := 0.0
	for i, e := range o.expectations(w, nil) {
		f := o.score(w, i)
		sum += e - max(f, 0) - math.Log1p(math.Exp(-math.Abs(f)))
	}
	return sum
}

// step returns the distance between nodes at which the error is below e^-25 in every row.
func (o *exactDropout) step(w []float64) float64 {
	p, most := 1-o.q, 0.0
	for _, sign := range []float64{-1, 1} {
		grown := make([]float64, o.rows.Columns()) // log E e^(sign w xi) by column, for the noise factor xi
		for c := range grown {
			x := sign * w[c] / p
			grown[c] = max(x, 0) + math.Log(o.q*math.Exp(-max(x, 0))+p*math.Exp(min(x, 0)))
		}
		for i := range o.y {
			most = max(most, o.rows.Row(i).Dot(grown)+sign*w[len(w)-1])
		}
	}
	return 2 * math.Pi / (most + 25)
}

// expectations returns E[A(f~)] of every row. If grad is not nil, it adds the gradient of their sum to grad.
func (o *exactDropout) expectations(w, grad []float64) []float64 {
	p, last, step := 1-o.q, len(w)-1, o.step(w)
	out := make([]float64, len(o.y))
	for i := range out {
		out[i] = o.score(w, i)/2 + math.Ln2
	}
	for from := 0; float64(from)*step < dropoutEnd; from += dropoutChunk {
		var t, weight [dropoutChunk]float64
		for k := range t {
			t[k] = step * (float64(from+k) + 0.5)
			weight[k] = step / (t[k] * math.Sinh(math.Pi*t[k]))
		}
		batch.Parallel(o.threads, last, func(c int) {
			for k, t := range t {
				turn := cmplx.Rect(1, t*w[c]/p)
				factor := complex(o.q, 0) + complex(p, 0)*turn
				o.factor[c][k], o.slope[c][k] = factor, complex(0, t)*turn/factor
			}
		})
		batch.Parallel(o.threads, len(out), func(i int) {
			phi := &o.phi[i]
			for k, t := range t {
				phi[k] = cmplx.Rect(1, t*w[last])
			}
			for _, c := range o.rows.Row(i).Index {
				for k, factor := range &o.factor[c] {
					phi[k] *= factor
				}
			}
			for k, weight := range weight {
				out[i] += weight * (1 - real(phi[k]))
			}
		})
		if grad == nil {
			continue
		}
		batch.Parallel(o.threads, last, func(c int) {
			var sum [dropoutChunk]complex128
			for _, i := range o.by[c] {
				for k, phi := range &o.phi[i] {
					sum[k] += phi
				}
			}
			for k, slope := range &o.slope[c] {
				grad[c] -= weight[k] * real(sum[k]*slope)
			}
		})
		for i := range o.phi {
			for k, phi := range &o.phi[i] {
				grad[last] += weight[k] * t[k] * imag(phi)
			}
		}
	}
	return out
}

// ValueGrad implements batch.Objective.
func (o *exactDropout) ValueGrad(w, grad []float64) float64 {
	last := len(w) - 1
	for c := range grad {
		grad[c] = 0
		if c < last {
			grad[c] = 2 * o.l2 * w[c]
			for _, i := range o.by[c] {
				grad[c] += 0.5 - o.y[i]
			}
		}
	}
	value := 0.0
	for i, e := range o.expectations(w, grad) {
		value += e - o.y[i]*o.score(w, i)
		if grad != nil {
			grad[last] += 0.5 - o.y[i]
		}
	}
	for _, x := range w[:last] {
		value += o.l2 * x * x
	}
	return value
}
