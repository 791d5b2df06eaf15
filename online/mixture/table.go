package mixture

// This file has the mixture weights by range of the missing fraction.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// Ranges is the number of ranges of an event's missing fraction: one range for complete events, and the ranges of
// model.MissingBin.
const Ranges = 1 + model.MissingBins

// Range returns the range of an event with this missing count.
func Range(k model.MissingCount) int {
	if !k.Some() {
		return 0
	}
	return 1 + model.MissingBin(k.Fraction())
}

// RangeWeights holds the weights in effect for events of a range: of noise levels, of the second-order expert, and of
// missing policies.
type RangeWeights struct {
	Levels   []float64           // products of mixture weights and scales, which need not sum to 1
	Second   float64             // weight of the second-order expert against the mixed noise levels
	Policies model.PolicyWeights // not used for complete events
}

// Largest returns the index of the noise level with the largest weight.
func (m *RangeWeights) Largest() int {
	best := 0
	for v, weight := range m.Levels {
		if weight > m.Levels[best] {
			best = v
		}
	}
	return best
}

// Table holds the mixture weights of noise levels and of missing policies by range, and the forecasts. Levels are
// compared by the mixture of the policies, and policies are compared by the mixture of the levels.
type Table struct {
	scales   []float64
	levels   [Ranges]Weights  // weights by noise level and scale
	policies [Ranges]Weights  // not used for complete events
	second   *[Ranges]Weights // weights of the mixed noise levels and of the second-order expert; nil without that expert
	// own is the decayed number of events in each range that arrived with missing fields. Masked copies are not
	// counted.
	own     [Ranges]float64
	mixes   [Ranges][]float64
	weights []float64 // scratch
	// InForce holds the weights in effect, which Apply changes.
	InForce [Ranges]RangeWeights
	// The forecasts. Features and Groups are for features and groups that are declared missing. SilentFeatures and
	// SilentGroups are for features and groups that are silently missing.
	Features, Groups, SilentFeatures, SilentGroups ErrorCurves
}

// forecasts returns the forecasts.
func (t *Table) forecasts() [4]*ErrorCurves {
	return [4]*ErrorCurves{&t.Features, &t.Groups, &t.SilentFeatures, &t.SilentGroups}
}

// wholeRates are the switching rates of noise levels for complete events, rangeRate is the switching rate for other
// ranges, and policyRates are the switching rates of policies. The rates of policies are different because the best
// policy differs more between streams than the best level.
var wholeRates = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}

// secondRates are the switching rates between the mixed noise levels and the second-order expert.
var secondRates = []float64{1e-4, 1e-2}

const rangeRate = 0.01

var policyRates = []float64{1e-3, 1e-2}

// A range has its own weights if they differ from the weights of other ranges by at least alike. Ranges with smaller
// differences share one set of weights, to make files smaller.
const alike = 0.01

// Each noise level is mixed with several scales of its scores. middleWeight is the initial fraction of the level's
// weight for the middle scale.
const middleWeight = 0.8

// NewTable returns a table with initial weights of noise levels and of missing policies. Each level is also mixed with
// its scores multiplied by each of the scales, whose number must be odd (temperatures; Guo et al. 2017).
func NewTable(levels, scales []float64, rules model.PolicyWeights) *Table {
	t := &Table{scales: scales}
	levels = t.spread(levels)
	for r := range Ranges {
		rates := wholeRates
		if r > 0 {
			rates = []float64{rangeRate}
		}
		t.levels[r] = NewWeights(levels, rates...)
		t.policies[r] = NewWeights(rules[:], policyRates...)
		begin := cautious(rules)
		t.policies[r].Begin(begin[:])
	}
	t.Apply()
	return t
}

// cautious returns the weights with which the missing policies begin, given their prior. They favor the policy none, which
// costs least while few events determine the weights of the model. The prior decides in the long run.
func cautious(prior model.PolicyWeights) model.PolicyWeights {
	const none = 0.9
	if others := prior[1] + prior[2]; prior[0] > 0 && others > 0 {
		return model.PolicyWeights{none, (1 - none) * prior[1] / others, (1 - none) * prior[2] / others}
	}
	return prior
}

