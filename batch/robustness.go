package batch

// This file forecasts the error of a model when a fraction of the features is missing.

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
)

const (
	// For events with up to maskedFeatures features the forecast sums over all masks and is exact. For events with more
	// features it sums over the masks of the maskedLargest features with the largest contribution.
	maskedFeatures, maskedLargest = 12, 6
	// sampledMasks is the total number of masks drawn for more than two classes.
	sampledMasks = 40_000
	// sampledImputed limits the number of masks times the columns of the Covariance if numbers are imputed, because
	// imputing for a mask takes longer.
	sampledImputed = 200_000
)

// robustness forecasts the error in percent if a fraction d of the features is missing at random, for each d of
// deletions. The model predicts from the remaining features. If named fields are missing, the model detects that, and
// model.Missing gives the factor s of the remaining features. Words and the columns of sparse text are absent without
// notice, so s = 1.
//
// For two classes the score is nearly normal (docs/mathematics.md). Its mean is s (1-d) f and its variance s^2 d (1-d)
// sum_j w_j^2 x_j^2, which gives the probability of a wrong prediction. The few largest contributions to a score are
// not normal. So the forecast sums over their masks, which is exact for events with few features. If there are more
// classes, or if missing numbers are imputed, masks are drawn at random.
//
// For regression the error is the root mean squared error. It follows exactly from the first two moments of the score,
// or of the rate of a count (section 14 of docs/mathematics.md).
func (w linear) robustness(d measured, deletions []float64, rest func(row int)) []float64 {
	switch {
	case len(w) > 1 || d.imputes():
		return w.groupRobustness(d, nil, deletions, rest)
	case d.target != loss.Sign:
		return averageCost(d, deletions, rest, w.forecastSquares)
	}
	return averageCost(d, deletions, rest, w.forecast)
}

// forecastSquares adds the expected squared errors of event i for regression.
func (w linear) forecastSquares(d measured, i int, deletions, cost []float64) {
	parts, _ := w.parts(d, d.Row(i))
	b, y := w.intercept(d.Data, 0), d.Target(i)
	for k, q := range deletions {
		f, v, first, second := b, 0.0, loss.Exp(b), loss.Exp(2*b)
		for _, part := range parts {
			f += (1 - q) * part
			v += q * (1 - q) * part * part
			if d.target == loss.Count {
				first *= (1-q)*loss.Exp(part) + q
				second *= (1-q)*loss.Exp(2*part) + q
			}
		}
		squares := (y-f)*(y-f) + v
		if d.target == loss.Count {
			squares = y*y - 2*y*first + second
		}
		cost[k] += d.Weight(i) * max(squares, 0)
	}
}

// parts returns the contribution of each feature of a row to the score of one output, and the number of features. A
// number and its spline columns count as one feature.
func (w linear) parts(d measured, row Row) (parts []float64, features int) {
	first, features := d.features(row)
	parts = make([]float64, len(row.Index))
	for j, c := range row.Index {
		parts[first[j]] += row.At(j) * w[0][c]
	}
	return parts, features
}

// groupRobustness returns the robustness forecast when a fraction of the groups is missing, for each fraction of
// deletions. Masks are drawn at random. All features of a missing group are missing. A product of two groups is missing
// if either group is. If there are no groups, every feature is its own group.
func (w linear) groupRobustness(d measured, u *units, deletions []float64, rest func(row int)) []float64 {
	return averageCost(d, deletions, rest, func(d measured, i int, deletions, cost []float64) {
		w.forecastSampled(d, u, i, deletions, cost)
	})
}

// averageCost calls add for each event to sum the costs, and returns the average cost as an error in percent, for each
// fraction of deletions.
func averageCost(d measured, deletions []float64, rest func(row int), add func(d measured, i int, deletions, cost []float64)) []float64 {
	cost := make([]float64, len(deletions))
	total := 0.0
	for i := range d.Rows() {
		rest(i)
		total += d.Weight(i)
		add(d, i, deletions, cost)
	}
	for i := range cost {
		cost[i] = d.error(cost[i], total)
	}
	return cost
}

