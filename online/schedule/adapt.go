package schedule

// This file follows a stream that moves: it decides which of average and iterate is
// published, and tunes the learning rate.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/measure"
)

// adaptation tunes two things while learning, by what would have been better for the
// next event: which weights are published, and the learning rate.
//
// The average is published or, where the world has moved and left it behind, the iterate.
// Before an event is learned it is known which of the two would have had the lower expected
// loss, each with its own variance under the noise. The sum of the differences since the
// average began is compared with the root of their sum of squares, its deviation if nothing
// but chance were at work. It is a choice and no mixture, although a mixture scores the
// next event better on nearly every stream: where neighboring events resemble each other
// (digits written by one hand), a share of the latest steps helps with the next event and
// with no other. The iterate alone is better only where its noise costs less than the
// average's lag, and then the stream has moved for good.
//
// Where the average is the better one beyond any doubt, the stream stands still:
// there the average reaches back farther, and the steps are a little shorter.
//
// The average lags behind the latest steps, so df (a - f) also says whether
// larger steps would have been better: where it stays positive, going back
// towards the average hurts, and the rate rises. This is a hypergradient
// (Almeida et al. 1998) taken from numbers at hand. It never makes the rate fall
// below the configured one, which AdaGrad's sums reduce by themselves.
type adaptation struct {
	on       bool
	blend    float64 // share of the average in what is published: 1 or 0
	gain     float64 // decayed sum of loss(average) - loss(iterate)
	squares  float64 // decayed sum of its squares
	compared float64 // decayed number of its terms
	raise    float64 // logarithm of the learning rate's factor, in [0, maxRaise]
	square   float64 // decayed mean of the square of df (a - f)
}

// Raise returns the logarithm of the learning rate's factor.
func (a *adaptation) Raise() float64 { return a.raise }

// Rate returns the learning rate in force, but for the factor that Raise tells.
func (a *adaptation) Rate(eta float64) float64 {
	if a.Steady() {
		eta *= steadyRate
	}
	return eta
}

const (
	// Deviations by which the average must have been worse for the iterate to be
	// published, and better to come back.
	staleAt, freshAt = 1.5, 1
	// Deviations by which the average must be better where a stream stands still,
	// and the factor of the rate there.
	steadyAt, steadyRate = 4, 0.8
	// The steps at which the two are compared: all of the first ones, then every n-th, older ones
	// fading, so that a change is not outweighed by an endless past.
	compareFirst, CompareEvery, compareMemory = 1000, 4, 50_000
	// There is no verdict before so many terms. The sum is looked at after every event:
	// while its terms are few, chance alone would soon pass a bar that is a number of their
	// deviations.
	compareLeast = 100

	raiseMemory = 1000
	raiseSpeed  = 0.003
	maxRaise    = 4
)

func newAdaptation(on bool) adaptation { return adaptation{on: on, blend: 1} }

// Every returns at every how many steps the two are compared after so many.
func Every(steps uint64) uint64 {
	if steps > compareFirst {
		return CompareEvery
	}
	return 1
}

// Compares says whether average and iterate are compared.
func (a *adaptation) Compares() bool { return a.on }

// Compare takes up loss(average) - loss(iterate) of one event in so many.
func (a *adaptation) Compare(gain float64, every uint64) {
	keep := 1 - 1/float64(compareMemory/every)
	a.gain = keep*a.gain + gain
	a.squares = keep*a.squares + gain*gain
	a.compared = keep*a.compared + 1
}

// choose chooses what is published, and says whether the average has been left behind.
func (a *adaptation) choose() (stale bool) {
	switch sd := math.Sqrt(a.squares); {
	case a.compared < compareLeast:
	case a.gain > staleAt*sd:
		a.blend = 0
		return true
	case a.gain < -freshAt*sd:
		a.blend = 1
	}
	return false
}

// Steady says whether the stream stands still.
func (a *adaptation) Steady() bool {
	return a.gain < 0 && a.gain*a.gain > steadyAt*steadyAt*a.squares
}

// reset forgets the comparison with an average that begins anew.
func (a *adaptation) reset() { a.gain, a.squares, a.compared = 0, 0, 0 }

// Adapt learns from an event's corr = sum df (a - f) over the outputs.
func (a *adaptation) Adapt(corr float64) {
	if !a.on {
		return
	}
	const keep = 1 - 1.0/raiseMemory
	a.square = keep*a.square + (1-keep)*corr*corr
	if a.square > 0 {
		a.raise = clamp(a.raise+raiseSpeed*clamp(corr/math.Sqrt(a.square), -3, 3), 0, maxRaise)
	}
}

// clamp returns the number nearest to x from low to high. It takes fewer instructions than max and min, which look for
// minus zero and for what is no number.
func clamp(x, low, high float64) float64 {
	if x < low {
		return low
	}
	if x > high {
		return high
	}
	return x
}

func (a *adaptation) state(c *coder.Coder) {
	c.Each(&a.blend, &a.gain, &a.squares, &a.compared, &a.raise, &a.square)
}

// merge adds what so many steps and comparisons of an interval have changed between base and now.
func (a *adaptation) merge(base, now *adaptation, steps, compared uint64) {
	if compared > 0 {
		keep := fadeBy(compareMemory, compared)
		measure.Fade(&a.gain, base.gain, now.gain, keep)
		measure.Fade(&a.squares, base.squares, now.squares, keep)
		measure.Fade(&a.compared, base.compared, now.compared, keep)
	}
	a.raise = max(0, min(a.raise+(now.raise-base.raise), maxRaise))
	measure.Fade(&a.square, base.square, now.square, fadeBy(raiseMemory, steps))
	a.square = max(0, a.square)
}

// fadeBy returns what so many terms leave of a sum of the given memory.
func fadeBy(memory float64, terms uint64) float64 { return measure.Power(1-1/memory, terms) }
