package mixture

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// This file learns the mixture weights of several predictors.

// Weights holds the mixture weights of N predictions. An event with the losses l_i changes the weights by
//
//	weight_i <- weight_i exp(-min(most, l_i - least)/2), normalized,
//	weight_i <- (1 - s) weight_i + s prior_i
//
// (fixed share; Herbster & Warmuth 1998), where least is the smallest loss and most is mostLoss. The switching rate s
// determines how fast the weight of a prediction can recover. It is learned: there are weights for each of several s,
// and these are mixed by their losses so far (Monteleoni & Jaakkola 2003).
type Weights struct {
	prior []float64
	rates []float64 // the switching rates s
	// values has the mixture weights by switching rate and prediction, and trust has the weight of each switching rate.
	values, trust []float64
	taken         float64 // number of events
	// mean has the mixture weights, averaged over the latest events.
	mean    []float64
	factors []float64 // scratch: the factor of each prediction's weights at an event
}

const (
	// mostLoss bounds the difference between the loss of a prediction and the smallest loss at an event. A smaller
	// bound would favor overconfident predictions, whose rare large losses would count too little.
	mostLoss = 8
	// lossRate is the factor of losses in the exponent.
	lossRate = 0.5
	// leastWeight is the smallest mixture weight in effect; smaller weights count as 0.
	leastWeight = 0.01
	// meanMemory is the number of events over which weights are averaged. Averaging is needed because weights fluctuate
	// randomly from event to event.
	meanMemory = 64
)

// NewWeights returns Weights that start with the prior, which must sum to 1, for one or more switching rates.
func NewWeights(prior []float64, rates ...float64) Weights {
	s := Weights{prior: prior, rates: rates, factors: make([]float64, len(prior)), mean: append([]float64(nil), prior...)}
	for range rates {
		s.values = append(s.values, prior...)
		s.trust = append(s.trust, 1/float64(len(rates)))
	}
	return s
}

// Begin sets all mixture weights to with.
func (s *Weights) Begin(with []float64) {
	for r := range s.rates {
		copy(s.of(r), with)
	}
	copy(s.mean, with)
}

// Again resets the mixture weights to their initial values.
func (s *Weights) Again() {
	s.Begin(s.prior)
	for r := range s.trust {
		s.trust[r] = 1 / float64(len(s.trust))
	}
	s.taken = 0
}

func (s *Weights) of(rate int) []float64 {
	n := len(s.prior)
	return s.values[rate*n : (rate+1)*n : (rate+1)*n]
}

// Take updates the weights with the losses of an event. NaN marks a prediction that is not available. The weight of
// such a prediction does not change relative to the sum of the other weights.
func (s *Weights) Take(losses []float64) {
	least := math.Inf(1)
	for _, l := range losses {
		if l < least {
			least = l
		}
	}
	factors, prior, total := s.factors, s.prior[:len(s.factors)], 0.0
	for i, l := range losses {
		factors[i] = -lossRate * min(mostLoss, l-least) // NaN if l is NaN
	}
	loss.Exps(factors) // NaN stays NaN
	for r, rate := range s.rates {
		weights := s.of(r)[:len(factors)]
		available, left := 0.0, 0.0
		for i, l := range factors {
			if l == l {
				available += weights[i]
				left += weights[i] * l
			}
		}
		if left == 0 { // no prediction was available
			total += s.trust[r]
			continue
		}
		keep := 1 - rate
		for i, l := range factors {
			x := weights[i]
			if l == l {
				x *= l * available / left
			}
			weights[i] = keep*x + (1-keep)*prior[i]
		}
		s.trust[r] *= left / available
		total += s.trust[r]
	}
	for r := range s.trust {
		s.trust[r] = max(s.trust[r]/total, 1e-12)
	}
	s.taken++
	rate := 1 / min(1+s.taken/8, meanMemory)
	for i, was := range s.mean {
		s.mean[i] = was + rate*(s.Now(i)-was)
	}
}