// AddSecond adds a second-order expert with an initial weight. For events with missing fields it begins with the weight
// missingSecond.
func (t *Table) AddSecond(weight float64) {
	t.second = &[Ranges]Weights{}
	for r := range t.second {
		if r == 0 {
			t.second[r] = NewWeights([]float64{1 - weight, weight}, secondRates...)
			continue
		}
		t.second[r] = NewWeights([]float64{1 - weight, weight}, rangeRate)
		t.second[r].Begin([]float64{1 - missingSecond, missingSecond})
	}
	t.Apply()
}

// missingSecond is the weight with which the second-order expert begins for events with missing fields. It is small,
// because few events with many missing fields do not determine the expert's many weights.
const missingSecond = 0.03

// SecondAgain gives the second-order expert this weight for complete events. The weights for other ranges start again
// from that weight.
func (t *Table) SecondAgain(weight float64) {
	for r := range t.second {
		t.second[r].Again()
	}
	for r := range t.InForce {
		t.InForce[r].Second = weight
	}
}

// RemoveSecond removes the second-order expert.
func (t *Table) RemoveSecond() {
	t.second = nil
	for r := range t.InForce {
		t.InForce[r].Second = 0
	}
}

// Counts reports whether the second-order expert has mixture weight for events that occur: complete events, and ranges
// in which events with missing fields have arrived.
func (t *Table) Counts() bool {
	for r := range t.InForce {
		if t.InForce[r].Second > 0 && (r == 0 || !t.LearnsFromMasks(r)) {
			return true
		}
	}
	return false
}

// TakeSecond updates the weight of the second-order expert at an event. levels is the loss of the mixed noise levels,
// and second is the loss of the expert.
func (t *Table) TakeSecond(r int, levels, second float64) {
	s := &t.second[r]
	if r > 0 && s.taken == 0 && t.second[0].taken > 0 {
		s.Begin(t.second[0].Mix(nil))
	}
	s.Take([]float64{levels, second})
}

// spread divides each noise level's weight among its scales.
func (t *Table) spread(levels []float64) (weights []float64) {
	n := len(t.scales)
	for _, weight := range levels {
		for i := range t.scales {
			switch {
			case n == 1:
				weights = append(weights, weight)
			case i == n/2:
				weights = append(weights, weight*middleWeight)
			default:
				weights = append(weights, weight*(1-middleWeight)/float64(n-1))
			}
		}
	}
	return weights
}

// mix returns the mixture weights of noise levels in a range, summed over scales. The result is valid until the next
// call for that range.
func (t *Table) mix(r int) []float64 {
	n := len(t.scales)
	t.weights = t.levels[r].Mix(t.weights[:0])
	levels := t.mixes[r]
	if levels == nil {
		levels = make([]float64, len(t.weights)/n)
		t.mixes[r] = levels
	}
	clear(levels)
	for i, weight := range t.weights {
		levels[i/n] += weight * t.scales[i%n]
	}
	return levels
}

// TakeLevels updates the weights of noise levels at an event of range r. losses holds the loss of each level with each
// of its scales.
func (t *Table) TakeLevels(r int, losses []float64) {
	s := &t.levels[r]
	if r > 0 && s.taken == 0 { // a range starts with the weights for complete events
		s.Begin(t.levels[0].Mix(nil))
	}
	s.Take(losses)
}

// AddLevels is TakeLevels for complete events of a learner in a group.
func (t *Table) AddLevels(losses []float64) { t.levels[0].Add(losses) }

// TakePolicies updates the weights of missing policies with their losses. NaN marks a policy that is not available.
func (t *Table) TakePolicies(r int, losses model.PolicyWeights) { t.policies[r].Take(losses[:]) }

const (
	// A range stops learning from masks after ownEnough events of the range arrived with missing fields. The count of
	// these events decays over ownMemory masks.
	ownEnough, ownMemory = 100, 1000
)

// Own counts an event of a range that arrived with missing fields.
func (t *Table) Own(r int) { t.own[r]++ }

// LearnsFromMasks reports whether a range still learns from masks.
func (t *Table) LearnsFromMasks(r int) bool { return t.own[r] < ownEnough }

