package batch

// This file has noise that removes whole groups of features (loss.GroupDropout): its variances, gradients and
// curvatures. The features of a group vary together, so V_n, the covariance of row n's noisy features, is not diagonal:
//
//	V = sum_u rate_u x_u x_u' + diag(own_d x_d^2),
//
// where x_u is the part of the row whose features are removed with the unit u. A unit of the first kind is a group with
// rate r_g, including the products with one of its fields. A unit of the second kind has the products of a pair of
// groups a and b, with rate r_a r_b. The factor own_d is r prod (1 + r_g) over the groups with which feature d is
// removed. V is still a sum of squares of linear maps, so v = w'V w is a squared norm. So all properties of the losses
// and of the certificate hold. In the derivation of Gap, p = V^1/2 w becomes the vector of all rate_u^1/2 w.x_u and
// own_d^1/2 w_d x_d.
//
// A number with a spline (model.Splines) is one feature with several columns. It is a unit with rate r (1 + r_g), which
// is part of the unit of its group, and own_d = 0.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// columnFields has the field of each column of the Schema, 0 for the anonymous field, stored in pages.
type columnFields [][]uint16

// fieldPage is the number of columns on a page.
const fieldPage = 1 << 12

func (f columnFields) of(column uint32) uint16 {
	if page := int(column / fieldPage); page < len(f) && f[page] != nil {
		return f[page][column%fieldPage]
	}
	return 0
}

// Fields records the fields of an event's columns. Add calls it for an event with Field. A Scaler may add columns, so
// call Fields with the event as it was before standardization. A column with two fields belongs to the field with the
// lower id.
func (b *Builder) Fields(e *event.Example) {
	for i, id := range e.Field {
		if id == 0 {
			continue
		}
		column := e.Features.Index[i]
		page := int(column / fieldPage)
		for page >= len(b.d.fields) {
			b.d.fields = append(b.d.fields, nil)
		}
		if b.d.fields[page] == nil {
			b.d.fields[page] = make([]uint16, fieldPage)
		}
		if at := &b.d.fields[page][column%fieldPage]; *at == 0 || id < *at {
			*at = id
		}
	}
}

// units has the sets of columns that noise removes together.
type units struct {
	of   []int32    // unit of each compact column
	pair [][2]int32 // the two groups of a pair, by unit; -1 and -1 for a group
	name []string   // name of the group, by unit
	hash []uint64   // hash of the name by unit, see model.Grouping.Hash
}

// units returns the units that the Schema's groups form among the columns, or model.ErrNoGroups.
func (d *Data) units() (*units, error) {
	g := model.NewGrouping(d.Schema)
	if err := g.Check(); err != nil {
		return nil, err
	}
	u := &units{of: make([]int32, d.Columns())}
	for c := range u.of {
		column := d.splines.Source(d.Column(c))
		u.of[c] = g.Of(d.fields.of(column), column)
	}
	for i := range int32(g.Len()) {
		a, b, ok := g.Pair(i)
		if !ok {
			a, b = -1, -1
		}
		u.pair, u.name, u.hash = append(u.pair, [2]int32{a, b}), append(u.name, g.Name(i)), append(u.hash, g.Hash(i))
	}
	return u, nil
}

// groupNoise is the noise GroupDropout on the columns of Data. For Data with splines it also represents Dropout.
type groupNoise struct {
	*units           // for a spline, pair has the unit of its group, and -1
	rate   []float64 // rate by unit, see the formula of V
	own    []float64 // own_d by unit, equal for all its features
}

// jointNoise returns the noise as a groupNoise if it removes some features of Data together. It returns nil if the
// noise of all features is independent.
func jointNoise(d *Data, noise loss.Noise) (*groupNoise, error) {
	switch n := noise.(type) {
	case loss.Silent:
		return silentGroups(d, n)
	case loss.GroupDropout:
		return newGroupNoise(d, n)
	case loss.Dropout:
		if d.splines == nil {
			return nil, nil
		}
		r := n.Q / (1 - n.Q)
		g := &groupNoise{&units{of: make([]int32, d.Columns()), pair: [][2]int32{{-1, -1}}}, []float64{0}, []float64{r}}
		g.addSplines(d, func(int32) float64 { return r }, false)
		return g, nil
	}
	if c0, c1, c2 := noise.Coefficients(); d.splines != nil && (c0 != 0 || c1 != 0 || c2 != 0) {
		return nil, fmt.Errorf("noise %v does not delete numbers, and %w; use dropout, group or none, or no splines", noise, ErrSplines)
	}
	return nil, nil
}

// ErrSplines is the reason why a noise or an objective does not support Data with splines (see Data.HasSplines).
var ErrSplines = errors.New("splines, whose columns die together, are not supported")

