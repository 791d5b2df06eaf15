package correct

import (
	"math"

	"blankout/internal/coder"
)

// Gain says how much less the base learner and the experts lose, mixed, than the base learner alone, and
// whether that is worth what the experts costs. The zero value is of a stream that begins.
type Gain struct {
	judged     float64 // events
	size, gain float64 // means over the latest events: of the base learner's loss, of what the mixture loses less
	counted    uint64  // the number of the latest event for which the experts had a part in answers
	resting    bool
}

const (
	// Below leastGain of the loss the experts rests, until it would gain wakeGain.
	leastGain, wakeGain = 0.0005, 0.001
	// gainMemory is over how many events the means are. Before gainEnough have been judged it does not rest.
	gainMemory, gainEnough = 4096, 8192
	// mostGain bounds what one event counts for.
	mostGain = 8
	// idleEnough is after how many events in a row for which the experts has no part in answers it rests, whatever it has gained
	// before: the mean remembers the first events, when it learned faster than the base learner.
	idleEnough = 4096
	// RestEvery is at every how many events experts that rest are judged, and learn.
	RestEvery = 16
)

// Take takes up what an event has lost.
func (g *Gain) Take(alone, mixed float64) {
	less := alone - mixed
	if less != less {
		return
	}
	g.judged++
	rate := 1 / min(g.judged, gainMemory)
	g.size += rate * (min(math.Abs(alone), mostGain) - g.size)
	g.gain += rate * (max(-mostGain, min(less, mostGain)) - g.gain)
}

// Apply decides at the event of this number whether the experts rests from here on; counts says that some answers give it a weight
// above 0.
func (g *Gain) Apply(event uint64, counts bool) {
	if counts {
		g.counted = event
	}
	switch idle := event-g.counted >= idleEnough; {
	case g.resting:
		g.resting = g.gain <= wakeGain*g.size
	case idle:
		g.resting, g.gain = true, 0
	default:
		g.resting = g.judged >= gainEnough && g.gain <= leastGain*g.size
	}
}

// Resting says whether the experts rests: it has no part in answers.
func (g *Gain) Resting() bool { return g.resting }

// State walks the state.
func (g *Gain) State(c *coder.Coder) {
	c.Float(&g.judged)
	c.Float(&g.size)
	c.Float(&g.gain)
	c.Uint(&g.counted)
	resting := uint64(0)
	if g.resting {
		resting = 1
	}
	c.Uint(&resting)
	g.resting = resting != 0
}
