// Package mixture mixes the scores of several experts for an event, and the policies for missing fields. Each of these
// components and policies has a mixture weight, which is learned from its losses (Weights). There is a set of mixture
// weights for each range of the missing fraction of an event (Mixture).
//
// The mixed score stays linear in the features. The package also draws masks, which remove features from an event
// (Mask). It estimates the loss at each fraction of missing features from masked events (Forecasts), and mixes the
// last label into predictions (LastLabel). It contains no model weights.
package mixture

import (
	"math"
	"slices"

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

// Settings are the settings of a Mixture.
type Settings struct {
	Components int // number of components without the correcting experts
	Expected   int // index of the component that is expected to be best
	// There is one more component, all correcting experts together, unless Corrects is nil. It reports whether they may have
	// mixture weight.
	Corrects func() bool
	// Each component is also mixed with its scores multiplied by each of these scales (temperatures; Guo et al. 2017),
	// whose number must be odd. So an overconfident component gets less influence.
	Scales     []float64
	Policy     model.MissingPolicy // the configured policy
	Imputes    bool                // numeric values can be imputed
	Regression bool
}

// Mixture holds the mixture weights of components and of missing policies, by range of the missing fraction, and the
// forecasts. Components are compared by the mixture of the policies, and policies are compared by the mixture of the
// components.
type Mixture struct {
	Settings
	Forecasts
	ranges    [Ranges]ranged
	corrected bool      // the result of Corrects when weigh was called
	room      []float64 // scratch
	scaled    []float64 // scratch scores by output
}

// ranged holds the mixture weights of a range.
type ranged struct {
	components Weights // by component and scale
	policies   Weights // not used for complete events
	correction Weights // of the other components together, and of the correcting experts
	filled     Weights // of the other policies together, and of the policy fill; not used for complete events
	// own is the decayed number of events of the range that arrived with missing fields. Masked copies are not counted.
	own float64
	// The weights in effect, which Apply changes. mix has products of mixture weights and scales by component, which need
	// not sum to 1. corrected is the weight of the correcting experts.
	mix       []float64
	corrected float64
	missing   model.PolicyWeights // with fill
	all       []float64           // result of method Weights
	sums      []float64           // memory of mix
}

const (
	// firstWeight is the initial mixture weight of the component that is expected to be best, and middleWeight the
	// fraction of a component's weight for the middle scale.
	firstWeight, middleWeight = 0.8, 0.8
	// correctedWeight is the initial mixture weight of the correcting experts. For events with missing fields they begin
	// with missingCorrected, because few events with many missing fields do not determine the experts' many weights.
	correctedWeight, missingCorrected = 0.5, 0.03
	// A range has its own weights if they differ from the weights for complete events by at least alike. Ranges with
	// smaller differences share one set of weights, to make files smaller.
	alike = 0.01
	// fillWeight is the initial mixture weight of the policy fill.
	fillWeight = 0.08
	// leastPolicy is the smallest weight of a missing policy in effect; smaller weights count as 0.
	leastPolicy = 0.1
	// A range stops learning from masks after ownEnough events of the range arrived with missing fields. The count of
	// these events decays over ownMemory masks.
	ownEnough, ownMemory = 100, 1000
)

// The switching rates of components for complete events, of components and correcting experts for other ranges, of
// correcting experts for complete events, and of policies. The rates of policies are different because the best policy
// differs more between streams than the best component.
var (
	wholeRates      = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}
	rangeRates      = []float64{0.01}
	correctionRates = []float64{1e-4, 1e-2}
	policyRates     = []float64{1e-3, 1e-2}
)

// New returns a Mixture with initial weights.
func New(c Settings) *Mixture {
	m := &Mixture{Settings: c}
	policies := c.policies()
	others := policies.Others()
	begin := cautious(others)
	for r := range m.ranges {
		of, rates, correction := &m.ranges[r], rangeRates, rangeRates
		if r == 0 {
			rates, correction = wholeRates, correctionRates
		}
		of.components, of.policies = NewWeights(c.first(), rates...), NewWeights(others[:3], policyRates...)
		of.policies.Begin(begin[:3])
		of.filled = NewWeights([]float64{1 - fillWeight, fillWeight}, policyRates...)
		if of.correction = NewWeights([]float64{1 - correctedWeight, correctedWeight}, correction...); r > 0 {
			of.correction.Begin([]float64{1 - missingCorrected, missingCorrected})
		}
	}
	m.Apply()
	return m
}

// first returns the initial weights by component and scale.
func (c *Settings) first() (weights []float64) {
	n := len(c.Scales)
	for i := range c.Components {
		weight := 1.0
		if c.Components > 1 {
			if weight = firstWeight; i != c.Expected {
				weight = (1 - firstWeight) / float64(c.Components-1)
			}
		}
		for scale := range n {
			switch {
			case n == 1:
				weights = append(weights, weight)
			case scale == n/2:
				weights = append(weights, weight*middleWeight)
			default:
				weights = append(weights, weight*(1-middleWeight)/float64(n-1))
			}
		}
	}
	return weights
}

