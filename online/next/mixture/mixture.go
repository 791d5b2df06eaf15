// Package mixture weighs what several learners of one event, its lanes, say of it: each counts by how little it has
// lost so far.
package mixture

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/probe"
)

// Mixture holds the mixture weights of lanes. Each lane is compared with its scores multiplied by each of the scales,
// an odd number of them: one that is too sure of itself then counts for less (temperatures; Guo et al. 2017).
type Mixture struct {
	scales  []float64
	outputs int
	shares  probe.Shares // by lane and scale
	// Weights are those in force, by lane: weights times scales, so that they need not sum to 1.
	Weights []float64
	// Room for the losses of an event by lane and scale, and for what they are made of.
	losses, room []float64
}

const (
	// firstShare is what the lane has at first that the user expects to be best.
	firstShare = 0.8
	// middleShare is what a lane's middle scale has of the lane's share at first.
	middleShare = 0.8
)

// rates are how fast a lane may come back, of which those count that have done well.
var rates = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}

// New returns the Mixture of so many lanes, of which one is expected to be best.
func New(lanes, expected int, scales []float64, outputs int) *Mixture {
	m := &Mixture{scales: scales, outputs: outputs, Weights: make([]float64, lanes)}
	var prior []float64
	for i := range lanes {
		share := 1.0
		if lanes > 1 {
			if share = firstShare; i != expected {
				share = (1 - firstShare) / float64(lanes-1)
			}
		}
		for s := range scales {
			switch {
			case len(scales) == 1:
				prior = append(prior, share)
			case s == len(scales)/2:
				prior = append(prior, share*middleShare)
			default:
				prior = append(prior, share*(1-middleShare)/float64(len(scales)-1))
			}
		}
	}
	m.shares = probe.NewShares(prior, rates...)
	m.Apply()
	return m
}

// NoClass is the score of an output whose class has not come.
const NoClass = -30

// Score writes to out, by output, what scores by lane and output are mixed to. The first active outputs are in use.
func (m *Mixture) Score(lanes []float64, active int, out []float64) {
	clear(out)
	for i, w := range m.Weights {
		if w == 0 {
			continue
		}
		for k, f := range lanes[i*m.outputs:][:active] {
			out[k] += w * f
		}
	}
	for k := active; k < len(out); k++ {
		out[k] = NoClass
	}
}

// Grow gives each lane more outputs.
func (m *Mixture) Grow(outputs int) { m.outputs = outputs }

// Observe takes up what the lanes have lost at a labeled event: scores are theirs, by lane and output, of which the
// first active ones are in use.
func (m *Mixture) Observe(lanes []float64, active, label int) {
	if len(m.Weights)*len(m.scales) == 1 {
		return
	}
	if m.outputs == 1 {
		m.binary(lanes, label)
	} else {
		m.several(lanes, active, label)
	}
	m.shares.Take(m.losses)
}

// Take is Observe for what each lane has lost, of lanes with one scale.
func (m *Mixture) Take(losses []float64) { m.shares.Take(losses) }

// binary finds the log-losses of one output for two classes.
func (m *Mixture) binary(lanes []float64, label int) {
	m.losses, m.room = m.losses[:0], m.room[:0]
	sign := 1.0
	if label == 1 {
		sign = -1
	}
	for _, f := range lanes {
		for _, scale := range m.scales {
			u := sign * scale * f
			m.losses, m.room = append(m.losses, u), append(m.room, -math.Abs(u))
		}
	}
	loss.Exps(m.room)
	for i, z := range m.room {
		m.losses[i] = max(m.losses[i], 0) + loss.Log1p(z)
	}
}

// several finds the log-losses of an output for each class.
func (m *Mixture) several(lanes []float64, active, label int) {
	m.losses = m.losses[:0]
	for ; len(lanes) > 0; lanes = lanes[m.outputs:] {
		for _, scale := range m.scales {
			m.room = m.room[:0]
			for k, f := range lanes[:m.outputs] {
				if f *= scale; k >= active {
					f = NoClass
				}
				m.room = append(m.room, f)
			}
			m.losses = append(m.losses, model.Decision{}.LogLoss(m.room, label))
		}
	}
}

// Apply puts in force what has been observed.
func (m *Mixture) Apply() {
	m.room = m.shares.Mix(m.room[:0])
	clear(m.Weights)
	for i, share := range m.room {
		m.Weights[i/len(m.scales)] += share * m.scales[i%len(m.scales)]
	}
}

// Largest returns the lane with the largest weight.
func (m *Mixture) Largest() (lane int) {
	for i, w := range m.Weights {
		if w > m.Weights[lane] {
			lane = i
		}
	}
	return lane
}

// State codes the Mixture.
func (m *Mixture) State(c *coder.Coder) {
	n := len(m.Weights)
	m.shares.State(c)
	c.Floats(&m.Weights)
	c.Failed = c.Failed || len(m.Weights) != n
}
