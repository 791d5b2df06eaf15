// Package schedule adapts a noise level to a changing stream. It chooses between average and iterate, adapts the
// learning rate (Schedule), and decays accumulators (Clock). It contains no weights. The caller passes losses to it.
package schedule

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Schedule is the schedule of one noise level.
type Schedule struct {
	average
	adaptation
}

// New returns a Schedule. fraction is the fraction of the stream that the average covers, or 0 for no average. adapts
// enables adaptation.
func New(fraction float64, adapts bool) Schedule {
	return Schedule{newAverage(fraction), newAdaptation(adapts && fraction > 0)}
}

// AverageWeight returns the fraction of the average in the published weights. The rest is the fraction of the iterate.
func (p *Schedule) AverageWeight() float64 { return p.blend }

// LagWeight returns the factor of a lag in a published weight.
func (p *Schedule) LagWeight() float64 { return p.Coefficient * p.blend }

// restartAfter is the number of steps after which an average that is worse than the iterate restarts.
const restartAfter = 3000

// Choose chooses between average and iterate by the comparisons so far. If the average is worse and has more than
// restartAfter steps, Choose restarts the average.
func (p *Schedule) Choose() {
	if p.choose() && p.Taken > restartAfter {
		p.restart()
		p.reset()
	}
}

// Advance counts a step. Call it after the rows have been updated. small reports whether the caller must call Rebase
// and multiply the lags by its result.
func (p *Schedule) Advance() (small bool) { return p.advance(p.Steady()) }

// Rebase sets the coefficient of the average to 1, and returns its old value.
func (p *Schedule) Rebase() (was float64) {
	was, p.Coefficient, p.Inverse = p.Coefficient, 1, 1
	return was
}

// EndPass ends the adaptation: from now on, the learning rate is the configured rate and the average is published.
func (p *Schedule) EndPass() { p.adaptation = newAdaptation(false) }

// State encodes or decodes the state.
func (p *Schedule) State(c *coder.Coder) {
	p.average.state(c)
	p.adaptation.state(c)
}

// adaptation tunes two things by what would have been better for the next event: which weights are published, and the
// learning rate.
//
// The average is published unless the stream has changed so much that the iterate is better. Both expected losses are
// computed before an event is learned, each with its own variance under the noise. The differences are summed since the
// average began. The sum is compared with the square root of the sum of their squares, which is its standard deviation
// under chance alone. The two are not mixed, although a mixture predicts the next event better on nearly every stream.
// The reason is similar neighboring events, such as digits written by one hand: weight on the latest steps helps only
// with the next event. The iterate alone is better only if its noise costs less than the lag of the average, that is,
// after a permanent change.
//
// If the average is clearly better, the stream is stationary. Then the average covers more of the past, and steps are a
// little shorter.
//
// The average lags behind the latest steps, so the sign of df (a - f) shows whether larger steps would have been
// better. If it stays positive, the learning rate rises. This is a hypergradient (Almeida et al. 1998) at no cost. The
// rate never falls below the configured one, which AdaGrad's accumulators reduce anyway.
type adaptation struct {
	on       bool
	blend    float64 // weight of the average in the published weights: 1 or 0
	gain     float64 // decayed sum of the differences loss(average) - loss(iterate)
	squares  float64 // decayed sum of the squared differences
	compared float64 // decayed number of differences
	logRate  float64 // logarithm of the learning rate's factor, in [0, maxRaise]
	square   float64 // decayed mean of the square of df (a - f)
}

// Raise returns the logarithm of the factor by which the learning rate is raised.
func (a *adaptation) Raise() float64 { return a.logRate }

// Rate returns the learning rate in effect, without the factor that Raise returns.
func (a *adaptation) Rate(eta float64) float64 {
	if a.Steady() {
		eta *= steadyRate
	}
	return eta
}

const (
	// The iterate is published if the average is worse by staleAt standard deviations. The average is published again
	// once it is better by freshAt standard deviations.
	staleAt, freshAt = 1.5, 1
	// A stream is stationary if the average is better than the iterate by steadyAt standard deviations. The learning
	// rate is then multiplied by steadyRate.
	steadyAt, steadyRate = 4, 0.8
	// The first compareFirst steps are compared, and then one step in CompareEvery. Old comparisons decay over
	// compareMemory, so that a long past does not outweigh a change.
	compareFirst, CompareEvery, compareMemory = 1000, 4, 50_000
	// No choice is made before compareLeast comparisons. The sum is checked after each comparison, so with few
	// comparisons chance would often exceed the bounds.
	compareLeast = 100

	// mostSquared bounds numbers of which squares are summed, so that the sums are finite.
	mostSquared = 1e100

	raiseMemory = 1000
	raiseSpeed  = 0.003
	maxRaise    = 4
)

