package model

// This file predicts events with missing values by imputation.

import (
	"math"
	"slices"
	"sync"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// imputedWeights holds a Linear's adapted weights for one missing pattern.
type imputedWeights struct {
	extra           []float64 // added to the weights, by index in the Covariance and by output
	shift, variance []float64 // see Imputation.Weigh, by output
}

// recent caches values for the latest missing patterns, because dead sensors usually stay dead for a while. The zero
// value is empty and ready for use. It is safe for concurrent use.
type recent[T any] struct {
	mu    sync.Mutex
	byKey map[string]T
	order []string // keys of byKey; the oldest key is at next
	next  int
}

// maxRecent is the largest total of float64 values in a recent, and mostRecent is the largest number of patterns.
const maxRecent, mostRecent = 1 << 20, 4096

func (r *recent[T]) get(key string) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.byKey[key]
	return v, ok
}

// add caches a value for a key; numbers is its size in float64 values. add returns the value, or the value that another
// goroutine has added first.
func (r *recent[T]) add(key string, made T, numbers int) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.byKey[key]; ok {
		return other
	}
	if r.byKey == nil {
		r.byKey = map[string]T{}
	}
	if len(r.order) < max(1, min(mostRecent, maxRecent/max(1, numbers))) {
		r.order = append(r.order, key)
	} else {
		delete(r.byKey, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % len(r.order)
	}
	r.byKey[key] = made
	return made
}

// WithCovariance returns m with a Covariance for imputation, ready for predictions. c may be nil. m itself must not be
// used anymore.
func (m *Linear) WithCovariance(c *Covariance) *Linear {
	m.Covariance = c
	if m.Doubt != nil {
		m.Doubt = m.Doubt.With(m.Doubt.Columns) // belongs to the Covariance
	}
	if c != nil {
		m.imputations = &recent[*imputedWeights]{}
	}
	m.levels = nil
	for _, l := range m.Levels {
		m.levels = append(m.levels, m.level(l))
	}
	return m
}

// WithMissing returns a copy of m with another Missing.
func (m *Linear) WithMissing(missing *Missing) *Linear {
	out := *m
	out.Missing = missing
	return &out
}

// WithFaults returns a copy of m with other Faults.
func (m *Linear) WithFaults(f *Faults) *Linear {
	out := *m
	out.Faults = f
	return out.WithCovariance(m.Covariance)
}

// imputedWeightsFor returns the adapted weights for a pattern of roles.
func (m *Linear) imputedWeightsFor(p ColumnRoles) *imputedWeights {
	if m.imputations == nil { // weights that are still being learned have no cache
		return m.newImputedWeights(p)
	}
	if r, ok := m.imputations.get(string(p)); ok {
		return r
	}
	r := m.newImputedWeights(p)
	return m.imputations.add(string(p), r, len(r.extra))
}

func (m *Linear) newImputedWeights(p ColumnRoles) *imputedWeights {
	c, k := m.Covariance, m.Outputs
	r := &imputedWeights{extra: make([]float64, len(p)*k), shift: make([]float64, k), variance: make([]float64, k)}
	fill := c.Imputation(p)
	if fill == nil {
		return r
	}
	rows := make([][]float64, len(p))
	for i, column := range c.Columns {
		rows[i] = m.Rows.Row(column)
	}
	w, extra := make([]float64, len(p)), make([]float64, len(p))
	for output := range k {
		for i, row := range rows {
			if row != nil {
				w[i] = m.weight(row, output)
			}
		}
		r.shift[output], r.variance[output] = fill.Weigh(w, extra)
		for i, x := range extra {
			r.extra[i*k+output] = x
		}
	}
	return r
}

// ScoreMissing implements Model.
func (m *Linear) ScoreMissing(x event.Vec, e *event.Example, out []float64) []float64 {
	return m.ClassScores(m.AnswerOutputs(x, m.Handling(e), out))
}

// MarkOutliers marks outliers in x as Ignored. roles is the ColumnRoles of a MissingHandling.
func (m *Linear) MarkOutliers(x event.Vec, roles ColumnRoles) {
	for place, i := range CommonColumns(m.Covariance.Columns, x.Index) {
		if roles[place] == Observed && m.Covariance.outlier(place, x.Value[i], m.standardizes()) {
			roles[place] = Ignored
		}
	}
}

