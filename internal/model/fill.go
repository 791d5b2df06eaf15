package model

// This file holds how a Linear answers an event whose missing fields are filled in.

import (
	"math"
	"slices"
	"sync"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// repair is a Linear's weights for one pattern of missing columns.
type repair struct {
	extra           []float64 // by place in the Covariance and output: added to the weight
	shift, variance []float64 // by output
}

// recent keeps what was made for the patterns met last: sensors stay dead for a while.
// The zero value is empty and ready for use, by several goroutines at once.
type recent[T any] struct {
	mu    sync.Mutex
	byKey map[string]T
	order []string // of byKey, the one made first at next
	next  int
}

// maxRecent bounds the numbers that a recent keeps, mostRecent the patterns.
const maxRecent, mostRecent = 1 << 20, 4096

func (r *recent[T]) get(key string) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.byKey[key]
	return v, ok
}

// add keeps what has been made for a key, of so many numbers, and returns it, or what
// another goroutine has made meanwhile.
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

// WithCovariance returns m with the Covariance by which it fills in what is missing, nil for
// none, and ready to answer. m itself must not be used any more.
func (m *Linear) WithCovariance(c *Covariance) *Linear {
	m.Covariance = c
	if c != nil {
		m.repairs = &recent[*repair]{}
	}
	m.levels = nil
	for _, l := range m.Levels {
		m.levels = append(m.levels, m.level(l))
	}
	return m
}

// WithMissing returns a copy of m that answers events that lack fields in another way.
func (m *Linear) WithMissing(missing *Missing) *Linear {
	out := *m
	out.Missing = missing
	return &out
}

// WithFaults returns a copy of m that takes other readings as missing.
func (m *Linear) WithFaults(f *Faults) *Linear {
	out := *m
	out.Faults = f
	return out.WithCovariance(m.Covariance)
}

// repairFor returns the repair for a pattern.
func (m *Linear) repairFor(p Parts) *repair {
	if m.repairs == nil { // weights that are being learned
		return m.makeRepair(p)
	}
	if r, ok := m.repairs.get(string(p)); ok {
		return r
	}
	r := m.makeRepair(p)
	return m.repairs.add(string(p), r, len(r.extra))
}

func (m *Linear) makeRepair(p Parts) *repair {
	c, k := m.Covariance, m.Outputs
	r := &repair{extra: make([]float64, len(p)*k), shift: make([]float64, k), variance: make([]float64, k)}
	fill := c.Fill(p)
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
		r.shift[output], r.variance[output] = fill.Repair(w, extra)
		for i, x := range extra {
			r.extra[i*k+output] = x
		}
	}
	return r
}

// ScoreLacking is that of Model.
func (m *Linear) ScoreLacking(x event.Vec, e *event.Example, out []float64) []float64 {
	return m.scoreAnswer(x, m.Answer(e), out)
}

// scoreAnswer scores features as Standardized returns them as the answer says.
func (m *Linear) scoreAnswer(x event.Vec, a Answer, out []float64) []float64 {
	return m.ClassScores(m.outputs(x, a, out))
}

// TellParts marks as Apart, in parts, which Answer has returned, the columns whose values
// in x tell nothing: wild ones.
func (m *Linear) TellParts(x event.Vec, parts Parts) {
	for place, value := range m.Covariance.each(x) {
		if parts[place] == Observed && m.Covariance.wild(place, value, m.standardizes()) {
			parts[place] = Apart
		}
	}
}

// AnswerOutputs writes to out what the outputs say to features as Standardized returns them,
// answered as a says: of one output, and of one for each class, the scores.
func (m *Linear) AnswerOutputs(x event.Vec, a Answer, out []float64) []float64 {
	return m.outputs(x, a, out)
}

// outputs writes the outputs that scoreAnswer makes the scores of.
func (m *Linear) outputs(x event.Vec, a Answer, out []float64) []float64 {
	m = m.At(a)
	out = out[:m.Outputs]
	clear(out)
	for i, d := range x.Index {
		if row := m.Rows.Row(d); row != nil {
			for k := range out {
				out[k] += a.Scale * x.Value[i] * m.weight(row, k)
			}
		}
	}
	if a.Parts == nil {
		for k := range out {
			out[k] += m.Intercept[k]
		}
		return out
	}
	r := m.repaired(x, a.Parts)
	m.addFilled(x, a, r, out)
	for k := range out {
		out[k] = m.widen(out[k], a.filledVariance(r.variance[k]))
	}
	return out
}

