// Package schedule adapts a level to a changing stream: the choice between average and iterate, the learning rate
// (Pace), and the decay of accumulators (Clock). It contains no weights: the caller passes losses.
package schedule

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/measure"
)

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
		keep := decayBy(compareMemory, compared)
		measure.Decay(&a.gain, base.gain, now.gain, keep)
		measure.Decay(&a.squares, base.squares, now.squares, keep)
		measure.Decay(&a.compared, base.compared, now.compared, keep)
	}
	a.raise = max(0, min(a.raise+(now.raise-base.raise), maxRaise))
	measure.Decay(&a.square, base.square, now.square, decayBy(raiseMemory, steps))
	a.square = max(0, a.square)
}

// decayBy returns the decay of a sum with the given memory after so many terms.
func decayBy(memory float64, terms uint64) float64 { return measure.Power(1-1/memory, terms) }

// average keeps the average of a level's iterates lazily, so that an event only costs its own features.
//
// The average after step t is a_t = (1 - beta_t) a_{t-1} + beta_t w_t. With e = a - w and a step w_t = w_{t-1} +
// delta_t this is
//
//	e_t = (1 - beta_t) (e_{t-1} - delta_t),
//
// so with g_t = prod_{i<=t} (1 - beta_i) and e_t = g_t u_t
//
//	u_t = u_{t-1} - delta_t / g_{t-1},
//
// which changes only if delta is not zero. Rows keep u, the lag, and a = w + g u.
//
// With beta_t = (1+p)/(t+1+p) it is the average over the stream with weights that grow as t^p (Shamir & Zhang 2013).
// The length of the stream need not be known. The average is over the last fraction 1/(1+p) of the stream, or of the
// steps since a restart. In a stationary stream (see adaptation) it is over steadyReach times as much.
type average struct {
	power, steadyPower float64 // p; if negative, the iterate is published
	// Coefficient is g_t, Inverse 1/g_t.
	Coefficient, Inverse float64
	Taken                uint64 // number of steps averaged since the latest restart
}

func newAverage(share float64) average {
	if share == 0 {
		return average{power: -1}
	}
	return average{power: 1/share - 1, steadyPower: 1/min(steadyReach*share, 1) - 1, Coefficient: 1, Inverse: 1}
}

const steadyReach = 2.5

// advance updates g_{t-1} to g_t after the rows have been updated. It reports whether g_t has become so small that it
// must be multiplied into the lags, see Pace.Rebase.
func (a *average) advance(steady bool) (small bool) {
	power := a.power
	if power < 0 {
		return false
	}
	if steady {
		power = a.steadyPower
	}
	a.Taken++
	a.Coefficient *= 1 - (1+power)/(float64(a.Taken)+1+power)
	a.Inverse = 1 / a.Coefficient
	return a.Coefficient < 1e-150
}

// restart makes the average forget the iterates so far within a few steps.
func (a *average) restart() { a.Taken = 0 }

func (a *average) state(c *coder.Coder) {
	c.Float(&a.Coefficient)
	c.Uint(&a.Taken)
	if a.Coefficient != 0 {
		a.Inverse = 1 / a.Coefficient
	}
}

// Clock counts the half-lives that have passed.
//
// The clock is the latest event time. A time that is ahead of the clock by more than a step counts only if the event
// before it was ahead as well, and then as one step. So a single wrong time neither counts as many half-lives nor stops
// the clock. If many consecutive events are far behind the clock, the clock is set back to them.
type Clock struct {
	events, seconds float64 // half-lives, 0 for none
	step            int64   // in milliseconds

	lastTime int64 // the clock, in milliseconds
	odd      int64 // number of consecutive events that were ahead by more than a step; negative for events behind
}

const (
	// defaultStep is the default step in half-lives, after which little is left to decay.
	defaultStep = 10
	// The clock advances after aheadFor consecutive events ahead of it, and is set back after behindFor events behind
	// it.
	aheadFor, behindFor = 2, 1000
)

// NewClock returns a Clock with half-lives in events and in seconds of event time, 0 for none. The step is in seconds, 0
// for ten half-lives.
func NewClock(events, seconds, step float64) Clock {
	f := Clock{events: events, seconds: seconds, step: int64(1000 * defaultStep * min(seconds, 1e11))}
	if step > 0 {
		f.step = max(1, int64(1000*min(step, 1e12)))
	}
	return f
}

// HalfLives advances the clock to the time of an event, and returns the number of half-lives that have passed.
func (f *Clock) HalfLives(time int64) (halves float64) {
	if f.events > 0 {
		halves = 1 / f.events
	}
	if f.seconds > 0 && time > 0 {
		halves += min(float64(f.tick(time))/1000/f.seconds, 100)
	}
	return halves
}

// tick returns by how many milliseconds a time advances the clock.
func (f *Clock) tick(time int64) (passed int64) {
	ahead := time - f.lastTime
	switch {
	case f.lastTime == 0:
		f.lastTime = time
		return 0
	case ahead > f.step:
		f.odd = max(f.odd, 0) + 1
	case ahead < -f.step:
		f.odd = min(f.odd, 0) - 1
	default:
		f.odd = 0
		f.lastTime = max(f.lastTime, time)
		return max(ahead, 0)
	}
	if f.odd == aheadFor || f.odd == -behindFor {
		f.lastTime, f.odd = time, 0
		return max(0, min(ahead, f.step))
	}
	return 0
}

// Clock codes the clock.
func (f *Clock) Clock(c *coder.Coder) {
	c.Int64(&f.lastTime)
	c.Int64(&f.odd)
}

// Importance bounds the weight of an event by the weights of earlier events, so that no single label dominates.
type Importance struct {
	events, sum float64 // number of labeled events, and the sum of their bounded weights
}

// MostImportance is the largest weight of an event, as a multiple of the average weight.
const MostImportance = 32

// Observe returns the bounded weight with which an event is learned, and counts it. The average starts with one event
// of weight 1.
func (i *Importance) Observe(weight float64) (bounded float64) {
	bounded = i.Bound(weight)
	i.events++
	i.sum += bounded
	return bounded
}

// Bound is Observe without counting.
func (i *Importance) Bound(weight float64) float64 {
	return min(weight, MostImportance*(1+i.sum)/(1+i.events))
}

// State codes the state.
func (i *Importance) State(c *coder.Coder) { c.Each(&i.events, &i.sum) }

// mostUnits is the largest number of parts of weight at most 1 in which an event is learned.
const mostUnits = 16

// Parts calls learn with the parts of a weight, in order. The first mostUnits parts are at most 1. The rest follows in
// parts that double if doubling is set, for steps that cannot overshoot, and else in at most MostImportance equal
// parts. An event of weight 2 equals two events as long as all parts are 1.
func Parts(weight float64, doubling bool, learn func(part float64)) {
	units, n := weight, min(math.Ceil(weight), MostImportance)
	if doubling {
		units = min(weight, mostUnits)
		n = math.Ceil(units)
	}
	for range int(n) {
		learn(units / n)
	}
	rest := weight - units
	for part := 1.0; rest > 0; part *= 2 {
		learn(min(part, rest))
		rest -= min(part, rest)
	}
}

// MostParts is larger than the number of parts of any event.
const MostParts = 128
