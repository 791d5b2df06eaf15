// Package schedule adapts a level to a changing stream: the choice between average and iterate, the learning rate
// (Pace), and the decay of accumulators (Fade). It contains no weights: the caller passes losses.
package schedule

import "blankout/internal/coder"

// Pace is the schedule of one level.
type Pace struct {
	average
	adaptation
}

// New returns a Pace whose average is over a fraction of the stream, 0 for no average. adapts turns adaptation on.
func New(share float64, adapts bool) Pace {
	return Pace{newAverage(share), newAdaptation(adapts && share > 0)}
}

// AverageShare returns the weight of the average in the published weights. The rest is that of the iterate.
func (p *Pace) AverageShare() float64 { return p.blend }

// LagShare returns the factor of a lag in the published weight.
func (p *Pace) LagShare() float64 { return p.Coefficient * p.blend }

// restartAfter is the number of steps after which a stale average is restarted.
const restartAfter = 3000

// Choose chooses between average and iterate by the comparisons. A stale average of more than restartAfter steps is
// restarted.
func (p *Pace) Choose() {
	if p.choose() && p.Taken > restartAfter {
		p.restart()
		p.reset()
	}
}

// Advance counts a step, after the rows have been updated. It reports whether the lags must be multiplied by the result
// of Rebase.
func (p *Pace) Advance() (small bool) { return p.advance(p.Steady()) }

// Rebase sets the coefficient to 1, and returns its old value.
func (p *Pace) Rebase() (was float64) {
	was, p.Coefficient, p.Inverse = p.Coefficient, 1, 1
	return was
}

// EndPass ends adaptation: the rate is the configured one, and the average is published.
func (p *Pace) EndPass() { p.adaptation = newAdaptation(false) }

// Adopt resets the adaptation, with adopted weights that count as the iterate of each of so many steps.
func (p *Pace) Adopt(steps uint64) {
	p.Taken = uint64((1 + max(p.power, 0)) * float64(steps))
	p.blend, p.raise = 1, 0
	p.reset()
}

// Merge adds the changes of an interval from base to now, of so many steps and comparisons.
func (p *Pace) Merge(base, now *Pace, steps, compared uint64) {
	p.merge(&base.adaptation, &now.adaptation, steps, compared)
	if p.on && compared > 0 {
		p.Choose()
	}
}

// State codes the state.
func (p *Pace) State(c *coder.Coder) {
	p.average.state(c)
	p.adaptation.state(c)
}

// SumsState codes what Merge merges.
func (p *Pace) SumsState(c *coder.Coder) { p.adaptation.state(c) }