// Now returns the current weight of prediction i, mixed over the switching rates but not averaged over events.
func (s *Weights) Now(i int) (x float64) {
	for _, trust := range s.trust {
		x += trust * s.values[i]
		i += len(s.prior)
	}
	return x
}

// Mix appends the weights in effect. Weights below leastWeight become 0, and the rest is scaled to the sum 1.
func (s *Weights) Mix(out []float64) []float64 {
	from, sum := len(out), 0.0
	for _, x := range s.mean {
		out, sum = append(out, x), sum+x
	}
	mix, kept := out[from:], 0.0
	for i := range mix {
		if mix[i] /= sum; mix[i] < leastWeight {
			mix[i] = 0
		}
		kept += mix[i]
	}
	for i := range mix {
		mix[i] /= kept
	}
	return out
}

// State encodes or decodes the weights.
func (s *Weights) State(c *coder.Coder) {
	n, rates := len(s.prior), len(s.rates)
	c.Float(&s.taken)
	c.Floats(&s.values, &s.trust, &s.mean)
	c.Failed = c.Failed || len(s.values) != n*rates || len(s.trust) != rates || len(s.mean) != n
}

// Components mixes components whose scores are multiplied by learned factors, independently of missing fields.
type Components struct {
	weights      Weights
	temperatures []Temperature // factors of each component's scores, if there are several outputs
	// The weights in effect. Weights holds the mixture weight of each component, or 0 if the component is idle. Factors
	// holds Weights times the factor of the component's scores.
	Weights, Factors []float64
	observed         bool // some learned weights are not in effect yet
	losses           []float64
}

// recoveryRates are the switching rates: they determine how fast the weight of a component can recover, see Weights.
var recoveryRates = []float64{1e-5, 1e-4, 1e-3, 1e-2}

// NewComponents returns Components with these initial mixture weights, which must sum to 1. They take effect with Apply.
func NewComponents(prior []float64) Components {
	return Components{weights: NewWeights(prior, recoveryRates...), temperatures: make([]Temperature, len(prior)), losses: make([]float64, len(prior))}
}

// Again resets the learned mixture weights to their initial values.
func (m *Components) Again() { m.weights.Again() }

// Multiply makes the factor of a component's scores start at the given value.
func (m *Components) Multiply(component int, factor float64) {
	m.temperatures[component] = NewTemperature(factor)
}

// Mix writes the mixed scores to out, by output. scores is by component and output.
func (m *Components) Mix(scores, out []float64) {
	clear(out)
	for i, factor := range m.Factors {
		if factor == 0 {
			continue
		}
		for k, f := range scores[i*len(out):][:len(out)] {
			out[k] += factor * f
		}
	}
}

// Observe updates the learned weights with the scores of an event, by component and output. lost returns the loss of its
// argument scores multiplied by factor, and must not keep the slice.
func (m *Components) Observe(scores []float64, outputs int, idle func(component int) bool, lost func(scores []float64, factor float64) float64) {
	for i := range m.losses {
		if m.losses[i] = math.NaN(); idle(i) {
			continue
		}
		own := scores[i*outputs:][:outputs]
		at := func(factor float64) float64 { return lost(own, factor) }
		m.losses[i] = at(m.temperatures[i].Factor())
		if outputs > 1 {
			m.temperatures[i].Learn(at)
		}
	}
	m.weights.Take(m.losses)
	m.observed = true
}

// Observed reports whether some learned weights are not in effect yet.
func (m *Components) Observed() bool { return m.observed }

// Apply makes the learned weights take effect.
func (m *Components) Apply(idle func(component int) bool) {
	m.observed = false
	m.Weights = m.weights.Mix(m.Weights[:0])
	active, first := 0.0, -1
	for i := range m.Weights {
		if idle(i) {
			m.Weights[i] = 0
		} else if first < 0 {
			first = i
		}
		active += m.Weights[i]
	}
	if active == 0 && first >= 0 { // the weights of all components that are not idle were 0
		m.Weights[first], active = 1, 1
	}
	m.Factors = m.Factors[:0]
	for i := range m.Weights {
		if active > 0 {
			m.Weights[i] /= active
		}
		m.Factors = append(m.Factors, m.Weights[i]*m.temperatures[i].Factor())
	}
}

