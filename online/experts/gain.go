package experts

import (
	"math"

	"blankout/internal/coder"
)

// Gain measures how much the experts reduce the loss of the base scores. By that gain it decides whether the experts
// rest. The zero value is for a new stream.
type Gain struct {
	judged     float64 // number of events passed to Take
	size, gain float64 // means over the latest events: loss of the base scores, and its reduction
	counted    uint64  // number of the latest event at which the experts had weight in predictions
	resting    bool
}

const (
	// The experts start to rest if their gain is below leastGain times the loss. They stop resting if the gain is above
	// wakeGain times the loss.
	leastGain, wakeGain = 0.0005, 0.001
	// gainMemory is the number of events over which the mean losses decay. The experts do not rest before Take has
	// received gainEnough events.
	gainMemory, gainEnough = 4096, 8192
	// mostGain bounds the gain of one event.
	mostGain = 8
	// The experts also rest after idleEnough events without mixture weight in predictions. This rule is needed because
	// the mean gain decays slowly from the first events, when the experts learned faster than the base.
	idleEnough = 4096
)

// Take adds the losses of an event without the experts (alone) and with them (mixed).
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

// Apply decides whether the experts rest, at the event with this number. counts reports whether they have weight in
// predictions.
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

// Resting reports whether the experts rest, which means that they have no weight in predictions.
func (g *Gain) Resting() bool { return g.resting }

// State encodes or decodes the state.
func (g *Gain) State(c *coder.Coder) {
	c.Each(&g.judged, &g.size, &g.gain)
	c.Uint(&g.counted)
	c.Bool(&g.resting)
}
