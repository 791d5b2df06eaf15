package rows

// This file implements noise that removes whole groups of features (loss.GroupDropout). It computes the sums over the
// groups of an event, and their effect on the step.

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Groups holds the sums over the units of an event that GroupDropout needs. A unit is a group, or a pair of groups
// whose product of features is dropped with either group, see model.Grouping. The sums of w_d x_d are
//
//	F_g = s_g + sum_{c with g} s_c  of a group,  F_c = s_c  of a pair c = {a, b}
//
// A score has the variance
//
//	v = sum_g r_g F_g^2 + sum_c r_g^2 F_c^2 + sum_d own_d w_d^2 x_d^2,
//
// whose gradient is
//
//	dv/dw_d = 2 x_d (r_g F_g) + 2 own_d w_d x_d^2                       in a group,
//	dv/dw_d = 2 x_d (r_g F_a + r_g F_b + r_g^2 F_c) + 2 own_d w_d x_d^2  in a pair.
//
// The first term is added to df and is the same for all features of a unit. So optimizers step over the features unit
// by unit, in segments. A feature that is alone in its group needs no sum, because its variance equals the variance
// under ordinary dropout. Neighboring features of this kind share a segment. Each level has its rates r_g and own; a
// level without noise of groups has r_g = 0.
//
// A number with a spline is one feature with several columns. These columns form a separate unit, with the sum s of
// their w_d x_d, which is part of the group's F_g, and
//
//	v = … + r (1 + r_g) s^2,  dv/dw_d = 2 x_d (r_g F_g + r (1 + r_g) s).
//
// Each group may have its own rate (loss.GroupDropout.Rates, one level without noise of single features). Then a pair
// has the factor r_a r_b, own is 0, and every feature is in a unit with a sum.
type Groups struct {
	arrangement
	noiseRates

	// f has the sums of w_d x_d, and lag has the sums of lag_d x_d. Both are by index in units, noise level and output.
	f, lag []float64
	// By noise level and output:
	q, averageQ [unitKinds][]float64 // sums of x^2 w^2 for iterates, and of x^2 a^2 for averages
	Variance    []float64            // v of the iterates, computed by Sum
	keys        []uint64             // key of each unit of the Grouping seen so far
}

// noiseRates holds, for all levels, the rates in the formulas of Groups.
type noiseRates struct {
	n        int                  // number of noise levels times outputs
	rate     []float64            // r_g by noise level and output
	both     []float64            // r_g^2, for pairs
	own      [unitKinds][]float64 // own by noise level and output
	strength [unitKinds][]float64 // by noise level, see method segment
	byGroup  *groupOdds           // nil if all groups have the same rate
}

// NewGroups returns the Groups for the noises of the levels. It returns nil if no level has noise of groups and there
// are no splines.
func NewGroups(grouping *model.Grouping, noises []loss.Noise, outputs int, splines bool) *Groups {
	groups := slices.ContainsFunc(noises, loss.IsGrouped)
	if !groups && !splines {
		return nil
	}
	g := &Groups{}
	g.grouping, g.Grouped, g.n = grouping, groups, len(noises)*outputs
	for _, noise := range noises {
		n := loss.AsGroups(noise)
		if n.Rates != nil {
			g.byGroup = &groupOdds{}
			g.byGroup.set(n)
			g.summed = true
			n.Rates = nil
		}
		r, rg := n.Odds("")
		_, _, single := n.Coefficients()
		_, _, pair := loss.GroupDropout{Q: n.Q, Groups: n.Groups * (2 - n.Groups)}.Coefficients()
		for range outputs {
			g.rate, g.both = append(g.rate, rg), append(g.both, rg*rg)
			g.own[alone] = append(g.own[alone], single)
			g.own[grouped] = append(g.own[grouped], r*(1+rg))
			g.own[paired] = append(g.own[paired], r*(1+rg)*(1+rg))
			g.own[splined] = append(g.own[splined], 0) // see method rates
		}
		g.strength[alone] = append(g.strength[alone], single)
		g.strength[grouped] = append(g.strength[grouped], single)
		g.strength[paired] = append(g.strength[paired], pair)
		g.strength[splined] = append(g.strength[splined], single)
	}
	for kind := range unitKinds {
		g.q[kind], g.averageQ[kind] = make([]float64, g.n), make([]float64, g.n)
	}
	g.Variance = make([]float64, g.n)
	return g
}

// SetRates sets the rates of a noise with a separate rate for each group.
func (g *Groups) SetRates(n loss.GroupDropout) {
	if g.byGroup != nil {
		g.byGroup.set(n)
	}
}

// groupOdds holds the odds r_g of a noise with a separate rate for each group.
type groupOdds struct {
	noise loss.GroupDropout
	odds  []float64 // r_g by unit of the Grouping seen so far; r_a r_b for a pair
	// These are for the current event. rates has the odds by index in units and output. single has the variance of a
	// single feature by index in units, which is used as the strength of a segment.
	rates, single []float64
}

// set sets the noise, and discards the cached odds.
func (o *groupOdds) set(n loss.GroupDropout) { o.noise, o.odds = n, o.odds[:0] }

