package mixture

import (
	"math"

	"blankout/internal/coder"
)

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
