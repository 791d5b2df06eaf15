// Package schedule follows a stream that moves: which of average and iterate a level publishes, how far
// its steps go (Pace), and how fast what was gathered fades (Fade). It knows no weights: who learns
// tells it what they would have lost.
package schedule

import "blankout/internal/coder"

// Pace is a level's: the average of its iterates, and what is adapted.
type Pace struct {
	average
	adaptation
}

// New returns one whose average reaches back over a share of the stream, 0 for none. It adapts if
// adapts says so.
func New(share float64, adapts bool) Pace {
	return Pace{newAverage(share), newAdaptation(adapts && share > 0)}
}

// AverageShare returns the share of the average in what is published, the rest of which is the iterate's.
func (p *Pace) AverageShare() float64 { return p.blend }

// LagShare returns what a lag is multiplied by in the weight that is published.
func (p *Pace) LagShare() float64 { return p.Coefficient * p.blend }

// restartAfter steps of an average that was left behind have it start afresh.
const restartAfter = 3000

// Choose chooses, by what was compared, whether the average is published or the iterate. An average
// that was left behind starts afresh if it is of more than restartAfter steps.
func (p *Pace) Choose() {
	if p.choose() && p.Taken > restartAfter {
		p.restart()
		p.reset()
	}
}

// Advance counts a step, after the rows have been updated. It says whether the lags must be
// multiplied by what Rebase returns.
func (p *Pace) Advance() (small bool) { return p.advance(p.Steady()) }

// Rebase makes the coefficient 1, and returns what it was.
func (p *Pace) Rebase() (was float64) {
	was, p.Coefficient, p.Inverse = p.Coefficient, 1, 1
	return was
}

// EndPass ends adapting: the rate is the configured one and the average is published.
func (p *Pace) EndPass() { p.adaptation = newAdaptation(false) }

// Adopt makes weights that were placed count as the iterate of each of so many steps. Nothing is left
// of what was adapted to others.
func (p *Pace) Adopt(steps uint64) {
	p.Taken = uint64((1 + max(p.power, 0)) * float64(steps))
	p.blend, p.raise = 1, 0
	p.reset()
}

// Merge adds what an interval of so many steps and comparisons has adapted between base and now.
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
