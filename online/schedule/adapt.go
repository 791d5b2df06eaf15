package schedule

// This file adapts a level to a changing stream: it chooses between average and iterate, and tunes the learning rate.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/measure"
)

// adaptation tunes two things by what would have been better for the next event: which weights are published, and the
// learning rate.
//
// The average is published unless the stream has changed so much that the iterate is better. Before an event is
// learned, both expected losses are known, each with its own variance under the noise. The sum of the differences since
// the average began is compared with the root of their sum of squares, which is its standard deviation under chance
// alone. The two are not mixed, although a mixture predicts the next event better on nearly every stream. If
// neighboring events are similar (digits written by one hand), some weight on the latest steps helps with the next
// event and with no other. The iterate alone is better only if its noise costs less than the lag of the average, that
// is after a permanent change.
//
// If the average is clearly better, the stream is stationary. Then the average is over more of the past, and steps are
// a little shorter.
//
// The average lags behind the latest steps, so the sign of df (a - f) tells whether larger steps would have been
// better. If it stays positive, the rate rises. This is a hypergradient (Almeida et al. 1998) that costs nothing. The
// rate never falls below the configured one, which AdaGrad's accumulators reduce anyway.
type adaptation struct {
	on       bool
	blend    float64 // weight of the average in the published weights: 1 or 0
	gain     float64 // decayed sum of loss(average) - loss(iterate)
	squares  float64 // decayed sum of its squares
	compared float64 // decayed number of its terms
	raise    float64 // logarithm of the learning rate's factor, in [0, maxRaise]
	square   float64 // decayed mean of the square of df (a - f)
}

// Raise returns the logarithm of the learning rate's factor.
func (a *adaptation) Raise() float64 { return a.raise }

// Rate returns the learning rate in force, without the factor of Raise.
func (a *adaptation) Rate(eta float64) float64 {
	if a.Steady() {
		eta *= steadyRate
	}
	return eta
}

const (
	// The iterate is published if the average is worse by staleAt standard deviations, and the average is published
	// again if it is better by freshAt.
	staleAt, freshAt = 1.5, 1
	// A stream is stationary if the average is better by steadyAt standard deviations. The rate is then multiplied by
	// steadyRate.
	steadyAt, steadyRate = 4, 0.8
	// The first compareFirst steps are compared, then one in CompareEvery. Old comparisons decay, so that an endless
	// past does not outweigh a change.
	compareFirst, CompareEvery, compareMemory = 1000, 4, 50_000
	// No choice is made before compareLeast comparisons. The sum is checked after each of them, so with few terms
	// chance would soon exceed the bounds.
	compareLeast = 100

	raiseMemory = 1000
	raiseSpeed  = 0.003
	maxRaise    = 4
)

func newAdaptation(on bool) adaptation { return adaptation{on: on, blend: 1} }

// Every returns the number of steps per comparison after so many steps.
func Every(steps uint64) uint64 {
	if steps > compareFirst {
		return CompareEvery
	}
	return 1
}

// Compares reports whether average and iterate are compared.
func (a *adaptation) Compares() bool { return a.on }

// Compare adds loss(average) - loss(iterate) at one event in every so many.
func (a *adaptation) Compare(gain float64, every uint64) {
	keep := 1 - 1/float64(compareMemory/every)
	a.gain = keep*a.gain + gain
	a.squares = keep*a.squares + gain*gain
	a.compared = keep*a.compared + 1
}

// choose chooses what is published, and reports whether the average has become stale.
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

// Steady reports whether the stream is stationary.
func (a *adaptation) Steady() bool {
	return a.gain < 0 && a.gain*a.gain > steadyAt*steadyAt*a.squares
}

// reset resets the comparison, for an average that starts again.
func (a *adaptation) reset() { a.gain, a.squares, a.compared = 0, 0, 0 }

// Adapt learns from corr = sum df (a - f), summed over the outputs of an event.
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

// clamp returns the number between low and high that is closest to x. It needs fewer instructions than max and min,
// which handle -0 and NaN.
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

// merge adds the changes of an interval from base to now, of so many steps and comparisons.
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

// fadeBy returns the decay of a sum with the given memory after so many terms.
func fadeBy(memory float64, terms uint64) float64 { return measure.Power(1-1/memory, terms) }