// AnswerOutputs writes the outputs for standardized features to out, by the policy weights in a. If there is one
// output, or one output per class, the outputs are the scores.
func (m *Linear) AnswerOutputs(x event.Vec, a MissingHandling, out []float64) []float64 {
	whole := m
	m = m.At(a)
	out = out[:m.Outputs]
	r := m.sumOutputs(x, a, out)
	if r == nil {
		return out
	}
	for k := range out {
		out[k] = m.widen(out[k], a.imputedVariance(r.variance[k]))
	}
	if fill := a.Weights[3]; fill > 0 {
		complete := whole.AnswerOutputs(whole.completed(x, a.Roles), MissingHandling{Scale: 1}, make([]float64, len(out)))
		for k, f := range complete {
			out[k] += fill * (f - out[k])
		}
	}
	return out
}

// completed returns the standardized features of an event with imputed numbers in place of the missing ones, and with the
// splines of these.
func (m *Linear) completed(x event.Vec, roles ColumnRoles) event.Vec {
	var added, raw event.Vec
	splines := m.Scaler.Splines != nil
	m.eachImputed(x, roles, func(column uint32, value float64) {
		row := m.Rows.Row(column)
		if row == nil {
			return
		}
		if added.Index, added.Value = append(added.Index, column), append(added.Value, value); splines {
			raw.Index, raw.Value = append(raw.Index, column), append(raw.Value, m.Scaler.Standardization(m.Stats(row)).Raw(value))
		}
	})
	if splines {
		added = m.Scaler.Splines.Append(added, raw)
	}
	var out event.Vec
	for i, column := range x.Index {
		for len(added.Index) > 0 && added.Index[0] < column {
			out.Index, out.Value = append(out.Index, added.Index[0]), append(out.Value, added.Value[0])
			added.Index, added.Value = added.Index[1:], added.Value[1:]
		}
		out.Index, out.Value = append(out.Index, column), append(out.Value, x.Value[i])
	}
	out.Index, out.Value = append(out.Index, added.Index...), append(out.Value, added.Value...)
	return out
}

// eachImputed calls f with the columns that are imputed, ascending, and their expected values.
func (m *Linear) eachImputed(x event.Vec, roles ColumnRoles, f func(column uint32, value float64)) {
	c := m.Covariance
	values := c.Values(x, nil)
	if fill := c.Imputation(roles); fill != nil {
		fill.Expect(values)
		for place, role := range roles {
			if role == Imputed {
				f(c.Columns[place], values[place])
			}
		}
	}
}

// sumOutputs writes the outputs of the policies other than fill to out, where imputed values count as certain. It returns
// the weights for imputation; nil if nothing is imputed.
func (m *Linear) sumOutputs(x event.Vec, a MissingHandling, out []float64) (r *imputedWeights) {
	clear(out)
	for i, d := range x.Index {
		if row := m.Rows.Row(d); row != nil {
			for k := range out {
				out[k] += a.Scale * x.Value[i] * m.weight(row, k)
			}
		}
	}
	if a.Roles == nil {
		for k := range out {
			out[k] += m.Intercept[k]
		}
	} else {
		r = m.imputedWeightsOf(x, a.Roles)
		m.addImputed(x, a, r, out)
	}
	m.AddCosines(x, a, out)
	return r
}

// addImputed adds the imputed values and the intercepts to the sums over an event's present features.
func (m *Linear) addImputed(x event.Vec, a MissingHandling, r *imputedWeights, out []float64) {
	imputes := a.Imputes()
	for place, i := range CommonColumns(m.Covariance.Columns, x.Index) {
		for k, extra := range r.extra[place*m.Outputs:][:m.Outputs] {
			out[k] += imputes * x.Value[i] * extra
		}
	}
	for k := range out {
		out[k] = m.Intercept[k] + out[k] + imputes*r.shift[k]
	}
}

// imputedVariance returns the variance of a mixed score, given the variance v of its imputed part.
func (a MissingHandling) imputedVariance(v float64) float64 {
	imputes := a.Imputes()
	return imputes * imputes * v
}

