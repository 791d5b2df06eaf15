package mixture

// This file learns the mixture weights of several predictors.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

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