// State encodes or decodes the learned weights.
func (m *Components) State(c *coder.Coder) {
	m.weights.State(c)
	for i := range m.temperatures {
		m.temperatures[i].State(c)
	}
}

// The part below has the losses by which components are compared.

// Event describes an event by which components are compared. Lists of scores are by component and output. Only the first Active
// outputs are in use.
type Event struct {
	Outputs, Active int
	Label           int // index of the class
	// Decision turns scores into probabilities, with the calibration in force. Served uses it for classification.
	Decision model.Decision
	// Lose returns the loss of a score for regression. It is nil for classification, where the loss is the log-loss.
	Lose func(score float64) float64
	room []float64
}

// NoClass is the score of an output that no class has yet.
const NoClass = -30

// Lost returns the loss of mixed scores at an event.
func (e *Event) Lost(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return model.Decision{}.LogLoss(scores, e.Label)
}

// Served returns the loss of mixed scores at an event as they are served, with the calibration in force. An error that
// the calibration corrects does not count against a component.
func (e *Event) Served(scores []float64) float64 {
	return e.ServedBy(e.Decision, scores)
}

// ServedBy is Served with another Decision.
func (e *Event) ServedBy(d model.Decision, scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return d.LogLoss(e.times(scores, 1), e.Label)
}

// LostTimes returns the loss of a component's scores after multiplication by factor.
func (e *Event) LostTimes(scores []float64, factor float64) float64 {
	if e.Lose != nil {
		return e.Lose(factor * scores[0])
	}
	return e.Lost(e.times(scores, factor))
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

// losses appends the loss of each component with each scale to out.
func (m *Mixture) losses(scores []float64, e *Event, out []float64) []float64 {
	switch {
	case e.Lose != nil:
		for _, f := range scores {
			out = append(out, e.Lose(f))
		}
		return out
	case e.Outputs == 1:
		return m.binary(scores, e.Label, out)
	}
	if len(m.scaled) != e.Outputs {
		m.scaled = make([]float64, e.Outputs)
	}
	scaled := m.scaled
	for ; len(scores) > 0; scores = scores[e.Outputs:] {
		for _, scale := range m.Scales {
			for k, f := range scores[:e.Outputs] {
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
func (m *Mixture) binary(scores []float64, label int, out []float64) []float64 {
	sign := 1.0
	if label == 1 {
		sign = -1
	}
	n := len(scores) * len(m.Scales)
	for _, f := range scores {
		for _, scale := range m.Scales {
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

// The part below learns a factor (temperature) for an expert's scores.

// Temperature learns the factor that minimizes the log-loss of scores multiplied by it. Online gradient steps change
// the logarithm of the factor. Each step is the gradient divided by a decaying sum of squared gradients.
type Temperature struct {
	logarithm, squares float64
}

const (
	temperatureMemory = 5000
	temperaturePrior  = 10
	temperatureStep   = 0.02
	mostTemperature   = 2
)

// NewTemperature returns a Temperature that starts at the given factor.
func NewTemperature(factor float64) Temperature { return Temperature{logarithm: math.Log(factor)} }

// Factor returns the current factor.
func (t *Temperature) Factor() float64 {
	if t.logarithm == 0 { // always 0 for one output
		return 1
	}
	return loss.Exp(t.logarithm)
}

// Learn learns from an event. lost returns the log-loss of the event's scores multiplied by a factor.
func (t *Temperature) Learn(lost func(factor float64) float64) {
	f := t.Factor()
	slope := (lost(f*(1+temperatureStep)) - lost(f*(1-temperatureStep))) / (2 * temperatureStep)
	if slope-slope != 0 {
		return
	}
	t.squares = (1-1.0/temperatureMemory)*t.squares + slope*slope
	t.logarithm = max(-mostTemperature, min(t.logarithm-slope/(t.squares+temperaturePrior), mostTemperature))
}

// State encodes or decodes the state.
func (t *Temperature) State(c *coder.Coder) { c.Each(&t.logarithm, &t.squares) }