// SupportsSplines reports whether the problem of c supports splines.
func (c Config) SupportsSplines() bool {
	splines, err := model.NewSplines([]uint32{0}, [][]float64{model.Present()})
	if err != nil {
		panic(err)
	}
	b := Builder{Splines: splines}
	for label := range 2 {
		x := event.Vec{Index: []uint32{0, splines.BasisColumn(0, 0)}, Value: []float64{1, 1}}
		if err := b.Add(&event.Example{Features: x, Label: label, Weight: 1}); err != nil {
			panic(err)
		}
	}
	d := b.Data(event.NewSchema(1, []string{"0", "1"}, 2))
	if c.Check() != nil {
		return false
	}
	c.MaxIterations, c.Progress, c.Pause = 1, nil, nil
	_, err = Train(context.Background(), d, c)
	return !errors.Is(err, ErrSplines)
}

// addSplines adds a unit for each number with a spline. The function odds returns the odds that the number is removed,
// given its group. If groups is true, the unit is also removed whenever its group is.
func (g *groupNoise) addSplines(d *Data, odds func(group int32) float64, groups bool) {
	if d.splines == nil {
		return
	}
	first := map[int]int32{} // unit by spline
	for c := range g.of {
		spline := d.splines.Of(d.Column(c))
		if spline < 0 {
			continue
		}
		unit, ok := first[spline]
		if !ok {
			group := int32(-1)
			if groups {
				group = g.of[c]
			}
			unit = int32(len(g.pair))
			first[spline] = unit
			g.pair, g.rate, g.own = append(g.pair, [2]int32{group, -1}), append(g.rate, odds(g.of[c])), append(g.own, 0)
		}
		g.of[c] = unit
	}
}

func newGroupNoise(d *Data, n loss.GroupDropout) (*groupNoise, error) {
	u, err := d.units()
	if err != nil {
		return nil, fmt.Errorf("noise %v: %w", n, err)
	}
	g := &groupNoise{u, make([]float64, len(u.pair)), make([]float64, len(u.pair))}
	r := n.Q / (1 - n.Q)
	odds := make([]float64, len(u.pair)) // r_g by unit, for units that are groups
	for i, name := range u.name {
		_, odds[i] = n.Odds(name)
	}
	for i, pair := range u.pair {
		g.rate[i], g.own[i] = odds[i], r*(1+odds[i])
		if pair[0] >= 0 {
			a, b := odds[pair[0]], odds[pair[1]]
			g.rate[i], g.own[i] = a*b, r*(1+a)*(1+b)
		}
	}
	g.addSplines(d, func(group int32) float64 { return r * (1 + odds[group]) }, true)
	return g, nil
}

// features returns, for every entry of a row, the index of the first entry of its feature, and the number of features.
// The first entry of a number is followed by its spline columns.
func (d *Data) features(r Row) (first []int, n int) {
	first = make([]int, len(r.Index))
	for j, c := range r.Index {
		column := d.Column(int(c))
		if column < model.FirstBasisColumn || d.splines == nil {
			first[j] = j
			n++
			continue
		}
		source := d.splines.Source(column)
		first[j] = sort.Search(j, func(k int) bool { return d.Column(int(r.Index[k])) >= source })
	}
	return first, n
}

// groupSums accumulates sums by unit while a row is read. All sums are zero between rows.
type groupSums struct {
	a, b []float64
	seen []bool
	list []int32   // units in the current row
	in   [][]int32 // entries of the row by unit, used by addTo
}

func (g *groupNoise) sums() *groupSums {
	n := len(g.pair)
	s := make([]float64, 2*n)
	return &groupSums{a: s[:n], b: s[n:], seen: make([]bool, n)}
}

func (s *groupSums) add(unit int32) {
	if !s.seen[unit] {
		s.seen[unit] = true
		s.list = append(s.list, unit)
	}
}

