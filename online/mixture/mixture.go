// Package mixture mixes the scores that several experts give to an event, and the policies for missing fields. Each of
// these lanes and policies has a mixture weight, which is learned from its losses (Weights). There is a set of weights for
// each range of the fraction of an event's fields that is missing (Table).
//
// The mixed score stays linear in the features. The package also draws masks, which remove features from an event (Mask),
// and estimates the error at each fraction of missing features from masked events (Curve). It contains no model weights.
package mixture

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Mixture holds the mixture weights of lanes and of policies, by range of what an event lacks (0 is nothing, see
// Range), and the forecasts. Each lane is compared with its scores multiplied by each of the scales: one that is
// too sure of itself then counts for less (temperatures; Guo et al. 2017).
type Mixture struct {
	Table  *Table
	policy model.MissingPolicy // the one that is wanted, or auto
	fills  bool                // numbers can be imputed
	lanes  int
	// Correctable says that there is a lane behind the others, the corrected one, of what other experts make of the base; corrects
	// that it may count.
	correctable, corrects bool
	weights               [Ranges][]float64 // see Weights
	scales                []float64
	room                  []float64
	scaled                []float64 // by output
}

// Event is what scores of an event are judged by. Scores are by lane and output, of which the first Active are in use.
type Event struct {
	Outputs, Active int
	Label           int // the class
	// Lose returns what a score loses, of regression; nil for classes, which lose the log-loss of scores as log-odds.
	Lose func(score float64) float64
	room []float64
}

// NoClass is the score of an output whose class has not come.
const NoClass = -30

// firstShare is what the lane has at first that the user expects to be best.
const firstShare = 0.8

// Settings are what a Mixture is made from.
type Settings struct {
	Lanes       int // without the corrected one
	Expected    int // which of them is expected to be best
	Correctable bool
	Scales      []float64
	Policy      model.MissingPolicy // the one that is wanted
	Fills       bool                // numbers can be imputed
	Regression  bool
}

// correctedShare is what the corrected lane has at first.
const correctedShare = 0.5

// New returns a Mixture that has observed nothing.
func New(c Settings) *Mixture {
	lanes := c.Lanes
	first := make([]float64, lanes)
	for i := range first {
		if first[i] = 1; lanes > 1 {
			if first[i] = firstShare; i != c.Expected {
				first[i] = (1 - firstShare) / float64(lanes-1)
			}
		}
	}
	m := &Mixture{
		Table: NewTable(first, c.Scales, firstPolicies(c.Policy, c.Fills, c.Regression)), policy: c.Policy, fills: c.Fills,
		lanes: lanes, correctable: c.Correctable, scales: c.Scales,
	}
	if m.correctable {
		m.Table.AddSecond(correctedShare)
	}
	m.takeForce()
	return m
}

// firstPolicies are the weights that policies have at first: most for imputing where numbers can be, else for rescaling.
func firstPolicies(policy model.MissingPolicy, fills, regression bool) model.PolicyWeights {
	if policy != model.MissingAuto {
		return model.OnePolicy(policy)
	}
	plain := [2]float64{0.1, 0.9}
	if regression { // rescaling is for classes
		plain = [2]float64{1, 0}
	}
	if !fills {
		return model.PolicyWeights{plain[0], plain[1], 0}
	}
	return model.PolicyWeights{0.1 * plain[0], 0.1 * plain[1], 0.9}
}

// Weights returns the weights of lanes on events of a range, borrowed: weights times scales, so that they need not sum
// to 1.
func (m *Mixture) Weights(r int) []float64 { return m.weights[r] }

// Uncorrected returns the weights where the corrected lane does not count.
func (m *Mixture) Uncorrected(r int) []float64 { return m.Table.InForce[r].Levels }

// Correct says whether the corrected lane may count.
func (m *Mixture) Correct(may bool) {
	if m.corrects != may {
		m.corrects = may
		m.weigh()
	}
}

// CorrectAgain has the corrected lane count as at the beginning of a stream.
func (m *Mixture) CorrectAgain() {
	m.Table.SecondAgain(correctedShare)
	m.weigh()
}

// CorrectAlone has the corrected lane answer alone, until others have been better.
func (m *Mixture) CorrectAlone() {
	m.Table.SecondAlone()
	m.takeForce()
}

// Corrected returns the weight of the corrected lane on events of a range.
func (m *Mixture) Corrected(r int) float64 {
	if !m.corrects {
		return 0
	}
	return m.Table.InForce[r].Second
}

// weigh makes the weights of all lanes.
func (m *Mixture) weigh() {
	for r := range m.weights {
		if !m.correctable {
			m.weights[r] = m.Uncorrected(r)
			continue
		}
		share := m.Corrected(r)
		m.weights[r] = m.weights[r][:0]
		for _, w := range m.Uncorrected(r) {
			m.weights[r] = append(m.weights[r], (1-share)*w)
		}
		m.weights[r] = append(m.weights[r], share)
	}
}

// Largest returns the lane of the largest weight on events of a range.
func (m *Mixture) Largest(r int) int { return m.Table.InForce[r].Largest() }

// Restart begins with the whole weight on the lane of the largest; policies stay.
func (m *Mixture) Restart() {
	first := make([]float64, m.lanes)
	first[m.Largest(0)] = 1
	m.Table.Restart(first, m.Table.Rules())
	m.takeForce()
}

// Policies returns the weights of the policies by range.
func (m *Mixture) Policies() model.MissingPolicies { return m.Table.Rules() }

// Score writes to out, by output, what scores by lane and output are mixed to on events of a range.
func (m *Mixture) Score(lanes []float64, r, active int, out []float64) {
	Mix(m.weights[r], lanes, active, out)
}

// Base writes to out, by output, the base that the corrected lane is made of: the other lanes as they are mixed for whole
// events. That of an output that is not in use is 0.
func (m *Mixture) Base(lanes []float64, active int, out []float64) {
	Mix(m.Uncorrected(0), lanes, active, out)
	clear(out[active:])
}

// Mix writes to out, by output, what scores by lane and output are mixed to by these weights.
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

// Observe takes up what the lanes have lost at an event of a range.
func (m *Mixture) Observe(lanes []float64, r int, e *Event) {
	if m.lanes*len(m.scales) == 1 {
		return
	}
	m.room = m.losses(lanes[:m.lanes*e.Outputs], e, m.room[:0])
	m.Table.TakeLevels(r, m.room)
}

// ObserveCorrected takes up what the other lanes as they are mixed and the corrected lane have lost at an event of a range.
func (m *Mixture) ObserveCorrected(r int, others, corrected float64) {
	m.Table.TakeSecond(r, others, corrected)
}

// Chooses says whether policies are mixed by what ObservePolicies takes up.
func (m *Mixture) Chooses() bool { return m.policy == model.MissingAuto }

// ObservePart is Observe for a learner that is one of several, at an event that lacks nothing.
func (m *Mixture) ObservePart(lanes []float64, e *Event) {
	if m.lanes*len(m.scales) > 1 {
		m.room = m.losses(lanes[:m.lanes*e.Outputs], e, m.room[:0])
		m.Table.AddLevels(m.room)
	}
}

// ObservePolicies takes up what an event of a range has lost by policy, NaN by those that were not to be had.
func (m *Mixture) ObservePolicies(r int, losses model.PolicyWeights) { m.Table.TakeRules(r, losses) }

// Lost returns what mixed scores lose at an event.
func (e *Event) Lost(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return model.Decision{}.LogLoss(scores, e.Label)
}

// LostTimes returns what scores of one lane lose if all are multiplied by a factor.
func (e *Event) LostTimes(lane []float64, factor float64) float64 {
	if e.Lose != nil {
		return e.Lose(factor * lane[0])
	}
	e.room = append(e.room[:0], lane...)
	for k := range e.room {
		if e.room[k] *= factor; k >= e.Active {
			e.room[k] = NoClass
		}
	}
	return e.Lost(e.room)
}

// losses appends what each lane loses at each scale.
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

// binary is losses for one output that tells two classes apart.
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

// Merge takes up what an interval of another learner has added between base and now.
func (m *Mixture) Merge(base, now *Table) {
	m.Table.Merge(base, now)
	m.takeForce()
}

// Apply puts in force what has been observed.
func (m *Mixture) Apply() {
	m.Table.Apply()
	m.takeForce()
}

// takeForce has the policy count that is wanted, and imputing not where nothing can be imputed.
func (m *Mixture) takeForce() {
	for r := 1; r < Ranges; r++ {
		switch p := &m.Table.InForce[r].Rules; {
		case m.policy != model.MissingAuto:
			*p = model.OnePolicy(m.policy)
		case !m.fills:
			*p = p.Plain()
		}
	}
	m.weigh()
}

// ByRange returns which weights answer the events of each range of what is missing, as model.Missing.Levels has them,
// and the ranges that have weights of their own; nil where those of whole events answer all.
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

// State codes the Mixture.
func (m *Mixture) State(c *coder.Coder) {
	if m.Table.State(c); c.Decode {
		m.takeForce()
	}
}
