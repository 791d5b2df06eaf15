package blankout

// This file holds how a Linear answers an event whose missing fields are filled in.

import (
	"math"
	"sync"

	"blankout/loss"
)

// repair is a Linear's weights for one pattern of missing columns.
type repair struct {
	extra           []float64 // by place in the Covariance and output: added to the weight
	shift, variance []float64 // by output
}

// repairs keeps those of the patterns met last: sensors stay dead for a while.
type repairs struct {
	mu      sync.Mutex
	byParts map[string]*repair
	order   []string // of byParts, the one met first at next
	next    int
}

// maxRepairs bounds the numbers that repairs keep, mostRepairs the patterns.
const maxRepairs, mostRepairs = 1 << 20, 256

// WithCovariance returns m with the Covariance by which it fills in what is missing. m
// itself must not be used any more.
func (m *Linear) WithCovariance(c *Covariance) *Linear {
	m.Covariance = c
	if c != nil {
		m.repairs = &repairs{byParts: map[string]*repair{}}
	}
	return m
}

// WithMissing returns a copy of m that answers events that lack fields in another way.
func (m *Linear) WithMissing(missing *Missing) *Linear {
	out := *m
	out.Missing = missing
	return &out
}

// repairFor returns the repair for a pattern.
func (m *Linear) repairFor(p Parts) *repair {
	kept := m.repairs
	if kept == nil { // weights that are being learned
		return m.makeRepair(p)
	}
	kept.mu.Lock()
	r := kept.byParts[string(p)]
	kept.mu.Unlock()
	if r != nil {
		return r
	}
	r = m.makeRepair(p)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if other := kept.byParts[string(p)]; other != nil {
		return other // made meanwhile
	}
	key := string(p)
	if len(kept.order) < max(1, min(mostRepairs, maxRepairs/len(r.extra))) {
		kept.order = append(kept.order, key)
	} else {
		delete(kept.byParts, kept.order[kept.next])
		kept.order[kept.next] = key
		kept.next = (kept.next + 1) % len(kept.order)
	}
	kept.byParts[key] = r
	return r
}

func (m *Linear) makeRepair(p Parts) *repair {
	c, k := m.Covariance, m.Outputs
	r := &repair{extra: make([]float64, len(p)*k), shift: make([]float64, k), variance: make([]float64, k)}
	fill := c.Fill(p)
	if fill == nil {
		return r
	}
	w, extra := make([]float64, len(p)), make([]float64, len(p))
	for output := range k {
		for i, column := range c.Columns {
			w[i] = m.Weight(column, output)
		}
		r.shift[output], r.variance[output] = fill.Repair(w, extra)
		for i, x := range extra {
			r.extra[i*k+output] = x
		}
	}
	return r
}

// ScoreLacking is that of Model.
func (m *Linear) ScoreLacking(x Vec, e *Example, out []float64) []float64 {
	return m.scoreAnswer(x, m.Answer(e), out)
}

// scoreAnswer scores features as Standardised returns them as the answer says.
func (m *Linear) scoreAnswer(x Vec, a Answer, out []float64) []float64 {
	return m.ClassScores(m.outputs(x, a, out))
}

// outputs writes the outputs that scoreAnswer makes the scores of.
func (m *Linear) outputs(x Vec, a Answer, out []float64) []float64 {
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
	for place, value := range m.Covariance.each(x) {
		for k, extra := range r.extra[place*m.Outputs:][:m.Outputs] {
			out[k] += a.Scale * value * extra
		}
	}
	for k := range out {
		out[k] = m.widen(m.Intercept[k]+out[k]+a.Scale*r.shift[k], a.Scale*a.Scale*r.variance[k])
	}
	return out
}

// repaired returns the repair for a pattern, of which it takes the wild values out.
func (m *Linear) repaired(x Vec, p Parts) *repair {
	for place, value := range m.Covariance.each(x) {
		if p[place] == Observed && m.Covariance.wild(place, value, m.standardises()) {
			p[place] = Apart
		}
	}
	return m.repairFor(p)
}

// each yields the places of the columns that x has, and their values.
func (c *Covariance) each(x Vec) func(yield func(int, float64) bool) {
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

// wild says whether a value is no reading to tell others from: it is far from all that
// the column has had, or lies where Scaler.Clip puts those that are.
func (c *Covariance) wild(place int, value float64, standardised bool) bool {
	if standardised && IsWild(value) {
		return true
	}
	return math.Abs(value-c.Mean[place]) > ScalerClip*max(c.deviation(place), 1e-200)
}

// leastChance is a probability below which the mixture of loss.LogisticGaussian has too
// few digits; widen then takes the simpler form of MacKay.
const leastChance = 1e-5

// widen returns the score whose probability is the one to be expected of a score of the
// mean f and the variance v, were it normal. Nothing is certain of what was filled in:
// v makes an answer less so.
func (h *Head) widen(f, v float64) float64 {
	if !(v > 0) {
		return f
	}
	c := Calibration{A: 1}
	if h.Calibration != nil && !h.Pairs {
		c = *h.Calibration
	}
	if c.A == 0 {
		return f
	}
	u, v := c.A*f+c.B, c.A*c.A*v
	_, p, _ := loss.LogisticGaussian{}.At(-1, -math.Abs(u), v)                                   // dE log(1 + exp(u~))/du, the expected probability
	wide := min(-math.Abs(u)/math.Sqrt(1+math.Pi*v/8), math.Log(leastChance)) - 1e-9*math.Abs(u) // in order, still
	if p > leastChance {
		wide = math.Log(p / (1 - p))
	}
	return (math.Copysign(wide, u) - c.B) / c.A
}