// forecast adds the probability that event i is predicted wrongly to wrong, for each fraction of deletions. It is for
// two classes.
func (w linear) forecast(d measured, i int, deletions, wrong []float64) {
	b := w.intercept(d.Data, 0)
	part, features := w.parts(d, d.Row(i))
	part = slices.DeleteFunc(part, func(p float64) bool { return p == 0 })
	slices.SortFunc(part, func(x, y float64) int { return cmp.Compare(math.Abs(y), math.Abs(x)) })
	large := len(part)
	if large > maskedFeatures {
		large = maskedLargest
	}
	// For each mask of the large contributions, the sum of the small contributions is nearly normal.
	f, v := 0.0, 0.0
	for _, p := range part[large:] {
		f += p
		v += p * p
	}
	var sum [1 << maskedFeatures]float64           // sums by mask of surviving contributions
	var chance, factor [maskedFeatures + 1]float64 // values by number of survivors
	for mask := 1; mask < 1<<large; mask++ {
		sum[mask] = sum[mask&(mask-1)] + part[bits.TrailingZeros(uint(mask))]
	}
	for k, q := range deletions {
		for s := range large + 1 {
			chance[s] = math.Pow(1-q, float64(s)) * math.Pow(q, float64(large-s))
		}
		for s := range factor[:large+1] {
			fraction := q // fraction missing, which is exact if all masks are summed
			if large == features && large > 0 {
				fraction = 1 - float64(s)/float64(large)
			}
			factor[s], _ = d.deleted(i, fraction)
		}
		below := 0.0 // P(score <= 0)
		for mask, x := range sum[:1<<large] {
			survive := bits.OnesCount(uint(mask))
			p, scale := chance[survive], factor[survive]
			sd := scale * math.Sqrt(q*(1-q)*v)
			switch mean := scale*(x+(1-q)*f) + b; {
			case p == 0:
			case sd > 0:
				below += p * 0.5 * loss.Erfc(mean/(sd*math.Sqrt2))
			case mean <= 0:
				below += p
			}
		}
		if d.Label(i) != 1 {
			below = 1 - below
		}
		below = max(0, min(below, 1)) // removes rounding errors of the sum
		wrong[k] += d.Weight(i) * below
	}
}

// forecastSampled forecasts event i with random masks. A group that survives one deleted fraction survives every
// smaller fraction. This makes the error a smoother function of the fraction.
func (w linear) forecastSampled(d measured, u *units, i int, deletions, cost []float64) {
	row, k := d.Row(i), len(w)
	first, features := d.features(row)
	most := sampledMasks
	var x []float64
	var has, roles model.ColumnRoles
	if d.imputes() {
		n := len(d.covariance.Columns)
		most = min(most, sampledImputed/n)
		x, has, roles = make([]float64, n), make(model.ColumnRoles, n), make(model.ColumnRoles, n)
		for j, c := range row.Index {
			if at := d.place[c]; at >= 0 {
				if x[at] = row.At(j); !model.IsOutlier(x[at]) {
					has[at] = model.Observed
				}
			}
		}
	}
	draw := newDying(i, len(row.Index))
	luckOf := draw.luck
	// fill adds times the expected contribution to the scores of the numbers that are missing with probability p.
	fill := func(p, times float64, scores []float64) {
		copy(roles, has)
		for j, c := range row.Index {
			if at := d.place[c]; at >= 0 && luckOf[j] < p {
				roles[at] = model.Imputed
			}
		}
		how := d.covariance.Imputation(roles)
		if how == nil {
			return
		}
		how.Expect(x)
		for j, c := range row.Index {
			if at := d.place[c]; at >= 0 && luckOf[j] < p {
				for o := range k {
					scores[o] += times * x[at] * w[o][c]
				}
				x[at] = row.At(j)
			}
		}
	}
	draws := max(1, min(64, most/d.Rows()))
	scores, left := make([]float64, k*len(deletions)), make([]float64, len(deletions))
	for range draws {
		clear(scores)
		clear(left)
		draw.again(row, first, u)
		for j, c := range row.Index {
			for q, p := range deletions {
				value := 0.0 // of a missing feature
				if luckOf[j] >= p {
					if value = row.At(j); first[j] == j {
						left[q]++
					}
				} else if d.silently && d.dead != nil {
					value = d.dead[c]
				}
				if value == 0 {
					continue
				}
				for o := range k {
					scores[q*k+o] += value * w[o][c]
				}
			}
		}
		for q := range deletions {
			scale := d.scale(i)
			if n := float64(features); n > 0 && left[q] < n && !d.silently {
				fraction := 0.0
				if scale, fraction = d.deleted(i, 1-left[q]/n); fraction > 0 {
					fill(deletions[q], fraction/scale, scores[q*k:][:k])
				}
			}
			for o := range k {
				scores[q*k+o] = scale*scores[q*k+o] + w.intercept(d.Data, o)
			}
			cost[q] += d.cost(i, scores[q*k:q*k+k]) * (d.Weight(i) / float64(draws))
		}
	}
}

// dying draws which features of an event are missing. A feature is missing if its random number is below the deleted
// fraction. All features of a group share one random number. A product of two groups uses the smaller of the groups'
// numbers.
type dying struct {
	r       rand.PCG
	luck    []float64 // random numbers, by entry of the row
	byGroup map[int32]float64
}

// newDying returns the draws for event i, which has the given number of entries.
func newDying(i, entries int) *dying {
	d := &dying{luck: make([]float64, entries), byGroup: map[int32]float64{}}
	d.r.Seed(uint64(i), 0x626c616e6b6f7574)
	return d
}