func newAdaptation(on bool) adaptation { return adaptation{on: on, blend: 1} }

// Every returns the number of steps per comparison, after the given number of steps.
func Every(steps uint64) uint64 {
	if steps > compareFirst {
		return CompareEvery
	}
	return 1
}

// Compares reports whether average and iterate are compared.
func (a *adaptation) Compares() bool { return a.on }

// Compare adds a comparison: gain = loss(average) - loss(iterate) at one event. Such a comparison is made at one in
// every events.
func (a *adaptation) Compare(gain float64, every uint64) {
	keep := 1 - 1/float64(compareMemory/every)
	if gain = clamp(gain, -mostSquared, mostSquared); gain != gain {
		return // both losses are infinite
	}
	a.gain = keep*a.gain + gain
	a.squares = keep*a.squares + gain*gain
	a.compared = keep*a.compared + 1
}

// choose chooses which weights are published. stale reports whether the average is worse than the iterate.
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

// reset discards the comparisons, because the average restarts.
func (a *adaptation) reset() { a.gain, a.squares, a.compared = 0, 0, 0 }

// Adapt adapts the learning rate. corr is the sum of df (a - f) over the outputs of an event.
func (a *adaptation) Adapt(corr float64) {
	if corr = clamp(corr, -mostSquared, mostSquared); !a.on || corr != corr {
		return
	}
	const keep = 1 - 1.0/raiseMemory
	a.square = keep*a.square + (1-keep)*corr*corr
	if a.square > 0 {
		a.logRate = clamp(a.logRate+raiseSpeed*clamp(corr/math.Sqrt(a.square), -3, 3), 0, maxRaise)
	}
}

// clamp returns the number between low and high that is closest to x. It needs fewer instructions than a combination of
// max and min, which handle -0 and NaN.
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
	c.Each(&a.blend, &a.gain, &a.squares, &a.compared, &a.logRate, &a.square)
}

// average keeps the average of a noise level's iterates lazily, so that an event only updates its own features.
//
// The average after step t is a_t = (1 - beta_t) a_{t-1} + beta_t w_t. If e = a - w and w_t = w_{t-1} + delta_t, this
// is
//
//	e_t = (1 - beta_t) (e_{t-1} - delta_t),
//
// so with g_t = prod_{i<=t} (1 - beta_i) and e_t = g_t u_t
//
//	u_t = u_{t-1} - delta_t / g_{t-1},
//
// which changes only if delta_t is not zero. Rows store u, the lag, and a = w + g u.
//
// If beta_t = (1+p)/(t+1+p), it is the average over the stream with weights that grow as t^p (Shamir & Zhang 2013). The
// length of the stream is not needed. The average is over the last fraction 1/(1+p) of the stream, or of the steps
// since a restart. In a stationary stream (see adaptation) it covers steadyReach times as much.
type average struct {
	power, steadyPower float64 // exponent p, and p in a stationary stream; if negative, the iterate is published
	// Coefficient is g_t, and Inverse is 1/g_t.
	Coefficient, Inverse float64
	Taken                uint64 // number of averaged steps since the latest restart
}

func newAverage(fraction float64) average {
	if fraction == 0 {
		return average{power: -1}
	}
	return average{power: 1/fraction - 1, steadyPower: 1/min(steadyReach*fraction, 1) - 1, Coefficient: 1, Inverse: 1}
}

const steadyReach = 2.5

// advance replaces g_{t-1} by g_t after the rows have been updated. small reports whether g_t is so small that it must
// be multiplied into the lags, see Schedule.Rebase.
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

// restart makes the average discard the earlier iterates within a few steps.
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
// The clock shows the latest event time. An event time that is ahead of the clock by more than a step advances the
// clock by one step. It does so only if the time of the previous event was also ahead. A single wrong time therefore
// neither counts as many half-lives nor stops the clock. If many consecutive event times are far behind the clock, the
// clock is set back to their time.
type Clock struct {
	events, seconds float64 // half-lives in events and in seconds, 0 for none
	step            int64   // step in milliseconds

	lastTime int64 // current time of the clock, in milliseconds
	streak   int64 // number of consecutive events ahead by more than a step; negative for events behind
}