// addFilled adds to the sums over the features of an event what is expected of those that are
// missing, and the intercepts.
func (m *Linear) addFilled(x event.Vec, a Answer, r *repair, out []float64) {
	for place, value := range m.Covariance.each(x) {
		for k, extra := range r.extra[place*m.Outputs:][:m.Outputs] {
			out[k] += a.Shares[2] * value * extra
		}
	}
	for k := range out {
		out[k] = m.Intercept[k] + out[k] + a.Shares[2]*r.shift[k]
	}
}

// filledVariance returns the variance of a score of which what is filled in has the variance v.
func (a Answer) filledVariance(v float64) float64 { return a.Shares[2] * a.Shares[2] * v }

// ChanceInterval returns the bounds between which the probability of the second of two classes
// would lie in nine of ten cases if what is filled in for an event were known. The probability
// that is answered, which is expected over all cases, lies between them too. known is false
// where nothing is filled in, and for other models than those of two classes with one output.
func (m *Linear) ChanceInterval(e *event.Example) (low, high float64, known bool) {
	a := m.Answer(e)
	if a.Parts == nil || m.Outputs != 1 || m.Target() != loss.Sign {
		return 0, 0, false
	}
	low, high = m.chanceInterval(m.At(a).Standardized(e, event.Vec{}), a)
	return low, high, true
}

func (m *Linear) chanceInterval(x event.Vec, a Answer) (low, high float64) {
	at := m.At(a)
	f := []float64{0}
	for i, d := range x.Index {
		if row := at.Rows.Row(d); row != nil {
			f[0] += a.Scale * x.Value[i] * at.weight(row, 0)
		}
	}
	r := at.repaired(x, a.Parts)
	at.addFilled(x, a, r, f)
	variance := a.filledVariance(r.variance[0])
	width := intervalWidth * math.Sqrt(variance)
	var chances [3]float64
	for i, score := range []float64{f[0] - width, f[0] + width, at.widen(f[0], variance)} {
		chances[i] = m.Decision().Probability(score)
	}
	return slices.Min(chances[:]), slices.Max(chances[:])
}

// repaired returns the repair for a pattern, of which it takes the wild values out.
func (m *Linear) repaired(x event.Vec, p Parts) *repair {
	m.TellParts(x, p)
	return m.repairFor(p)
}

// each yields the places of the columns that x has, and their values.
func (c *Covariance) each(x event.Vec) func(yield func(int, float64) bool) {
	return func(yield func(int, float64) bool) {
		place := 0
		for i, column := range x.Index {
			for place < len(c.Columns) && c.Columns[place] < column {
				place++
			}
			if place == len(c.Columns) {
				return
			}
			if c.Columns[place] == column && !yield(place, x.Value[i]) {
				return
			}
		}
	}
}

// wild says whether a value is so unusual that no other may be told from it: it is far from
// all that the column has had, or lies where Scaler.Clip puts such values.
func (c *Covariance) wild(place int, value float64, standardized bool) bool {
	if standardized && IsWild(value) {
		return true
	}
	return math.Abs(value-c.Mean[place]) > ScalerClip*max(c.deviation(place), 1e-200)
}

// leastChance is a probability below which the mixture of loss.LogisticGaussian has too
// few digits; widen then takes the simpler form of MacKay.
const leastChance = 1e-5

// widen returns the score whose probability is the one to be expected of a score of the
// mean f and the variance v, were it normal. What was filled in is uncertain: v makes an
// answer less certain. Where labels are numbers the score is one whose value is the one to
// be expected: v widens its Interval instead.
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

// WidenCount returns the score whose value is the one to be expected of the score of a count
// that has the mean f and the variance v.
func WidenCount(f, v float64) float64 { return f + min(v, maxVariance)/2 }

// WidenClass returns the score whose probability is the one to be expected of a score of the mean f
// and the variance v, were it normal.
func WidenClass(f, v float64) float64 {
	if !(v > 0) {
		return f
	}
	_, p, _ := loss.LogisticGaussian{}.At(-1, -math.Abs(f), v) // dE log(1 + exp(f~))/df, the expected probability
	wide := 0.0
	if p > leastChance {
		wide = math.Log(p / (1 - p))
	} else { // in order, still
		wide = min(-math.Abs(f)/math.Sqrt(1+math.Pi*v/8), math.Log(leastChance)) - 1e-9*math.Abs(f)
	}
	return math.Copysign(wide, f)
}
