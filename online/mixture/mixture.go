// Package mixture mixes the scores of several experts for an event, and the policies for missing fields. Each of these
// lanes (mixed models) and policies has a mixture weight, which is learned from its losses (Weights). There is a set of
// mixture weights for each range of the missing fraction of an event (Table).
//
// The mixed score stays linear in the features. The package also draws masks, which remove features from an event
// (Mask). It estimates the error at each fraction of missing features from masked events (ErrorCurve). It contains no
// model weights.
package mixture

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Mixture holds the mixture weights of lanes (mixed models) and of missing policies, by range of the missing fraction
// (see Range), and the forecasts. Each lane is also mixed with its scores multiplied by each of several scales
// (temperatures; Guo et al. 2017). So an overconfident lane gets less influence.
type Mixture struct {
	Table   *Table
	policy  model.MissingPolicy // the configured policy
	imputes bool                // numeric values can be imputed
	lanes   int
	// If correctable is true, there is one more model: all correcting experts together. corrects reports whether they
	// may have mixture weight.
	correctable, corrects bool
	weights               [Ranges][]float64 // results of method Weights
	scales                []float64
	room                  []float64
	scaled                []float64 // scratch scores by output
}

// Event describes an event by which models are compared. Lists of scores are by model and output. Only the first Active
// outputs are in use.
type Event struct {
	Outputs, Active int
	Label           int // index of the class
	// Decision is the one in force, for Served.
	Decision model.Decision
	// Lose returns the loss of a score for regression. It is nil for classification, where the loss is the log-loss.
	Lose func(score float64) float64
	room []float64
}

// NoClass is the score of an output that no class has yet.
const NoClass = -30

// firstWeight is the initial mixture weight of the model that is expected to be best.
const firstWeight = 0.8

// Settings are the settings of a Mixture.
type Settings struct {
	Lanes       int // number of models without the correcting experts
	Expected    int // index of the model that is expected to be best
	Correctable bool
	Scales      []float64
	Policy      model.MissingPolicy // the configured policy
	Imputes     bool                // numeric values can be imputed
	Regression  bool
}

// correctedWeight is the initial mixture weight of the correcting experts.
const correctedWeight = 0.5

// New returns a Mixture with initial weights.
func New(c Settings) *Mixture {
	lanes := c.Lanes
	first := make([]float64, lanes)
	for i := range first {
		if first[i] = 1; lanes > 1 {
			if first[i] = firstWeight; i != c.Expected {
				first[i] = (1 - firstWeight) / float64(lanes-1)
			}
		}
	}
	m := &Mixture{
		Table: NewTable(first, c.Scales, firstPolicies(c.Policy, c.Imputes, c.Regression)), policy: c.Policy, imputes: c.Imputes,
		lanes: lanes, correctable: c.Correctable, scales: c.Scales,
	}
	if m.correctable {
		m.Table.AddSecond(correctedWeight)
	}
	m.takeForce()
	return m
}

// firstPolicies returns the initial weights of the missing policies. If numeric values can be imputed, imputation gets
// the largest weight. Otherwise rescaling gets the largest weight.
func firstPolicies(policy model.MissingPolicy, fills, regression bool) model.PolicyWeights {
	if policy != model.MissingAuto {
		return model.OnePolicy(policy)
	}
	plain := [2]float64{0.1, 0.9}
	if regression { // regression does not rescale
		plain = [2]float64{1, 0}
	}
	if !fills {
		return model.PolicyWeights{plain[0], plain[1], 0}
	}
	return model.PolicyWeights{0.1 * plain[0], 0.1 * plain[1], 0.9}
}

// Weights returns the weights of all models in range r. Each is the product of a mixture weight and a scale, so their
// sum need not be 1. The caller must not change the result.
func (m *Mixture) Weights(r int) []float64 { return m.weights[r] }

