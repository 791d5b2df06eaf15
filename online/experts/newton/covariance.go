package newton

// This file has the matrix A^-1, which acts as the covariance of the weights, in factorized form.

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
	if z = z[:p.n]; hasAVX2 && p.n > 0 {
		return leverageAVX2(&p.data[0], &z[0], &p.f[0], p.n, first)
	}
	return p.leverageGo(z, first)
}

// leverageGo is the slow reference for leverageAVX2. It rounds every product and every sum.
func (p *covariance) leverageGo(z []float64, first int) (h float64) {
	for j := range p.n {
		c := p.column(j)
		if p.f[j] = 0; j >= first {
			p.f[j] = z[j] + product(c[first:j], z[first:j])
		}
		h += float64(float64(p.f[j]*p.f[j]) * c[j])
	}
	return h
}

// product returns the scalar product of vectors of the same length: that of every fourth value, then of the rest.
func product(a, b []float64) float64 {
	var four [4]float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		for l := range four {
			four[l] += float64(a[i+l] * b[i+l])
		}
	}
	sum := (four[0] + four[2]) + (four[1] + four[3])
	for ; i < len(a); i++ {
		sum += float64(a[i] * b[i])
	}
	return sum
}

// update replaces A by A + a z z', where z is the argument of the latest call of leverage, with result h. It writes the
// old P z to gain and returns 1 + a h, which must be above 0. P becomes P - a/(1 + a h) P z z'P.
func (p *covariance) update(a float64, gain []float64) (alpha float64) {
	if gain = gain[:p.n]; hasAVX2 && p.n > 0 {
		return updateAVX2(&p.data[0], &p.f[0], &gain[0], p.n, a)
	}
	return p.updateGo(a, gain)
}

// updateGo is the slow reference for updateAVX2. It rounds every product and every sum.
func (p *covariance) updateGo(a float64, gain []float64) (alpha float64) {
	alpha = 1
	for j, f := range p.f {
		c := p.column(j)
		v, by, before := float64(c[j]*f), float64(a*f), alpha
		alpha += float64(by * v)
		c[j] *= before / alpha
		by = -by / before
		for i, u := range c[:j] {
			c[i], gain[i] = u+float64(by*gain[i]), gain[i]+float64(v*u)
		}
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