// policies returns the initial weights of the missing policies. If numeric values can be imputed, imputation gets the
// largest weight. Otherwise rescaling gets the largest weight.
func (c *Settings) policies() model.PolicyWeights {
	if c.Policy != model.MissingAuto {
		return model.OnePolicy(c.Policy)
	}
	plain := [2]float64{0.1, 0.9}
	if c.Regression { // regression does not rescale
		plain = [2]float64{1, 0}
	}
	if !c.Imputes {
		return model.PolicyWeights{plain[0], plain[1]}
	}
	return model.PolicyWeights{0.1 * plain[0], 0.1 * plain[1], 0.9}
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

// Weights returns the weights of all components in range r. Each is the product of a mixture weight and a scale, so
// their sum need not be 1. The caller must not change the result.
func (m *Mixture) Weights(r int) []float64 {
	if m.Corrects != nil && m.Corrects() != m.corrected {
		m.weigh()
	}
	return m.ranges[r].all
}

// Uncorrected returns the mixture weights in range r without the correcting experts.
func (m *Mixture) Uncorrected(r int) []float64 { return m.ranges[r].mix }

// CorrectAgain gives the correcting experts their initial mixture weight, in every range.
func (m *Mixture) CorrectAgain() {
	for r := range m.ranges {
		m.ranges[r].correction.Again()
		m.ranges[r].corrected = correctedWeight
	}
	m.weigh()
}

// Corrected returns the mixture weight of the correcting experts in a range.
func (m *Mixture) Corrected(r int) float64 {
	if m.Corrects == nil || !m.Corrects() {
		return 0
	}
	return m.ranges[r].corrected
}

// Counts reports whether the correcting experts have learned a mixture weight for events that occur: complete events,
// and ranges in which events with missing fields have arrived.
func (m *Mixture) Counts() bool {
	for r := range m.ranges {
		if m.Corrects != nil && m.ranges[r].corrected > 0 && (r == 0 || !m.LearnsFromMasks(r)) {
			return true
		}
	}
	return false
}

// Largest returns the index of the component with the largest weight in a range.
func (m *Mixture) Largest(r int) int {
	best, weights := 0, m.Uncorrected(r)
	for i, weight := range weights {
		if weight > weights[best] {
			best = i
		}
	}
	return best
}

// Policies returns the mixture weights of the missing policies in effect.
func (m *Mixture) Policies() (policies model.MissingPolicies) {
	for bin := range policies {
		policies[bin] = m.ranges[1+bin].missing
	}
	return policies
}

// Score writes the mixed scores in a range to out, by output. Scores are by component and output.
func (m *Mixture) Score(scores []float64, r, active int, out []float64) {
	Mix(m.Weights(r), scores, active, out)
}

// Base writes to out, by output, the scores that the correcting experts correct. They are the scores of the other
// components, mixed with the weights for complete events. They are 0 for outputs that are not in use.
func (m *Mixture) Base(scores []float64, active int, out []float64) {
	Mix(m.Uncorrected(0), scores, active, out)
	clear(out[active:])
}

// Mix writes the scores of components, mixed by weights, to out, by output.
func Mix(weights, scores []float64, active int, out []float64) {
	clear(out)
	for i, w := range weights {
		if w == 0 {
			continue
		}
		for k, f := range scores[i*len(out):][:active] {
			out[k] += w * f
		}
	}
	for k := active; k < len(out); k++ {
		out[k] = NoClass
	}
}

// Observe updates the weights of components by their losses at an event.
func (m *Mixture) Observe(scores []float64, r int, e *Event) {
	if m.learns() {
		m.room = m.losses(scores[:m.Components*e.Outputs], e, m.room[:0])
		m.take(r, m.room)
	}
}

// learns reports whether there is more than one component or scale.
func (m *Mixture) learns() bool { return m.Components*len(m.Scales) > 1 }

// take updates the weights of a range by the loss of each component with each of its scales. A range starts with the
// weights for complete events.
func (m *Mixture) take(r int, losses []float64) {
	s := &m.ranges[r].components
	if r > 0 && s.taken == 0 {
		s.Begin(m.ranges[0].components.Mix(nil))
	}
	s.Take(losses)
}

// ObserveCorrected updates the weight of the correcting experts. others is the loss of all other components together,
// and corrected is the loss of the correcting experts. The result is the weight in effect.
func (m *Mixture) ObserveCorrected(r int, others, corrected float64) (weight float64) {
	s, whole := &m.ranges[r].correction, &m.ranges[0].correction
	if r > 0 && s.taken == 0 && whole.taken > 0 {
		s.Begin(whole.Mix(nil))
	}
	s.Take([]float64{others, corrected})
	return m.ranges[r].corrected
}

// Chooses reports whether the policy is "auto", so that ObservePolicies has an effect.
func (m *Mixture) Chooses() bool { return m.Policy == model.MissingAuto }

// ObservePolicies updates the weights of policies by their losses at an event. NaN marks a policy that is not
// available. The policy fill is not among them.
func (m *Mixture) ObservePolicies(r int, losses [3]float64) {
	m.ranges[r].policies.Take(losses[:])
}

// ObserveFilled updates the weight of the policy fill by the losses at an event of the other policies together (others)
// and of fill.
func (m *Mixture) ObserveFilled(r int, others, filled float64) {
	m.ranges[r].filled.Take([]float64{others, filled})
}

// Fill returns the weight of the policy fill in a range.
func (m *Mixture) Fill(r int) float64 {
	if r == 0 {
		return 0
	}
	return m.ranges[r].missing[3]
}

// Own counts an event of a range that arrived with missing fields.
func (m *Mixture) Own(r int) { m.ranges[r].own++ }

// LearnsFromMasks reports whether a range still learns from masks.
func (m *Mixture) LearnsFromMasks(r int) bool { return m.ranges[r].own < ownEnough }

// Masked counts a masked event. This makes the counts of Own decay.
func (m *Mixture) Masked() {
	for r := range m.ranges {
		m.ranges[r].own *= 1 - 1.0/ownMemory
	}
}

// Apply makes the learned weights take effect.
func (m *Mixture) Apply() {
	whole := m.sum(&m.ranges[0])
	for r := range m.ranges {
		of := &m.ranges[r]
		if of.mix = whole; r > 0 && of.components.taken > 0 {
			if own := m.sum(of); apart(own, whole) > alike {
				of.mix = own
			}
		}
		if r > 0 {
			m.room = of.policies.Mix(m.room[:0])
			of.missing = earned(m.room)
			m.room = of.filled.Mix(m.room[:0])
			of.missing = of.missing.WithFill(earned(m.room)[1])
		}
		correction := &of.correction
		if r > 0 && correction.taken == 0 && m.ranges[0].correction.taken > 0 {
			correction = &m.ranges[0].correction
		}
		m.room = correction.Mix(m.room[:0])
		of.corrected = m.room[1]
	}
	m.weigh()
}

// earned returns the weights of policies without those below leastPolicy. Rescaling multiplies a score by up to ten, so
// that even the weight that switching leaves a policy that loses would make predictions overconfident.
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

// sum returns the mixture weights of a range's components, summed over scales. The result is valid until the next call
// for that range.
func (m *Mixture) sum(of *ranged) []float64 {
	m.room = of.components.Mix(m.room[:0])
	if of.sums == nil {
		of.sums = make([]float64, m.Components)
	}
	clear(of.sums)
	for i, weight := range m.room {
		of.sums[i/len(m.Scales)] += weight * m.Scales[i%len(m.Scales)]
	}
	return of.sums
}

// apart returns the largest difference between two lists of weights.
func apart(a, b []float64) (most float64) {
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i]))
	}
	return most
}

