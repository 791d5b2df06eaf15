package batch

// This file implements silent noise (loss.Silent). A dead feature reads its
// dead value z, usually a neutral one. The survivors keep their values. The
// share q of features that die is one of several rates.
//
// At rate q the score of such an event has the mean and the variance
//
//	m = b + w.z + (1-q) w.(x-z),  v = q (1-q) w'V w,
//
// with V = diag((x-z)^2) or, for groups, the sum of the outer products of
// their own (x-z). The mean is affine in w and the variance is a square of a
// linear map of w, as for any other noise. So each row counts once for each
// rate, as a view with its own importance. Convexity, Newton's method and the
// certificate do not change. The features are read once for all views.

import (
	"errors"
	"fmt"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// view is one way to see a row: the factor of its features x-z in the score and the factor of V in the variance. Noise
// that is not silent has one view with factors 1.
type view struct{ keep, spread float64 }

// see sets the views and the dead values of a noise. It returns the noise whose variances are V.
func (n *noising) see(d *Data, noise loss.Noise) loss.Noise {
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

// silentGroups returns which features of Data die together, see jointNoise.
func silentGroups(d *Data, n loss.Silent) (*groupNoise, error) {
	g, err := jointNoise(d, n.Squares())
	if errors.Is(err, model.ErrNoGroups) {
		return nil, fmt.Errorf("noise %v: %w", n, model.ErrNoGroups)
	}
	if err != nil || g == nil {
		return nil, err
	}
	for _, pair := range g.pair {
		if pair[1] >= 0 {
			return nil, fmt.Errorf("noise %v: a product of fields of two groups dies more often than its groups do, which is not known here: leave out the crosses between groups, or take silent:%v", n, n.D)
		}
	}
	return g, nil
}

// SetDead sets the value of each column of the Schema under silent death, in the units of the data. Only silent noise
// uses it. The default is 0. A feature that an example does not hold cannot die.
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

// deadOf returns the function of SetDead.
func (d *Data) deadOf() func(column uint32) float64 {
	read := map[uint32]float64{}
	for c, z := range d.dead {
		read[d.columns[c]] = z
	}
	return func(column uint32) float64 { return read[column] }
}

// add adds the pull of a view, given its derivatives by the score and by the variance.
func (p *pull) add(a view, df, dv float64) {
	p.x += a.keep * df
	p.one += df
	p.v += a.spread * dv
}

// apart splits the value of a column into the part that survives and the part that dies.
func (n *noising) apart(x float64, column uint32) (alive, dead float64) {
	if n.dead == nil {
		return x, 0
	}
	return x - n.dead[column], n.dead[column]
}

// gatherDead is gather with dead values by column and V = diag((x-z)^2).
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

// counts reports whether a row has a view of positive weight.
func (o *Expected) counts(n int) bool {
	for _, m := range o.m[n*len(o.views):][:len(o.views)] {
		if m != 0 {
			return true
		}
	}
	return false
}

// eachView calls Each of o.sum with views in place of rows.
func (o *Expected) eachView(f func(g, lo, hi int)) {
	n := len(o.views)
	o.sum.Each(func(g, lo, hi int) { f(g, n*lo, n*hi) })
}

// sumViews calls Sum of o.sum with views in place of rows, for the value alone.
func (o *Expected) sumViews(f func(lo, hi int) float64) float64 {
	n := len(o.views)
	return o.sum.Sum(nil, func(lo, hi int, _ []float64) float64 { return f(n*lo, n*hi) })
}

// bent reports whether a row has second derivatives.
func (o *Expected) bent(n int) bool {
	for k := range o.views {
		i := n*len(o.views) + k
		if o.m[i] != 0 && (o.ff[i] != 0 || o.fv[i] != 0 || o.vv[i] != 0) {
			return true
		}
	}
	return false
}

// bend is what the views of a row sum up to in the Hessian,
//
//	xx x x' + x1 (x c' + c x') + one c c' + xz (x z' + z x') + z1 (c z' + z c') + zz z z' + v V,
//
// x being what dies, c what does not, the intercept with it, and z = V w. v is that of groups alone.
type bend struct{ xx, x1, one, xz, z1, zz, v float64 }

func (o *Expected) bend(n int) (e bend) {
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

// bentPull returns the pull of a row in the Hessian's product with a vector, without v V times the vector. s, one and t
// come from gather and the intercept.
func (o *Expected) bentPull(n int, s, one, t, base float64) (p pull) {
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

// dot returns two parts of w.x: of what survives and of what dies.
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

// addTo adds a pull without variances to acc by column, without the intercept.
func (o *Expected) addTo(r Row, acc []float64, p pull) {
	if o.dead == nil {
		r.AddTo(acc, p.x)
		return
	}
	for j, c := range r.Index {
		x, dead := o.apart(r.At(j), c)
		acc[c] += p.x*x + p.one*dead
	}
}

// seen returns the value x of a column in view i, without noise.
func (o *Expected) seen(i int, x float64, column uint32) float64 {
	alive, dead := o.apart(x, column)
	return o.views[i%len(o.views)].keep*alive + dead
}

// dotView returns the score of view i, without the intercept.
func (o *Expected) dotView(i int, w []float64) float64 {
	s, h := o.dot(o.p.Data.Row(i/len(o.views)), w)
	return o.views[i%len(o.views)].keep*s + h
}