// of returns the odds r_g of a group, or r_a r_b of a pair.
func (o *groupOdds) of(g *model.Grouping, unit int32) float64 {
	for id := int32(len(o.odds)); id <= unit; id++ {
		a, b, pair := g.Pair(id)
		if !pair {
			a, b = id, id
		}
		_, odds := o.noise.Odds(g.Name(a))
		if pair {
			_, with := o.noise.Odds(g.Name(b))
			odds *= with
		}
		o.odds = append(o.odds, odds)
	}
	return o.odds[unit]
}

// arrange computes the odds of an event's units.
func (o *groupOdds) arrange(g *Groups) {
	o.rates, o.single = o.rates[:0], o.single[:0]
	for _, u := range g.units {
		odds, single := 0.0, 0.0 // the odds of a spline, which is dropped only with its number's group
		if u.kind != splined {
			odds = o.of(g.grouping, u.unit)
			single = odds
		}
		for _, p := range u.parents {
			if u.parented() && p >= 0 {
				single += o.of(g.grouping, g.units[p].unit)
			}
		}
		for range g.n {
			o.rates = append(o.rates, odds)
		}
		o.single = append(o.single, single)
	}
}

// Arrange finds the unit of each feature of s: the set of features that die together. columns holds the columns of
// these features in ascending order. A column that e does not have belongs to the anonymous field. If the features of a
// unit are not adjacent, Arrange reorders the features.
func (g *Groups) Arrange(s *Event, e *event.Example, columns []uint32, scaler *model.Scaler) {
	fields := e.Field
	if len(fields) > 0 && len(columns) > 0 && &columns[0] != &e.Features.Index[0] {
		g.fields = scaler.FieldsOf(e, columns, g.fields)
		fields = g.fields
	}
	g.ArrangeColumns(s, fields, columns, scaler.Splines)
}

// ArrangeColumns is Arrange for columns with known fields. fields is empty for a sparse text format.
func (g *Groups) ArrangeColumns(s *Event, fields []uint16, columns []uint32, splines *model.Splines) {
	g.arrangement.arrange(s, fields, columns, splines)
	if g.byGroup != nil {
		g.byGroup.arrange(g)
	}
}

// sums returns the sums f and lag of the unit at index place.
func (g *Groups) sums(place int) (f, lag []float64) {
	from, to := place*g.n, (place+1)*g.n
	return g.f[from:to:to], g.lag[from:to:to]
}

// Sum adds the event's features to f and lag like the function Sum. It also computes the variances of the iterates'
// scores. The weights start at index at of a row, and the lags start 2 n values later.
func (g *Groups) Sum(s *Event, at, n int, f, lag []float64) {
	size := len(g.units) * g.n
	g.f, g.lag = slices.Grow(g.f[:0], size)[:size], slices.Grow(g.lag[:0], size)[:size]
	clear(g.f)
	clear(g.lag)
	for kind := range g.q {
		clear(g.q[kind])
	}
	for _, p := range g.parts {
		rows, x, basis, q := s.Rows[p.from:p.to], s.X[p.from:p.to], s.Basis[p.from:p.to], g.q[p.kind]
		unitF, unitLag := f, lag
		if p.kind != alone {
			unitF, unitLag = g.sums(p.unit)
		}
		Sum(rows, at, n, x, basis, unitF, unitLag, q)
	}
	for i, u := range g.units {
		if u.count > 0 && u.kind != alone {
			unitF, unitLag := g.sums(i)
			add(f, unitF)
			add(lag, unitLag)
		}
	}
	for i, u := range g.units {
		if !u.parented() {
			continue
		}
		pairF, pairLag := g.sums(i)
		for _, p := range u.parents {
			if p < 0 {
				continue
			}
			groupF, groupLag := g.sums(int(p))
			add(groupF, pairF)
			add(groupLag, pairLag)
		}
	}
	g.variances(g.Variance, &g.q, nil)
}

func add(to, x []float64) {
	x = x[:len(to)]
	for j := range to {
		to[j] += x[j]
	}
}

// variances writes the variances v of scores to out. If q has the sums of the iterates, the scores are those of the
// iterates. If it has the sums of the averages, coefficient is the coefficient of the averages by level.
func (g *Groups) variances(out []float64, q *[unitKinds][]float64, coefficient []float64) {
	for j := range out {
		out[j] = g.own[alone][j]*q[alone][j] + g.own[grouped][j]*q[grouped][j] + g.own[paired][j]*q[paired][j]
	}
	for i, u := range g.units {
		if u.kind == alone {
			continue
		}
		f, lag := g.sums(i)
		rates := g.rates(i)
		for j, f := range f {
			if coefficient != nil {
				f += coefficient[j] * lag[j]
			}
			out[j] += rates[j] * f * f
		}
	}
}

// rates returns, by noise level and output, the factors of the squared sum of the unit at index place in the formula of
// v.
func (g *Groups) rates(place int) []float64 {
	switch kind := g.units[place].kind; {
	case g.byGroup != nil:
		return g.byGroup.rates[place*g.n:][:g.n]
	case kind == splined:
		return g.own[grouped]
	case kind == paired:
		return g.both
	}
	return g.rate
}

