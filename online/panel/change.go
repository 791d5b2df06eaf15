package panel

// This file follows what changes around the experts, and holds the state.

import (
	"slices"

	"blankout/internal/coder"
)

// Pull is newton's: the expert of curves learns slowly enough what is a curve's and what the
// intercept's.
func (p *Panel) Pull(first uint32, shares []float64) {
	p.newton.Pull(first, shares)
	p.stale = true
}

// Move says that a column's values x are (x - shift)/ratio from here on: the experts' weights follow.
func (p *Panel) Move(column uint32, ratio, shift float64) {
	p.newton.Move(column, ratio, shift)
	if p.curves != nil {
		p.curves.Move(column, ratio, shift)
	}
	p.stale = true
}

// Renew says that a column's values have another meaning from here on: what is known of it is
// forgotten.
func (p *Panel) Renew(column uint32) {
	p.newton.Renew(column)
	if p.curves != nil {
		p.curves.Renew(column)
	}
	p.stale = true
}

// Rescale says that targets and all scores are factor times what they were, and shift. It is for one
// output, without curves.
func (p *Panel) Rescale(factor, shift float64) {
	p.newton.Rescale(factor, shift)
	p.stale = true
}

// Widen gives the experts so many outputs. Where one has decided between two classes it becomes that
// of the second, and its negation that of the first.
func (p *Panel) Widen(outputs int) {
	if coefficient := p.newton.Widen(outputs); coefficient != 1 {
		p.factors[0] = NewTemperature(coefficient)
	}
	if p.curves != nil {
		p.curves.Widen(outputs)
	}
	p.room(outputs)
	p.Follow(p.columns)
}

// Regroup gives the experts as many outputs as there are lists: each begins as the mean of those former ones.
func (p *Panel) Regroup(from [][]int) {
	p.newton.Regroup(from)
	if p.curves != nil {
		p.curves.Regroup(from)
	}
	p.room(len(from))
	p.Follow(p.columns)
}

// Restart forgets everything but which columns there are.
func (p *Panel) Restart() {
	p.newton.Restart()
	if p.curves != nil {
		p.curves.Restart()
	}
	clear(p.factors)
	clear(p.idle)
	p.force()
}

// Set makes w the weight of a column for output k, as after Restart.
func (p *Panel) Set(column uint32, k int, w float64) {
	p.newton.Set(column, k, w)
	if p.curves != nil {
		p.curves.Set(column, k, w)
	}
	p.stale = true
}

// Forget leaves a share of what the second-order expert knows: its weights stay, and move faster from
// here on. Of the curves there are fast ones already.
func (p *Panel) Forget(keep float64) { p.newton.Forget(keep) }

// State walks the state. It is read by a Panel of the same settings and outputs.
func (p *Panel) State(c *coder.Coder) {
	columns := p.columns
	if c.Uint32s(&columns); c.Decode && !c.Failed {
		if !slices.IsSorted(columns) || !Fits(len(columns), p.outputs) && len(columns) > 0 {
			c.Failed = true
			return
		}
		p.Follow(columns)
	}
	p.newton.State(c)
	if second := p.newton.Columns(); len(second) > len(p.columns) || !slices.Equal(second, p.columns[:len(second)]) {
		c.Failed = true
		return
	}
	if p.curves != nil {
		p.curves.State(c)
	}
	p.shares.State(c)
	c.Uint(&p.met)
	for i := range p.factors {
		p.factors[i].State(c)
		c.Uint(&p.idle[i])
	}
	p.force()
}

// StartFresh has the second-order expert start again without anything that it knows; the others keep their weights, and
// move faster. The mixture weights are those of a Panel that begins.
func (p *Panel) StartFresh() {
	p.newton.Restart()
	if p.curves != nil {
		p.curves.Forget(freshKeep)
	}
	p.shares.Again()
	p.force()
}

// freshKeep is the fraction of the accumulators that StartFresh leaves.
const freshKeep = 0.1
