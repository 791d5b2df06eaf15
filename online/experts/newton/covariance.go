package newton

// This file has the matrix A^-1, which acts as the covariance of the weights, in factorized form.

import "blankout/internal/model"

// covariance is a positive definite matrix P = U D U' (Bierman 1977). U is upper triangular with a unit diagonal, and D
// is diagonal. Updates in this form keep it positive in spite of rounding. Row j of data has column j of U above the
// diagonal, followed by the entry of D: j + 1 values.
type covariance struct {
	n    int
	data []float64
	f    []float64 // U'z of the latest call of leverage
}

// column returns column j of U above the diagonal, followed by the entry D_jj.
func (p *covariance) column(j int) []float64 {
	at := j * (j + 1) / 2
	return p.data[at : at+j+1 : at+j+1]
}

// with returns a copy of the matrix with an additional variable at index i. The variable has the given variance and is
// uncorrelated with the others.
func (p covariance) with(i int, variance float64) covariance {
	out := covariance{n: p.n + 1, data: make([]float64, 0, len(p.data)+p.n+1)}
	for j := range out.n {
		switch {
		case j < i:
			out.data = append(out.data, p.column(j)...)
		case j == i:
			out.data = append(append(out.data, make([]float64, i)...), variance)
		default:
			c := p.column(j - 1)
			out.data = append(append(append(out.data, c[:i]...), 0), c[i:]...)
		}
	}
	return out
}

// remove returns a copy of the matrix without variable i. The variance of the variable must be almost 0.
func (p covariance) remove(i int) covariance {
	out := covariance{n: p.n - 1, data: make([]float64, 0, len(p.data)-p.n)}
	for j := range p.n {
		if c := p.column(j); j < i {
			out.data = append(out.data, c...)
		} else if j > i {
			out.data = append(append(out.data, c[:i]...), c[i+1:]...)
		}
	}
	return out
}

// leverage returns h = z'P z. The entries of z before the index first must be 0. The next call of update uses this z.
func (p *covariance) leverage(z []float64, first int) (h float64) {
	if len(p.f) != p.n {
		p.f = make([]float64, p.n)
	}
	for j := range p.n {
		c := p.column(j)
		f := 0.0
		if j >= first {
			f = z[j] + model.Product(c[first:j], z[first:])
		}
		p.f[j] = f
		h += f * f * c[j]
	}
	return h
}

// leverageAt iterates over the indices in at if there are at most fewIndices.
const fewIndices = 32

// leverageAt is leverage for a z that is 0 except at the indices at, which must ascend.
func (p *covariance) leverageAt(z []float64, at []int) (h float64) {
	if len(at) > max(fewIndices, p.n/4) {
		return p.leverage(z, at[0])
	}
	if len(p.f) != p.n {
		p.f = make([]float64, p.n)
	}
	var values [fewIndices]float64
	x := values[:0]
	if len(at) > fewIndices {
		x = make([]float64, 0, len(at))
	}
	for j := range p.n { // x holds the values at the indices below j
		c := p.column(j)
		f := 0.0
		for n, i := range at[:len(x)] {
			f += c[i] * x[n]
		}
		if len(x) < len(at) && at[len(x)] == j {
			f += z[j]
			x = append(x, z[j])
		}
		p.f[j] = f
		h += f * f * c[j]
	}
	return h
}

// update replaces A by A + a z z', where z is the argument of the latest call of leverage, with result h. It writes the
// old P z to gain and returns 1 + a h, which must be above 0. P becomes P - a/(1 + a h) P z z'P.
func (p *covariance) update(a float64, gain []float64) (alpha float64) {
	alpha = 1
	for j, f := range p.f {
		c := p.column(j)
		v := c[j] * f
		before := alpha
		alpha += a * f * v
		c[j] *= before / alpha
		model.Sweep(c[:j], gain, v, -a*f/before)
		gain[j] = v
	}
	return alpha
}

// scale multiplies the weight of variable i by ratio. It adds shift times the old weight to the weight of variable 0.
func (p *covariance) scale(i int, ratio, shift float64) {
	for j := i; j < p.n; j++ {
		c := p.column(j)
		if j == i {
			c[0] += shift
			for k := range i {
				c[k] /= ratio
			}
			c[i] *= ratio * ratio
			continue
		}
		c[0] += shift * c[i]
		c[i] *= ratio
	}
}