// Keys appends a key for each unit of the event, in the order of GroupOf.
func (g *Groups) Keys(keys []uint64) []uint64 {
	for _, u := range g.units {
		if u.kind == splined {
			keys = append(keys, 0) // the feature is dropped alone
			continue
		}
		for len(g.keys) <= int(u.unit) {
			g.keys = append(g.keys, g.grouping.Hash(int32(len(g.keys))))
		}
		keys = append(keys, g.keys[u.unit])
	}
	return keys
}

// GroupOf returns the index in Keys of the unit to which a feature of the event belongs.
func (g *arrangement) GroupOf(feature int) int {
	span, _ := slices.BinarySearchFunc(g.spans, feature+1, func(s unitSpan, end int) int { return s.end - end })
	place := g.spans[span].at
	if u := &g.units[place]; u.kind == splined {
		place = u.parents[0]
	}
	return int(place)
}

// AddPublished adds parts of the published scores to sums, by unit in the order of Keys and by output. A part is
// fraction times F_g for the weights w + coefficient lag of the outputs from index at. For a pair it is also multiplied
// by pairs. The weights begin at index first of a row. A number with a spline counts only in its group.
func (g *Groups) AddPublished(s *Event, first, at, outputs int, fraction, coefficient, pairs float64, sums []float64) {
	for i, u := range g.units {
		by := fraction
		switch u.kind {
		case alone, splined:
			continue
		case paired:
			by *= pairs
		}
		f, lag := g.sums(i)
		for k := range outputs {
			sums[i*outputs+k] += by * (f[at+k] + coefficient*lag[at+k])
		}
	}
	feature := 0
	for _, span := range g.spans {
		for single := g.units[span.at].kind == alone; feature < span.end; feature++ {
			if !single {
				continue
			}
			i := g.Row(feature)
			w := s.Rows[i][first+at:]
			lag := w[2*g.n:]
			for k := range outputs {
				sums[int(span.at)*outputs+k] += fraction * s.X[i] * (w[k] + coefficient*lag[k])
			}
		}
	}
}

// Averages writes the variances of the averages' scores to out.
func (g *Groups) Averages(s *Event, at, n int, coefficient, out []float64) {
	for kind := range g.averageQ {
		clear(g.averageQ[kind])
	}
	for _, p := range g.parts {
		SumAverages(s.Rows[p.from:p.to], at, n, s.Basis[p.from:p.to], coefficient, g.averageQ[p.kind])
	}
	g.variances(out, &g.averageQ, coefficient)
}

// Segment divides the rows of s into one segment per unit, with the factors of their gradients.
func (g *Groups) Segment(s *Step) {
	size := (len(g.units) + int(unitKinds) - 1) * g.n
	s.Factors(size)
	var shrink [unitKinds][]float64
	shrink[alone] = s.Shrink
	for kind := grouped; kind < unitKinds; kind++ {
		shrink[kind] = s.factors[size-int(kind)*g.n:][:g.n]
		for j, own := range g.own[kind] {
			shrink[kind][j] = s.H[j] * own
		}
	}
	s.Segments = s.Segments[:0]
	for _, p := range g.parts {
		df := s.DF
		if p.kind != alone {
			df = s.factors[p.unit*g.n:][:g.n]
			g.factor(p.unit, s.DF, s.H, df)
		}
		strength := g.strength[p.kind]
		if g.byGroup != nil {
			strength = g.byGroup.single[p.unit:][:1]
		}
		s.Segments = append(s.Segments, Segment{p.from, p.to, df, shrink[p.kind], strength})
	}
	if s.Intercepts {
		s.Segments = append(s.Segments, Segment{len(s.Rows) - 1, len(s.Rows), s.DF, s.Shrink, s.Strength})
	}
}

// factor computes the derivative by which the values of a unit's features are multiplied in the gradient, and writes it
// to out.
func (g *Groups) factor(place int, df, h, out []float64) {
	f, _ := g.sums(place)
	u := &g.units[place]
	rates := g.rates(place)
	if u.kind != paired {
		for j, rate := range rates {
			out[j] = df[j] + h[j]*(rate*f[j])
		}
	}
	switch {
	case u.kind == splined && u.parents[0] >= 0:
		group, _ := g.sums(int(u.parents[0]))
		for j, rate := range g.rates(int(u.parents[0])) {
			out[j] += h[j] * (rate * group[j])
		}
	case u.kind == paired:
		a, _ := g.sums(int(u.parents[0]))
		b, _ := g.sums(int(u.parents[1]))
		if g.byGroup == nil {
			for j, rate := range g.rate {
				out[j] = df[j] + h[j]*(rate*(a[j]+b[j]+rate*f[j]))
			}
			return
		}
		of, with := g.rates(int(u.parents[0])), g.rates(int(u.parents[1]))
		for j, rate := range rates {
			out[j] = df[j] + h[j]*(of[j]*a[j]+with[j]*b[j]+rate*f[j])
		}
	}
}