// Masked counts a masked event. This makes the counts of Own decay.
func (t *Table) Masked() {
	for r := range t.own {
		t.own[r] *= 1 - 1.0/ownMemory
	}
}

// Apply makes the learned weights take effect.
func (t *Table) Apply() {
	whole := t.mix(0)
	t.InForce[0].Levels = whole
	for r := 1; r < Ranges; r++ {
		m := RangeWeights{Levels: whole}
		if s := &t.levels[r]; s.taken > 0 {
			if own := t.mix(r); apart(own, whole) > alike {
				m.Levels = own
			}
		}
		t.weights = t.policies[r].Mix(t.weights[:0])
		m.Policies = earned(t.weights)
		t.InForce[r] = m
	}
	if t.second == nil {
		return
	}
	for r := range t.InForce {
		of := &t.second[r]
		if r > 0 && of.taken == 0 && t.second[0].taken > 0 {
			of = &t.second[0]
		}
		t.weights = of.Mix(t.weights[:0])
		t.InForce[r].Second = t.weights[1]
	}
}

// earned returns the weights of policies without those below leastPolicy. Rescaling multiplies a score by up to ten, so
// that even the weight that switching leaves a policy that loses would make answers too sure.
func earned(weights []float64) (w model.PolicyWeights) {
	kept := 0.0
	for i, x := range weights {
		if x >= leastPolicy {
			w[i], kept = x, kept+x
		}
	}
	for i := range w {
		w[i] /= kept
	}
	return w
}

const leastPolicy = 0.1

// apart returns the largest difference between two lists of weights.
func apart(a, b []float64) (most float64) {
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i]))
	}
	return most
}

// Policies returns the policy weights in effect.
func (t *Table) Policies() (policies model.MissingPolicies) {
	for bin := range policies {
		policies[bin] = t.InForce[1+bin].Policies
	}
	return policies
}

// Merge adds the observations that another learner has made from base to now: the observations of complete events and
// the forecasts. The result takes effect immediately.
func (t *Table) Merge(base, now *Table) {
	t.levels[0].Merge(&base.levels[0], &now.levels[0])
	for i, splines := range t.forecasts() {
		splines.Merge(base.forecasts()[i], now.forecasts()[i])
	}
	t.Apply()
}

// State encodes or decodes the table.
func (t *Table) State(c *coder.Coder) {
	n := len(t.levels[0].prior) / len(t.scales)
	for r := range Ranges {
		t.levels[r].State(c)
		t.policies[r].State(c)
		m := &t.InForce[r]
		c.Floats(&m.Levels)
		c.Each(&m.Policies[0], &m.Policies[1], &m.Policies[2], &t.own[r])
		c.Failed = c.Failed || len(m.Levels) != n
		if t.second != nil {
			t.second[r].State(c)
			c.Float(&m.Second)
		}
	}
	for _, splines := range t.forecasts() {
		splines.State(c)
	}
}

// SumsState encodes or decodes the sums that another learner needs for Merge.
func (t *Table) SumsState(c *coder.Coder) {
	t.levels[0].SumsState(c)
	for _, splines := range t.forecasts() {
		splines.State(c)
	}
}

// Sums returns a copy of the sums that another learner needs for Merge.
func (t *Table) Sums() *Table {
	return &Table{levels: [Ranges]Weights{t.levels[0].Clone()}, Features: t.Features, Groups: t.Groups, SilentFeatures: t.SilentFeatures, SilentGroups: t.SilentGroups}
}

// Fits reports whether the observations from base to now, which Merge would add, are possible for the given number of
// events.
func Fits(base, now *Table, events float64) bool {
	if n := now.levels[0].waiting - base.levels[0].waiting; !(n >= 0 && n <= events) {
		return false
	}
	for i, l := range now.levels[0].pending {
		if d := l - base.levels[0].pending[i]; !(d >= 0 && d <= mostLoss*events) {
			return false
		}
	}
	for i, splines := range now.forecasts() {
		if !splines.within(base.forecasts()[i], events) {
			return false
		}
	}
	return true
}
