package batch

// This file solves the linear systems of Newton's method in the dual. It is used if there are fewer rows than
// parameters.

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
)

// dual is the inverse of the matrix
//
//	P = G + sum_n g_n x_n x_n',  G = R + sum_n 2 dv_n V_n diagonal,
//
// for few rows and many parameters. It uses Woodbury's identity with S_ij = sqrt(g_i g_j) x_i' G^-1 x_j, a matrix with
// one row and one column per row of the data,
//
//	P^-1 = G^-1 - G^-1 X' g^1/2 (I + S)^-1 g^1/2 X G^-1.
//
// Under silent noise each view of a row is a row here. I + S has no eigenvalue below 1 for any g_n, because no step
// divides by g_n. For IRLS and without noise, P is the matrix of HessVec. Otherwise P omits the Hessian's mixed terms
// and, with groups, the elements of V_n outside its diagonal. P then preconditions conjugate gradients on the Hessian.
type dual struct {
	o       *Expected
	inverse []float64 // inverse of G, by parameter
	root    []float64 // square root of g, by view
	views   []int     // views with a positive g
	factor  mat.Cholesky
	exact   bool // whether P is the matrix of HessVec

	s, t *mat.VecDense // scratch vectors, by view
}

// maxDual is the largest number of rows for which the dual is faster. The dual's matrix needs rows^2/2 dot products.
// Conjugate gradients on the primal, preconditioned by the diagonal, need about 20 to 40 dot products per row. On
// windows of images and of reviews, the dual and the primal take the same time at 20 rows. The dual takes 1.3 times as
// long at 50 rows, and two to five times as long at 200 rows.
const maxDual = 32

// dual returns the inverse at the point of the last gradient. It returns nil if the dual is slower, because there are
// at least as many rows as parameters. It also returns nil if a parameter has neither penalty nor noise, because the
// inverse does not exist then.
func (o *Expected) dual() *dual {
	if n := len(o.m); n >= o.dim || n > maxDual || o.c0 != 0 {
		return nil
	}
	o.secondDerivatives()
	d := &dual{o: o, inverse: make([]float64, o.dim), root: make([]float64, len(o.m)), exact: o.groups == nil}
	shrink := o.variances()
	for i, r := range o.p.Penalty.R {
		if i < o.columns && o.noisy {
			r += shrink[i]
		}
		if !(r > 0) || math.IsInf(1/r, 0) {
			return nil
		}
		d.inverse[i] = 1 / r
	}
	for i, m := range o.m {
		if m == 0 {
			continue
		}
		if g := m * o.ff[i]; g > 0 {
			d.root[i] = math.Sqrt(g)
			d.views = append(d.views, i)
		}
		d.exact = d.exact && o.fv[i] == 0 && o.vv[i] == 0 && o.ff[i] >= 0
	}
	n := len(d.views)
	if n == 0 {
		return d
	}
	o.pass()
	s, wide := mat.NewSymDense(n, nil), make([]float64, o.dim)
	for a, i := range d.views {
		row := o.p.Data.Row(i / len(o.views))
		for k, c := range row.Index {
			x, _ := o.AtView(i%len(o.views), row.At(k), c)
			wide[c] = x * d.inverse[c] * d.root[i]
		}
		bias := 0.0
		if o.dim > o.columns {
			bias = d.inverse[o.columns] * d.root[i]
		}
		for b := a; b < n; b++ {
			j := d.views[b]
			s.SetSym(a, b, d.root[j]*(o.dotView(j, wide)+bias))
		}
		for _, c := range row.Index {
			wide[c] = 0
		}
		s.SetSym(a, a, s.At(a, a)+1)
	}
	if !d.factor.Factorize(s) {
		return nil // values are not finite; the caller detects that too
	}
	d.s, d.t = mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	return d
}

// apply writes P^-1 r to out.
func (d *dual) apply(r, out []float64) {
	for i, v := range r {
		out[i] = v * d.inverse[i]
	}
	if len(d.views) == 0 {
		return
	}
	o := d.o
	bias := o.bias(out)
	for a, i := range d.views {
		d.s.SetVec(a, d.root[i]*(o.dotView(i, out)+bias))
	}
	// The error is ignored: the condition number was checked when the factor was computed.
	_ = d.factor.SolveVecTo(d.t, d.s)
	for a, i := range d.views {
		g, row := d.root[i]*d.t.AtVec(a), o.p.Data.Row(i/len(o.views))
		for k, c := range row.Index {
			x, _ := o.AtView(i%len(o.views), row.At(k), c)
			out[c] -= g * x * d.inverse[c]
		}
		if o.dim > o.columns {
			out[o.columns] -= g * d.inverse[o.columns]
		}
	}
}

// direction solves H p = -grad. If P is H, it solves the system directly. Otherwise it uses conjugate gradients,
// preconditioned by P, until the norm of the residual has decreased by the factor forcing.
func (d *dual) direction(ctx context.Context, grad, p []float64, forcing float64) error {
	c := newCG(len(grad))
	c.keep = 0
	for i, g := range grad {
		c.r[i] = -g
	}
	if d.exact {
		d.apply(c.r, p)
		return nil
	}
	clear(p)
	return c.iterate(ctx, d.o, p, forcing, len(grad), func() { d.apply(c.r, c.z) }, func(rz float64) float64 { return rz }, nil)
}