// Uncorrected returns the mixture weights in range r without the correcting experts.
func (m *Mixture) Uncorrected(r int) []float64 { return m.Table.InForce[r].Levels }

// Correct sets whether the correcting experts may have mixture weight.
func (m *Mixture) Correct(may bool) {
	if m.corrects != may {
		m.corrects = may
		m.weigh()
	}
}

// CorrectAgain gives the correcting experts their initial mixture weight.
func (m *Mixture) CorrectAgain() {
	m.Table.SecondAgain(correctedWeight)
	m.weigh()
}

// Corrected returns the mixture weight of the correcting experts in a range.
func (m *Mixture) Corrected(r int) float64 {
	if !m.corrects {
		return 0
	}
	return m.Table.InForce[r].Second
}

// weigh recomputes the results of Weights.
func (m *Mixture) weigh() {
	for r := range m.weights {
		if !m.correctable {
			m.weights[r] = m.Uncorrected(r)
			continue
		}
		weight := m.Corrected(r)
		m.weights[r] = m.weights[r][:0]
		for _, w := range m.Uncorrected(r) {
			m.weights[r] = append(m.weights[r], (1-weight)*w)
		}
		m.weights[r] = append(m.weights[r], weight)
	}
}

// Largest returns the index of the model with the largest weight in a range.
func (m *Mixture) Largest(r int) int { return m.Table.InForce[r].Largest() }

// Policies returns the mixture weights of the missing policies in effect.
func (m *Mixture) Policies() model.MissingPolicies { return m.Table.Policies() }

// Score writes the mixed scores in a range to out, by output.
func (m *Mixture) Score(lanes []float64, r, active int, out []float64) {
	Mix(m.weights[r], lanes, active, out)
}

// Base writes to out, by output, the scores that the correcting experts correct. They are the scores of the other
// models, mixed with the weights for complete events. They are 0 for outputs that are not in use.
func (m *Mixture) Base(lanes []float64, active int, out []float64) {
	Mix(m.Uncorrected(0), lanes, active, out)
	clear(out[active:])
}

// Mix writes the scores of models, mixed by weights, to out, by output.
func Mix(weights, lanes []float64, active int, out []float64) {
	clear(out)
	for i, w := range weights {
		if w == 0 {
			continue
		}
		for k, f := range lanes[i*len(out):][:active] {
			out[k] += w * f
		}
	}
	for k := active; k < len(out); k++ {
		out[k] = NoClass
	}
}

// Observe updates the weights of models by their losses at an event.
func (m *Mixture) Observe(lanes []float64, r int, e *Event) {
	if m.lanes*len(m.scales) == 1 {
		return
	}
	m.room = m.losses(lanes[:m.lanes*e.Outputs], e, m.room[:0])
	m.Table.TakeLevels(r, m.room)
}

// ObserveCorrected updates the weight of the correcting experts. others is the loss of all other models together, and
// corrected is the loss of the correcting experts.
func (m *Mixture) ObserveCorrected(r int, others, corrected float64) {
	m.Table.TakeSecond(r, others, corrected)
}

// Chooses reports whether the policy is "auto", so that ObservePolicies has an effect.
func (m *Mixture) Chooses() bool { return m.policy == model.MissingAuto }

// ObservePart is Observe for a learner in a group. It is only for events without missing fields.
func (m *Mixture) ObservePart(lanes []float64, e *Event) {
	if m.lanes*len(m.scales) > 1 {
		m.room = m.losses(lanes[:m.lanes*e.Outputs], e, m.room[:0])
		m.Table.AddLevels(m.room)
	}
}

// ObservePolicies updates the weights of policies by their losses at an event. NaN marks a policy that is not
// available.
func (m *Mixture) ObservePolicies(r int, losses model.PolicyWeights) { m.Table.TakePolicies(r, losses) }

// Lost returns the loss of mixed scores at an event.
func (e *Event) Lost(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return model.Decision{}.LogLoss(scores, e.Label)
}

