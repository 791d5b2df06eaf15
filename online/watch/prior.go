package watch

// This file compares predictions with the class shares.

import (
	"math"

	"blankout/internal/coder"
)

// priorBlock is the number of labeled events over which the log-loss is
// compared with that of the class shares.
const priorBlock = 2000

// Prior compares the progressive log-loss with that of the class shares, over one
// block of priorBlock labeled events after the other. Both are weighted by
// importance, as learning is.
type Prior struct {
	// Exceeded says that the last complete block's log-loss was above that of the
	// shares, and no later one has been a hundredth below it.
	Exceeded bool
	Event    uint64  // the number of the event that completed the last block
	LogLoss  float64 // of that block, in nats
	Shares   float64 // log-loss of its class shares
	Size     float64 // of its scores, on average

	events uint64 // labeled, of the block at hand
	loss   float64
	size   float64
	weight []float64 // by class
}

// Diverged reports whether scores are so large that the weights must have grown without bound: no
// data makes log-odds of a hundred the usual ones.
func (p *Prior) Diverged() bool { return p.Size > 100 }

// Take counts in an event of the given importance, log-loss and score. Most events cost three
// additions.
func (p *Prior) Take(label int, weight, loss, score float64, event uint64) {
	for label >= len(p.weight) {
		p.weight = append(p.weight, 0)
	}
	p.events++
	p.loss += weight * loss
	p.size += weight * math.Abs(score)
	p.weight[label] += weight
	if p.events == priorBlock {
		p.complete(event)
	}
}

// complete compares, and begins the next block. The shares pay for being learned
// from the block's n events themselves: (classes - 1)/2 log n nats.
func (p *Prior) complete(event uint64) {
	total, entropy, classes := 0.0, 0.0, 0
	for _, w := range p.weight {
		total += w
	}
	for _, w := range p.weight {
		if w > 0 {
			entropy -= w / total * math.Log(w/total)
			classes++
		}
	}
	if total > 0 {
		n := float64(p.events)
		p.Event, p.LogLoss, p.Size = event, p.loss/total, p.size/total
		p.Shares = entropy + float64(classes-1)/2*math.Log(n)/n
		p.Exceeded = p.LogLoss > p.Shares || p.Exceeded && p.LogLoss > 0.99*p.Shares
	}
	p.events, p.loss, p.size = 0, 0, 0
	clear(p.weight)
}

// State codes the comparison.
func (p *Prior) State(c *coder.Coder) {
	exceeded := uint64(0)
	if p.Exceeded {
		exceeded = 1
	}
	c.Uint(&exceeded)
	p.Exceeded = exceeded != 0
	c.Uint(&p.Event)
	c.Float(&p.LogLoss)
	c.Float(&p.Shares)
	c.Float(&p.Size)
	c.Uint(&p.events)
	c.Float(&p.loss)
	c.Float(&p.size)
	c.Floats(&p.weight)
}