// weigh computes the results of Weights and Policies. A configured policy gets weight 1. Imputation gets weight 0 if no
// value can be imputed.
func (m *Mixture) weigh() {
	for r := range m.ranges {
		of := &m.ranges[r]
		switch {
		case r == 0:
		case m.Policy != model.MissingAuto:
			of.missing = model.OnePolicy(m.Policy)
		case !m.Imputes:
			of.missing = of.missing.Plain()
		}
		if m.Corrects == nil {
			of.all = of.mix
			continue
		}
		m.corrected = m.Corrects()
		weight := m.Corrected(r)
		of.all = of.all[:0]
		for _, w := range of.mix {
			of.all = append(of.all, (1-weight)*w)
		}
		of.all = append(of.all, weight)
	}
}

// ByRange returns which ranges have their own weights (ranges). For each range it also returns the index of its weights
// (weights), as in model.Missing.Levels. Both results are nil if all ranges use the weights for complete events.
func (m *Mixture) ByRange() (weights, ranges []int) {
	weights = make([]int, model.MissingBins)
	for bin := range weights {
		at := 0
		if !slices.Equal(m.Weights(1+bin), m.Weights(0)) {
			if at = 1 + slices.IndexFunc(ranges, func(r int) bool { return slices.Equal(m.Weights(1+bin), m.Weights(r)) }); at == 0 {
				ranges = append(ranges, 1+bin)
				at = len(ranges)
			}
		}
		weights[bin] = at
	}
	if ranges == nil {
		return nil, nil
	}
	return weights, ranges
}

// State encodes or decodes the Mixture.
func (m *Mixture) State(c *coder.Coder) {
	for r := range m.ranges {
		of := &m.ranges[r]
		of.components.State(c)
		of.policies.State(c)
		c.Floats(&of.mix)
		of.filled.State(c)
		c.Each(&of.missing[0], &of.missing[1], &of.missing[2], &of.missing[3], &of.own)
		c.Failed = c.Failed || len(of.mix) != m.Components
		if m.Corrects != nil {
			of.correction.State(c)
			c.Float(&of.corrected)
		}
	}
	m.Forecasts.state(c)
	if c.Decode && !c.Failed {
		m.weigh()
	}
}