// gather returns, for the pairs (a_d, b_d) of p,
//
//	s = x.a,  t = a'V b,  u = a'V a,
//
// and writes V b to z and V a to za, by entry. If features have dead values, given by column, x
// is relative to these values, and h = dead.a.
func (g *groupNoise) gather(r Row, p, z, za, dead []float64, sums *groupSums) (s, h, t, u float64) {
	sums.list = sums.list[:0]
	for j, c := range r.Index {
		x, unit := r.At(j), g.of[c]
		if dead != nil {
			x -= dead[c]
			h += dead[c] * p[2*c]
		}
		a, b := x*p[2*c], x*p[2*c+1]
		sums.add(unit)
		sums.a[unit] += a
		sums.b[unit] += b
		s += a
		z[j] = b
		za[j] = a
		t += g.own[unit] * a * b
		u += g.own[unit] * a * a
	}
	// A pair's features are removed if either of its two groups is removed.
	for _, unit := range sums.list {
		if pair := g.pair[unit]; pair[0] >= 0 {
			for _, group := range pair {
				if group < 0 {
					continue
				}
				sums.add(group)
				sums.a[group] += sums.a[unit]
				sums.b[group] += sums.b[unit]
			}
		}
	}
	for _, unit := range sums.list {
		a, b, rate := sums.a[unit], sums.b[unit], g.rate[unit]
		t += rate * a * b
		u += rate * a * a
		sums.a[unit], sums.b[unit] = rate*a, rate*b
	}
	for _, unit := range sums.list {
		for _, group := range g.pair[unit] {
			if group >= 0 {
				sums.a[unit] += sums.a[group]
				sums.b[unit] += sums.b[group]
			}
		}
	}
	for j, c := range r.Index {
		x, unit := r.At(j), g.of[c]
		if dead != nil {
			x -= dead[c]
		}
		z[j] = x * (sums.b[unit] + g.own[unit]*z[j])
		za[j] = x * (sums.a[unit] + g.own[unit]*za[j])
	}
	for _, unit := range sums.list {
		sums.a[unit], sums.b[unit], sums.seen[unit] = 0, 0, false
	}
	return s, h, t, u
}

// variance returns V_dd/x_d^2 of any feature of a unit.
func (g *groupNoise) variance(unit int32) float64 {
	v := g.own[unit] + g.rate[unit]
	for _, group := range g.pair[unit] {
		if group >= 0 {
			v += g.rate[group]
		}
	}
	return v
}

// addTo adds k V of a row to the upper triangle of the matrix a with n columns.
func (g *groupNoise) addTo(a []float64, n int, r Row, k float64, dead []float64, sums *groupSums) {
	at := func(j int) float64 {
		if dead == nil {
			return r.At(j)
		}
		return r.At(j) - dead[r.Index[j]]
	}
	if sums.in == nil {
		sums.in = make([][]int32, len(g.pair))
	}
	sums.list = sums.list[:0]
	add := func(unit int32, j int) {
		sums.add(unit)
		sums.in[unit] = append(sums.in[unit], int32(j))
	}
	for j, c := range r.Index {
		unit, x := g.of[c], at(j)
		a[int(c)*n+int(c)] += k * g.own[unit] * x * x
		add(unit, j)
		for _, group := range g.pair[unit] {
			if group >= 0 {
				add(group, j)
			}
		}
	}
	for _, unit := range sums.list {
		in := sums.in[unit]
		for i, j := range in {
			row, x := a[int(r.Index[j])*n:], k*g.rate[unit]*at(int(j))
			for _, l := range in[i:] {
				row[r.Index[l]] += x * at(int(l))
			}
		}
		sums.in[unit], sums.seen[unit] = in[:0], false
	}
}

// variances returns the sum over the rows of 2 dv V_dd by column, at the point of the last gradient.
func (o *Expected) variances() []float64 {
	if o.groups == nil {
		return o.shrink
	}
	o.pass()
	o.sum.Sum(o.shrink, func(lo, hi int, acc []float64) float64 {
		for n := lo; n < hi; n++ {
			k := 0.0
			for v, a := range o.views {
				i := n*len(o.views) + v
				k += a.spread * (2 * o.m[i] * o.dv[i])
			}
			if k == 0 {
				continue
			}
			r := o.p.Data.Row(n)
			for j, c := range r.Index {
				x, _ := o.apart(r.At(j), c)
				acc[c] += k * o.groups.variance(o.groups.of[c]) * x * x
			}
		}
		return 0
	})
	return o.shrink
}

// groupMask draws which groups are removed from a copy of an event. A draw depends only on the seed, the numbers of the
// event and the copy, and the name of the group.
type groupMask struct {
	seed    uint64
	n, copy int
}

// groupChance is the probability that a group is removed. The group is identified by its Hash.
type groupChance struct {
	hash uint64
	q    float64
}

// dead reports whether a unit is removed. The argument groups has the unit's group. For a pair it has two groups, and
// the pair is removed if either group is.
func (m groupMask) dead(groups []groupChance) bool {
	for _, g := range groups {
		var pcg rand.PCG
		pcg.Seed(m.seed^g.hash, uint64(m.n)<<16^uint64(m.copy))
		if float64(pcg.Uint64()>>11)/(1<<53) < g.q {
			return true
		}
	}
	return false
}

// chances returns the removal probabilities under n of the groups that a unit depends on.
func (u *units) chances(n loss.GroupDropout, unit int32) []groupChance {
	if pair := u.pair[unit]; pair[0] >= 0 {
		a, b := pair[0], pair[1]
		return []groupChance{{u.hash[a], n.Rate(u.name[a])}, {u.hash[b], n.Rate(u.name[b])}}
	}
	return []groupChance{{u.hash[unit], n.Rate(u.name[unit])}}
}
