package numbers

// This file holds how far values are from targets.

import (
	"math"

	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
)

const residualMemory = 2000

// Residual is how far values have been from targets recently.
type Residual struct {
	model.Residual
	samples float64 // that it is of, at most 2 residualMemory
}

// Published returns the residual, nil before it says anything.
func (r *Residual) Published() *model.Residual {
	if r.samples < 2 {
		return nil
	}
	out := r.Residual
	return &out
}

// Take takes up a value for a target; v is the variance of its score, see model.ScoreVariance.
func (r *Residual) Take(t loss.Target, y, value, v float64) {
	r.samples = min(r.samples+1, 2*residualMemory)
	x, rate := r.Of(t, y, value), 1/r.samples
	if r.samples >= 16 { // the first ones fade soon
		rate = 1 / (8 + r.samples/2)
	}
	lacking := r.Lacking(t, value, v)
	if most := targetClip * math.Sqrt(r.Deviation*r.Deviation+lacking); r.samples > targetWarmup && most > 0 {
		x = min(max(x, r.Mean-most), r.Mean+most)
	}
	off := x - r.Mean
	r.Mean += rate * off
	r.Deviation = math.Sqrt(max(0, (1-rate)*(r.Deviation*r.Deviation+rate*off*off)-rate*lacking))
}

// State codes the state.
func (r *Residual) State(c *coder.Coder) { c.Each(&r.samples, &r.Mean, &r.Deviation) }