const (
	// mostStep is the largest step of the clock, in half-lives. After ten half-lives old events have little weight left.
	mostStep = 10
	// The clock advances after aheadFor consecutive events that are ahead of the clock. It is set back after behindFor
	// consecutive events that are behind it.
	aheadFor, behindFor = 2, 1000
)

// NewClock returns a Clock with half-lives in events and in seconds of event time; 0 means no half-life.
func NewClock(events, seconds float64) Clock {
	return Clock{events: events, seconds: seconds, step: int64(1000 * mostStep * min(seconds, 1e11))}
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

// tick returns by how many milliseconds the event time advances the clock.
func (f *Clock) tick(time int64) (passed int64) {
	ahead := time - f.lastTime
	switch {
	case f.lastTime == 0:
		f.lastTime = time
		return 0
	case ahead > f.step:
		f.streak = max(f.streak, 0) + 1
	case ahead < -f.step:
		f.streak = min(f.streak, 0) - 1
	default:
		f.streak = 0
		f.lastTime = max(f.lastTime, time)
		return max(ahead, 0)
	}
	if f.streak == aheadFor || f.streak == -behindFor {
		f.lastTime, f.streak = time, 0
		return max(0, min(ahead, f.step))
	}
	return 0
}

// Clock encodes or decodes the clock.
func (f *Clock) Clock(c *coder.Coder) {
	c.Int64(&f.lastTime)
	c.Int64(&f.streak)
}

// Importance bounds the weight of an event by a multiple of the average weight of earlier events, so that no single
// label dominates.
type Importance struct {
	events, sum float64 // number of labeled events, and the sum of their bounded weights
}

// MostImportance is the largest weight of an event, in units of the average weight.
const MostImportance = 32

// Observe counts an event, and returns the bounded weight with which it must be learned. The average starts as if there
// had been one event of weight 1.
func (i *Importance) Observe(weight float64) (bounded float64) {
	bounded = i.Bound(weight)
	i.events++
	i.sum += bounded
	return bounded
}

// Bound returns the same as Observe, but does not count the event.
func (i *Importance) Bound(weight float64) float64 {
	return min(weight, MostImportance*(1+i.sum)/(1+i.events))
}

// State encodes or decodes the state.
func (i *Importance) State(c *coder.Coder) { c.Each(&i.events, &i.sum) }

// mostUnits is the largest number of parts of weight at most 1 into which an event is split.
const mostUnits = 16

// Parts splits a weight into parts, and calls learn with each part in order. The first mostUnits parts are at most 1.
// If doubling is true, which is for steps that cannot overshoot, each later part is twice as large as the part before.
// If it is false, the rest is divided into at most MostImportance equal parts. As long as all parts are 1, an event of
// weight 2 has the same effect as two events.
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

// MostParts is an upper bound of the number of parts of any weight.
const MostParts = 128

// An event whose scores are all on the right side of 0, and far from it, is confident. Its gradients are small, and in a
// stream that is easy to predict most events are confident. After sampleFrom events only a sample of the confident
// events is learned: half of those from the margin confident on, and half of that with each further factor of 2 in the
// odds, but at least one event in 2^mostBits.
const sampleFrom, confident, mostBits = 4096, 4.0, 4

// Samples reports whether confident events have small gradients under a loss. Those of losses that accept any number as a
// target grow with the distance from the target.
func Samples(l loss.Loss) bool { return l.Facts().Target == loss.Sign }

// StandsFor returns for how many events the event with this number is learned: 1, or, if the event is confident, 0 or
// a power of 2. The expectation is 1, so that the expected gradient remains the same. scores contains one or more lists
// of scores by output; target has the target, -1 or 1, of each output in use.
func StandsFor(number uint64, scores, target []float64, outputs int) float64 {
	if number < sampleFrom {
		return 1
	}
	least := math.Inf(1)
	for ; len(scores) >= outputs; scores = scores[outputs:] {
		for k, y := range target {
			margin := y * scores[k]
			if !(margin > confident) {
				return 1
			}
			least = min(least, margin)
		}
	}
	bits := uint(1)
	for bits < mostBits && least > confident+float64(bits)*math.Ln2 {
		bits++
	}
	if number*0x9e3779b97f4a7c15>>(64-bits) != 0 { // evenly spread, see online.sampled
		return 0
	}
	return float64(uint64(1) << bits)
}
