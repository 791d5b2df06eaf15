package mixture

// This file holds the shares of a score that several answers have.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Weights are the shares of a score that N answers have. After an event with the losses l_i
//
//	share_i <- share_i exp(-min(most, l_i - least)/2), normalized,
//	share_i <- (1 - s) share_i + s prior_i
//
// (fixed share; Herbster & Warmuth 1998). How fast an answer may come back, s, is learned: there
// are shares for each of several s, which are mixed in turn by how well they have done (Monteleoni
// & Jaakkola 2003).
type Weights struct {
	prior []float64
	rates []float64 // the s
	// By rate and answer the shares, and by rate what part of the score they have.
	shares, trust []float64
	taken         float64 // events
	// mean is what RangeWeights tells: the shares, mixed, as they were after the latest events.
	mean []float64
	// What events have lost that are not taken yet: by answer min(most, l_i - least), summed.
	// Where several learners learn one model, an interval only adds to it.
	pending []float64
	waiting float64 // events
}

const (
	// mostLoss bounds by how much an answer can do worse than the best one at one event: under a
	// tighter bound answers look good that are too sure of themselves.
	mostLoss = 8
	// lossRate is what a loss counts for.
	lossRate = 0.5
	// leastShare is what an answer must have to be part of the score.
	leastShare = 0.01
	// meanMemory is over how many events shares are averaged: chance moves them from one to the next.
	meanMemory = 64
)

// NewWeights returns shares that begin with the prior, which sum to 1, for one or several s.
func NewWeights(prior []float64, rates ...float64) Weights {
	s := Weights{prior: prior, rates: rates, pending: make([]float64, len(prior)), mean: append([]float64(nil), prior...)}
	for range rates {
		s.shares = append(s.shares, prior...)
		s.trust = append(s.trust, 1/float64(len(rates)))
	}
	return s
}

// Taken says how many events the shares have taken up.
func (s *Weights) Taken() float64 { return s.taken }

// Begin makes the shares begin with others than the prior.
func (s *Weights) Begin(with []float64) {
	for r := range s.rates {
		copy(s.of(r), with)
	}
	copy(s.mean, with)
}

// Again makes the shares those of a stream that begins.
func (s *Weights) Again() {
	s.Begin(s.prior)
	for r := range s.trust {
		s.trust[r] = 1 / float64(len(s.trust))
	}
	s.taken = 0
}

func (s *Weights) of(rate int) []float64 {
	n := len(s.prior)
	return s.shares[rate*n : (rate+1)*n : (rate+1)*n]
}

// Take takes up what an event has lost by answer. An answer whose loss is not a number was not
// to be had; its share stays what it is against the others as a whole.
func (s *Weights) Take(losses []float64) {
	s.Add(losses)
	s.settle()
}

// Add is Take for an event that counts later, when the sums of several learners are merged.
func (s *Weights) Add(losses []float64) {
	least := math.Inf(1)
	for _, l := range losses {
		if l < least {
			least = l
		}
	}
	for i, l := range losses {
		s.pending[i] += min(mostLoss, l-least) // no number if l is none
	}
	s.waiting++
}

// settle takes up what is pending.
func (s *Weights) settle() {
	for i := range s.pending {
		s.pending[i] *= -lossRate
	}
	loss.Exps(s.pending) // what is left of the shares; NaN stays NaN
	pending, prior, total := s.pending, s.prior[:len(s.pending)], 0.0
	for r, rate := range s.rates {
		shares := s.of(r)[:len(pending)]
		awake, left := 0.0, 0.0
		for i, l := range pending {
			if l == l {
				awake += shares[i]
				left += shares[i] * l
			}
		}
		if left == 0 { // none was to be had, or all have lost beyond what floats hold
			total += s.trust[r]
			continue
		}
		keep := 1 - rate
		if s.waiting > 1 {
			keep = loss.Pow(keep, s.waiting)
		}
		for i, l := range pending {
			x := shares[i]
			if l == l {
				x *= l * awake / left
			}
			shares[i] = keep*x + (1-keep)*prior[i]
		}
		s.trust[r] *= left / awake
		total += s.trust[r]
	}
	for r := range s.trust {
		s.trust[r] = max(s.trust[r]/total, 1e-12)
	}
	s.taken += s.waiting
	s.waiting = 0
	rate := 1 / min(1+s.taken/8, meanMemory)
	for i, was := range s.mean {
		s.mean[i] = was + rate*(s.now(i)-was)
	}
	clear(s.pending)
}

// now returns the share of an answer after the latest event.
func (s *Weights) now(i int) (x float64) {
	for _, trust := range s.trust {
		x += trust * s.shares[i]
		i += len(s.prior)
	}
	return x
}

// RangeWeights appends the shares in force: those below a hundredth are 0, and all sum to 1.
func (s *Weights) Mix(out []float64) []float64 {
	from, sum := len(out), 0.0
	for _, x := range s.mean {
		out, sum = append(out, x), sum+x
	}
	mix, kept := out[from:], 0.0
	for i := range mix {
		if mix[i] /= sum; mix[i] < leastShare {
			mix[i] = 0
		}
		kept += mix[i]
	}
	for i := range mix {
		mix[i] /= kept
	}
	return out
}

// Merge takes up what an interval of another learner, from base to now, has added.
func (s *Weights) Merge(base, now *Weights) {
	for i := range s.pending {
		s.pending[i] += now.pending[i] - base.pending[i]
	}
	if s.waiting += now.waiting - base.waiting; s.waiting > 0 {
		s.settle()
	}
}

// State walks the shares.
func (s *Weights) State(c *coder.Coder) {
	n, rates := len(s.prior), len(s.rates)
	c.Float(&s.taken)
	c.Floats(&s.shares)
	c.Floats(&s.trust)
	c.Floats(&s.mean)
	c.Failed = c.Failed || len(s.shares) != n*rates || len(s.trust) != rates || len(s.mean) != n
}

// SumsState walks what is pending.
func (s *Weights) SumsState(c *coder.Coder) {
	c.Float(&s.waiting)
	c.Floats(&s.pending)
	c.Failed = c.Failed || len(s.pending) != len(s.prior)
}

// Clone returns a copy.
func (s *Weights) Clone() Weights {
	out := *s
	out.shares, out.trust, out.mean, out.pending = append([]float64(nil), s.shares...), append([]float64(nil), s.trust...), append([]float64(nil), s.mean...), append([]float64(nil), s.pending...)
	return out
}