// again draws new random numbers. The argument first holds, for each entry, the first entry of its feature.
func (d *dying) again(row Row, first []int, u *units) {
	clear(d.byGroup)
	for j, c := range row.Index {
		switch {
		case first[j] < j:
			d.luck[j] = d.luck[first[j]]
		case u == nil:
			d.luck[j] = d.draw()
		case u.pair[u.of[c]][0] >= 0:
			d.luck[j] = min(d.group(u.pair[u.of[c]][0]), d.group(u.pair[u.of[c]][1]))
		default:
			d.luck[j] = d.group(u.of[c])
		}
	}
}

func (d *dying) draw() float64 { return float64(d.r.Uint64()>>11) / (1 << 53) }

func (d *dying) group(g int32) float64 {
	luck, ok := d.byGroup[g]
	if !ok {
		luck = d.draw()
		d.byGroup[g] = luck
	}
	return luck
}

// silentRobustness is groupRobustness for features that fail silently. A dead number reads the value that Data.SetDead
// has set. Other dead features are absent, and the surviving features keep their values.
func (w linear) silentRobustness(d measured, u *units, deletions []float64, rest func(row int)) []float64 {
	d.silently, d.covariance = true, nil
	return w.groupRobustness(d, u, deletions, rest)
}

// measured has the events on which weights are measured. They are predicted with a model's missing policies.
type measured struct {
	*Data
	missing  []model.MissingCount // missing counts by row
	parts    []string             // by row: model.ColumnRoles if columns are imputed, else ""
	level    []int                // noise level that predicts the event, by row, see model.MissingHandling
	policies *model.Missing
	// The field covariance imputes missing numbers; nil if the model has no covariance. The field place has the index
	// in covariance of each compact column, -1 for columns that covariance does not have.
	covariance *model.Covariance
	place      []int
	target     loss.Target // kind of target
	silently   bool        // features fail silently, so that no missing policy applies
}

// cost returns the cost of a prediction for event i. For classification the cost is 1 if the prediction is wrong, else
// 0. For regression it is the squared error.
func (m measured) cost(i int, scores []float64) float64 {
	if m.target != loss.Sign {
		off := m.Target(i) - model.ValueOf(m.target, scores[0])
		return off * off
	}
	if model.Predict(scores) != m.Label(i) {
		return 1
	}
	return 0
}

// error converts a sum of costs and a sum of weights to an error. The error is in percent or, for regression, the root
// mean squared error.
func (m measured) error(cost, weight float64) float64 {
	if m.target != loss.Sign {
		return math.Sqrt(max(cost/weight, 0))
	}
	return 100 * cost / weight
}

// measured returns the events of the given rows.
func (v *Evidence) measured(rows []int) measured {
	m := measured{Data: v.all().Subset(rows), policies: v.live.Missing, target: v.live.Target()}
	for _, row := range rows {
		m.missing = append(m.missing, v.missing[row].Value())
		m.parts = append(m.parts, v.parts[row].Value())
		m.level = append(m.level, v.levels[row])
	}
	if c := v.live.Covariance; c != nil {
		m.covariance = c
		for i := range m.Columns() {
			at, ok := slices.BinarySearch(c.Columns, m.Column(i))
			if !ok {
				at = -1
			}
			m.place = append(m.place, at)
		}
	}
	return m
}

// imputes reports whether missing numbers are imputed at some missing fraction.
func (m measured) imputes() bool {
	return m.covariance != nil && m.policies != nil && slices.ContainsFunc(m.policies.Policies[:], func(s model.PolicyWeights) bool { return s[2]+s[3] > 0 })
}

// answer returns how the model scores event i.
func (m measured) answer(i int) model.MissingHandling {
	var roles model.ColumnRoles
	if m.parts[i] != "" {
		roles = model.ColumnRoles(m.parts[i])
	}
	a := m.policies.Handling(m.missing[i], roles)
	a.Level = m.level[i]
	return a
}

// scale returns the factor by which the features of event i are multiplied.
func (m measured) scale(i int) float64 {
	if m.silently {
		return 1
	}
	return m.answer(i).Scale
}

// deleted returns two values for event i after a fraction of its features was deleted. The result scale is the factor
// of the remaining features. The result fill is the weight of imputation in the score.
func (m measured) deleted(i int, fraction float64) (scale, fill float64) {
	if fraction == 0 {
		return m.scale(i), 0
	}
	var some model.ColumnRoles
	k := m.missing[i].Deleted(fraction)
	if m.covariance != nil && m.policies.ImputeWeight(k) > 0 {
		some = model.ColumnRoles{} // the caller knows which columns to impute
	}
	a := m.policies.Handling(k, some)
	return a.Scale, a.Imputes()
}
