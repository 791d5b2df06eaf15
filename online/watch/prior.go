package watch

// This file compares predictions with the class frequencies.

import (
	"math"

	"blankout/internal/coder"
)

// priorBlock is the number of labeled events per comparison.
const priorBlock = 2000

// Prior compares the progressive log-loss with that of the class frequencies, in consecutive blocks of priorBlock
// labeled events. Both are weighted by importance.
type Prior struct {
	// Exceeded means that a block's log-loss was above that of the class frequencies, and no later block's has been one
	// percent below it.
	Exceeded bool
	Event    uint64  // number of the last event of the last block
	LogLoss  float64 // of that block, in nats
	Shares   float64 // log-loss of its class frequencies
	Size     float64 // mean absolute score

	events uint64 // number of labeled events in the current block
	loss   float64
	size   float64
	weight []float64 // by class
}

// Diverged reports whether scores are so large that the weights must have diverged: no data has log-odds of a hundred
// on average.
func (p *Prior) Diverged() bool { return p.Size > 100 }

// Take adds an event with its importance, log-loss and score.
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

// complete compares a block and starts the next one. The class frequencies are learned from the block's own n events,
// so they are charged (classes - 1)/2 log n nats.
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