// Served returns the loss of mixed scores at an event as they are served, with the calibration in force. What calibration
// makes good, no model needs to.
func (e *Event) Served(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return e.Decision.LogLoss(e.times(scores, 1), e.Label)
}

// LostTimes returns the loss of a model's scores after multiplication by factor.
func (e *Event) LostTimes(lane []float64, factor float64) float64 {
	if e.Lose != nil {
		return e.Lose(factor * lane[0])
	}
	return e.Lost(e.times(lane, factor))
}

// times returns scores multiplied by factor, with NoClass for outputs that no class has yet. The result is valid until
// the next call.
func (e *Event) times(scores []float64, factor float64) []float64 {
	e.room = append(e.room[:0], scores[:e.Outputs]...)
	for k := range e.room {
		if e.room[k] *= factor; k >= e.Active {
			e.room[k] = NoClass
		}
	}
	return e.room
}

// losses appends the loss of each model with each scale to out.
func (m *Mixture) losses(lanes []float64, e *Event, out []float64) []float64 {
	switch {
	case e.Lose != nil:
		for _, f := range lanes {
			out = append(out, e.Lose(f))
		}
		return out
	case e.Outputs == 1:
		return m.binary(lanes, e.Label, out)
	}
	if len(m.scaled) != e.Outputs {
		m.scaled = make([]float64, e.Outputs)
	}
	scaled := m.scaled
	for ; len(lanes) > 0; lanes = lanes[e.Outputs:] {
		for _, scale := range m.scales {
			for k, f := range lanes[:e.Outputs] {
				if scaled[k] = scale * f; k >= e.Active {
					scaled[k] = NoClass
				}
			}
			out = append(out, model.Decision{}.LogLoss(scaled, e.Label))
		}
	}
	return out
}

// binary is losses for two classes with a single output.
func (m *Mixture) binary(lanes []float64, label int, out []float64) []float64 {
	sign := 1.0
	if label == 1 {
		sign = -1
	}
	n := len(lanes) * len(m.scales)
	for _, f := range lanes {
		for _, scale := range m.scales {
			out = append(out, sign*scale*f)
		}
	}
	for _, u := range out[:n] {
		out = append(out, -math.Abs(u))
	}
	exps := out[n:]
	loss.Exps(exps)
	for i, z := range exps {
		out[i] = max(out[i], 0) + loss.Log1p(z)
	}
	return out[:n]
}

// Merge adds the observations that another learner has made between base and now.
func (m *Mixture) Merge(base, now *Table) {
	m.Table.Merge(base, now)
	m.takeForce()
}

// Apply makes the learned weights take effect.
func (m *Mixture) Apply() {
	m.Table.Apply()
	m.takeForce()
}

// takeForce computes the weights in effect. A configured policy gets weight 1. Imputation gets weight 0 if no value can
// be imputed.
func (m *Mixture) takeForce() {
	for r := 1; r < Ranges; r++ {
		switch p := &m.Table.InForce[r].Policies; {
		case m.policy != model.MissingAuto:
			*p = model.OnePolicy(m.policy)
		case !m.imputes:
			*p = p.Plain()
		}
	}
	m.weigh()
}

// ByRange returns which ranges have their own weights (ranges). For each range it also returns the index of its weights
// (weights), as in model.Missing.Levels. Both results are nil if all ranges use the weights for complete events.
func (m *Mixture) ByRange() (weights, ranges []int) {
	weights = make([]int, model.MissingBins)
	for bin := range weights {
		at := 0
		if !same(m.Weights(1+bin), m.Weights(0)) {
			for i, r := range ranges {
				if same(m.Weights(1+bin), m.Weights(r)) {
					at = 1 + i
				}
			}
			if at == 0 {
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

func same(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// State encodes or decodes the Mixture.
func (m *Mixture) State(c *coder.Coder) {
	if m.Table.State(c); c.Decode {
		m.takeForce()
	}
}