// ChanceInterval bounds the probability of the second class of two while imputed values are uncertain. With the true
// values in place of the imputed ones, the probability is within the interval in 90 % of cases. The interval also
// contains the predicted probability, which is the mean over all cases. known is false if nothing is imputed, or if the
// model does not have two classes with one output.
func (m *Linear) ChanceInterval(e *event.Example) (low, high float64, known bool) {
	a := m.Handling(e)
	if a.Roles == nil || m.Outputs != 1 || m.Target() != loss.Sign {
		return 0, 0, false
	}
	low, high = m.chanceInterval(m.At(a).Standardized(e, event.Vec{}), a)
	return low, high, true
}

func (m *Linear) chanceInterval(x event.Vec, a MissingHandling) (low, high float64) {
	at, f := m.At(a), []float64{0}
	r := at.sumOutputs(x, a, f)
	variance := a.imputedVariance(r.variance[0])
	width := intervalWidth * math.Sqrt(variance)
	var chances [3]float64
	scores := []float64{f[0] - width, f[0] + width, at.widen(f[0], variance)}
	if fill := a.Weights[3]; fill > 0 {
		filled := m.AnswerOutputs(m.completed(x, a.Roles), MissingHandling{Scale: 1}, []float64{0})[0]
		for i, score := range scores {
			scores[i] = score + fill*(filled-score)
		}
	}
	for i, score := range scores {
		chances[i] = m.Decision().Probability(score)
	}
	return slices.Min(chances[:]), slices.Max(chances[:])
}

// imputedWeightsOf marks outliers in p as Ignored, and returns the weights for the pattern.
func (m *Linear) imputedWeightsOf(x event.Vec, p ColumnRoles) *imputedWeights {
	m.MarkOutliers(x, p)
	return m.imputedWeightsFor(p)
}

// Values returns the values of c's columns in x, 0 for those that x does not have. It reuses the memory of room.
func (c *Covariance) Values(x event.Vec, room []float64) []float64 {
	room = slices.Grow(room[:0], len(c.Columns))[:len(c.Columns)]
	clear(room)
	for place, i := range CommonColumns(c.Columns, x.Index) {
		room[place] = x.Value[i]
	}
	return room
}

// outlier reports whether a value is an outlier, from which no other value may be imputed. A value is an outlier if it
// is far from the mean of its column, or if it is the value to which Scaler.Clip moves outliers.
func (c *Covariance) outlier(place int, value float64, standardized bool) bool {
	return standardized && IsOutlier(value) || math.Abs(value-c.Mean[place]) > ScalerClip*max(c.deviation(place), 1e-200)
}

// leastChance is the probability below which the mixture of loss.LogisticGaussian is too inaccurate. Below it, widen
// uses MacKay's approximation.
const leastChance = 1e-5

// widen returns the score that predicts the mean over normally distributed scores with mean f and variance v. Imputed
// values are uncertain, so v moves a probability towards one half. For regression, widen returns the score of the mean
// value, and v also widens the interval.
func (h *Head) widen(f, v float64) float64 {
	if !(v > 0) {
		return f
	}
	switch target := h.Target(); {
	case target == loss.Count:
		return WidenCount(f, v)
	case target != loss.Sign:
		return f
	}
	return WidenClass(f, v)
}

// WidenCount returns the score that predicts the mean count over normally distributed scores with mean f and variance
// v.
func WidenCount(f, v float64) float64 { return f + min(v, maxVariance)/2 }

// WidenClass returns the score that predicts the mean probability over normally distributed scores with mean f and
// variance v.
func WidenClass(f, v float64) float64 {
	if !(v > 0) {
		return f
	}
	_, p, _ := loss.LogisticGaussian{}.At(-1, -math.Abs(f), v) // the derivative of E log(1 + exp(f~)) by f, which is the mean probability
	wide := 0.0
	if p > leastChance {
		wide = math.Log(p / (1 - p))
	} else { // keeps the order of scores
		wide = min(-math.Abs(f)/math.Sqrt(1+math.Pi*v/8), math.Log(leastChance)) - 1e-9*math.Abs(f)
	}
	return math.Copysign(wide, f)
}
