package batch

// This file implements silent noise (loss.Silent): features fail without notice. A dead feature reads its dead value z,
// usually a neutral value. The surviving features keep their values. The fraction q of dead features is one of several
// rates.
//
// At rate q the score of such an event has the mean and the variance
//
//	m = b + w.z + (1-q) w.(x-z),  v = q (1-q) w'V w,
//
// where V is diag((x-z)^2) or, for groups, the sum over the groups of the outer product of the group's (x-z). The mean
// is affine in w and the variance is the squared norm of a linear map of w, as for any other noise. So each row has one
// view per rate, with its own importance. Convexity, Newton's method and the certificate apply as for other noise. The
// features are read once for all views.

import (
	"errors"
	"fmt"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// view is a row at one rate of silent noise. The factor keep multiplies the features x-z in the score, and spread
// multiplies V in the variance. For noise that is not silent, each row has one view with both factors 1.
type view struct{ keep, spread float64 }

// setViews sets the views and the dead values for a noise. It returns the noise whose variance is V.
func (n *noising) setViews(d *Data, noise loss.Noise) loss.Noise {
	n.views = []view{{1, 1}}
	silent, ok := noise.(loss.Silent)
	switch {
	case !ok:
		return noise
	case silent.D == 0:
		return loss.NoNoise{}
	}
	n.views = n.views[:0]
	for _, q := range silent.Rates() {
		n.views = append(n.views, view{1 - q, q * (1 - q)})
	}
	n.dead = d.dead
	return silent.Squares()
}

// silentGroups returns the sets of features of Data that fail together, as jointNoise does. A product of fields of two
// groups counts as failing with the rate of one group, see checkSilent.
func silentGroups(d *Data, n loss.Silent) (*groupNoise, error) {
	g, err := jointNoise(d, n.Squares())
	if errors.Is(err, model.ErrNoGroups) {
		return nil, fmt.Errorf("noise %v: %w", n, model.ErrNoGroups)
	}
	return g, err
}

// checkSilent returns an error if the noise is silent and a product of fields of two groups fails more often than each
// of its groups, which an exact solution does not support.
func (d *Data) checkSilent(noise loss.Noise) error {
	n, ok := noise.(loss.Silent)
	if !ok {
		return nil
	}
	g, err := silentGroups(d, n)
	if err != nil || g == nil {
		return err
	}
	for _, pair := range g.pair {
		if pair[1] >= 0 {
			return fmt.Errorf("noise %v: a product of fields of two groups dies more often than its groups do, which is not known here: leave out the crosses between groups, or take silent:%v", n, n.D)
		}
	}
	return nil
}

// SetDead sets the value that each column of the Schema reads after a silent failure, in the units of the data. Only
// silent noise uses it. The default is 0. A feature that an example does not have cannot fail.
func (d *Data) SetDead(dead func(column uint32) float64) {
	d.dead = nil
	for c, column := range d.columns {
		if z := dead(column); z != 0 {
			if d.dead == nil {
				d.dead = make([]float64, len(d.columns))
			}
			d.dead[c] = z
		}
	}
}

// deadOf returns the function that SetDead has set.
func (d *Data) deadOf() func(column uint32) float64 {
	read := map[uint32]float64{}
	for c, z := range d.dead {
		read[d.columns[c]] = z
	}
	return func(column uint32) float64 { return read[column] }
}

// add adds the contribution of a view to p, given the derivatives of the view's loss by the score and by the variance.
func (p *rowGradient) add(a view, df, dv float64) {
	p.x += a.keep * df
	p.one += df
	p.v += a.spread * dv
}

// apart splits the value of a column into alive, which is lost if the feature fails, and dead, which remains.
func (n *noising) apart(x float64, column uint32) (alive, dead float64) {
	if n.dead == nil {
		return x, 0
	}
	return x - n.dead[column], n.dead[column]
}

// gatherDead is gather for features with dead values z and V = diag((x-z)^2). The slice dead has z by column.
func (r Row) gatherDead(p, z, dead []float64) (s, h, t, u float64) {
	for j, c := range r.Index {
		x := r.At(j) - dead[c]
		a, b := p[2*c], p[2*c+1]
		s += a * x
		h += a * dead[c]
		z[j] = x * x * b
		t += a * z[j]
		u += a * a * x * x
	}
	return s, h, t, u
}

// counts reports whether row n has a view with positive weight.
func (o *Expected) counts(n int) bool {
	for _, m := range o.m[n*len(o.views):][:len(o.views)] {
		if m != 0 {
			return true
		}
	}
	return false
}

// eachView calls f for every view with positive weight, on all threads. g is the group of its row, see Summer.
func (o *Expected) eachView(f func(g, i int)) {
	n := len(o.views)
	o.sum.Each(func(g, lo, hi int) {
		for i := n * lo; i < n*hi; i++ {
			if o.m[i] != 0 {
				f(g, i)
			}
		}
	})
}

// sumViews returns the sum of f over the views with positive weight. f may add to acc, whose sums are written to out, as
// Summer.Sum does.
func (o *Expected) sumViews(out []float64, f func(i int, acc []float64) float64) float64 {
	n := len(o.views)
	return o.sum.Sum(out, func(lo, hi int, acc []float64) float64 {
		sum := 0.0
		for i := n * lo; i < n*hi; i++ {
			if o.m[i] != 0 {
				sum += f(i, acc)
			}
		}
		return sum
	})
}

// hessianSums holds the sums over the views of a row in the Hessian,
//
//	xx x x' + x1 (x c' + c x') + one c c' + xz (x z' + z x') + z1 (c z' + z c') + zz z z' + v V,
//
// where x is the part of the row that can fail and c is the part that cannot (including the intercept). The vector z is
// V w. The factor v is used for groups only.
type hessianSums struct{ xx, x1, one, xz, z1, zz, v float64 }

func (o *Expected) hessianSums(n int) (e hessianSums) {
	for k, a := range o.views {
		i := n*len(o.views) + k
		m := o.m[i]
		if m == 0 {
			continue
		}
		ff, fv, vv := m*o.ff[i], 2*m*o.fv[i]*a.spread, 4*m*o.vv[i]*(a.spread*a.spread)
		e.one += ff
		e.x1 += ff * a.keep
		e.xx += ff * (a.keep * a.keep)
		e.z1 += fv
		e.xz += fv * a.keep
		e.zz += vv
		if o.groups != nil {
			e.v += 2 * m * o.dv[i] * a.spread
		}
	}
	return e
}

// hessianPull returns the contribution of row n to the Hessian's product with a vector v, without the term V v. The
// arguments s, one and t are results of gather and the intercept.
func (o *Expected) hessianPull(n int, s, one, t, base float64) (p rowGradient) {
	for k, a := range o.views {
		i := n*len(o.views) + k
		m := o.m[i]
		if m == 0 {
			continue
		}
		ff, fv, vv := o.ff[i], o.fv[i], o.vv[i]
		f, v := a.keep*s+one, a.spread*t+base
		p.add(a, m*(ff*f+2*fv*v), m*(2*fv*f+4*vv*v))
	}
	return p
}

// dot returns w.x in two parts: s for the part of x that can fail, and h for the part of x that cannot fail.
func (o *Expected) dot(r Row, w []float64) (s, h float64) {
	if o.dead == nil {
		return r.Dot(w), 0
	}
	for j, c := range r.Index {
		x, dead := o.apart(r.At(j), c)
		s, h = s+w[c]*x, h+w[c]*dead
	}
	return s, h
}

// addTo adds the contribution p to acc by column, without the variance term of p and without the intercept.
func (o *Expected) addTo(r Row, acc []float64, p rowGradient) {
	if o.dead == nil {
		r.AddTo(acc, p.x)
		return
	}
	for j, c := range r.Index {
		x, dead := o.apart(r.At(j), c)
		acc[c] += p.x*x + p.one*dead
	}
}

// Views returns the number of views of a row. It is 1, except under silent noise.
func (o *Expected) Views() int { return len(o.views) }

// AtView returns the mean of a column in a view of a row, and its variance, if its value in the row is x. The variance
// is 0 without noise. It does not include a constant variance, and is not defined for noise that removes groups.
func (o *Expected) AtView(view int, x float64, column uint32) (mean, variance float64) {
	a := &o.views[view]
	alive, dead := o.apart(x, column)
	return a.keep*alive + dead, a.spread * (o.c1 + o.c2*alive) * alive
}

// dotView returns the score of view i without the intercept.
func (o *Expected) dotView(i int, w []float64) float64 {
	s, h := o.dot(o.p.Data.Row(i/len(o.views)), w)
	return o.views[i%len(o.views)].keep*s + h
}
