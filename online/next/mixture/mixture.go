// Package mixture weighs what several learners of one event, its lanes, say of it, and the policies for fields that are
// missing: each counts by how little it has lost so far on events that lack as much.
package mixture

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/probe"
)

// Mixture holds the mixture weights of lanes and of policies, by range of what an event lacks (0 is nothing, see
// probe.Range), and the forecasts. Each lane is compared with its scores multiplied by each of the scales: one that is
// too sure of itself then counts for less (temperatures; Guo et al. 2017).
type Mixture struct {
	Table  *probe.Table
	policy model.MissingPolicy // the one that is wanted, or auto
	fills  bool                // numbers can be imputed
	lanes  int
	scales []float64
	room   []float64
	scaled []float64 // by output
}

// Event is what scores of an event are judged by. Scores are by lane and output, of which the first Active are in use.
type Event struct {
	Outputs, Active int
	Label           int // the class
	// Lose returns what a score loses, of regression; nil for classes, which lose the log-loss of scores as log-odds.
	Lose func(score float64) float64
}

// NoClass is the score of an output whose class has not come.
const NoClass = -30

// firstShare is what the lane has at first that the user expects to be best.
const firstShare = 0.8

// New returns the Mixture of so many lanes, of which one is expected to be best. The policy is the one that is wanted; fills
// says that numbers can be imputed.
func New(lanes, expected int, scales []float64, policy model.MissingPolicy, fills, regression bool) *Mixture {
	first := make([]float64, lanes)
	for i := range first {
		if first[i] = 1; lanes > 1 {
			if first[i] = firstShare; i != expected {
				first[i] = (1 - firstShare) / float64(lanes-1)
			}
		}
	}
	m := &Mixture{Table: probe.NewTable(first, scales, firstPolicies(policy, fills, regression)), policy: policy, fills: fills, lanes: lanes, scales: scales}
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
func (m *Mixture) Weights(r int) []float64 { return m.Table.InForce[r].Levels }

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
	clear(out)
	for i, w := range m.Table.InForce[r].Levels {
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
	m.room = m.losses(lanes, e, m.room[:0])
	m.Table.TakeLevels(r, m.room)
}

// Chooses says whether policies are mixed by what ObservePolicies takes up.
func (m *Mixture) Chooses() bool { return m.policy == model.MissingAuto }

// ObservePolicies takes up what an event of a range has lost by policy, NaN by those that were not to be had.
func (m *Mixture) ObservePolicies(r int, losses model.PolicyWeights) { m.Table.TakeRules(r, losses) }

// Lost returns what mixed scores lose at an event.
func (e *Event) Lost(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return model.Decision{}.LogLoss(scores, e.Label)
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

// Apply puts in force what has been observed.
func (m *Mixture) Apply() {
	m.Table.Apply()
	m.takeForce()
}

// takeForce has the policy count that is wanted, and imputing not where nothing can be imputed.
func (m *Mixture) takeForce() {
	for r := 1; r < probe.Ranges; r++ {
		switch p := &m.Table.InForce[r].Rules; {
		case m.policy != model.MissingAuto:
			*p = model.OnePolicy(m.policy)
		case !m.fills:
			*p = p.Plain()
		}
	}
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
