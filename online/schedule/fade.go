package schedule

// This file holds the half-life.

import (
	"math"

	"blankout/internal/coder"
)

// Fade makes the metric forget by half in a half-life, lazily: instead of every metric shrinking,
// what is added grows. An addition counts Growth times, and the metric in force is the
// stored one divided by Growth.
//
// The clock is the latest event time. A time that is ahead of it by more than a step
// counts only if the event before was so far ahead as well, and then for one step:
// one far-future time neither ages the metric nor stops the clock. If all of many
// events in a row are so far behind, the clock goes back to them.
type Fade struct {
	events, seconds float64 // the half-lives, 0 for none
	step            int64   // milliseconds

	Growth   float64
	lastTime int64 // the clock, milliseconds
	odd      int64 // events in a row that were ahead by more than a step, or minus those behind
}

const (
	maxGrowth = 1e100
	// defaultStep is the step in half-lives where none is configured: after ten of them
	// hardly anything is left to forget.
	defaultStep = 10
	// The clock goes forward after aheadFor events in a row that are ahead, and back after
	// behindFor that are behind.
	aheadFor, behindFor = 2, 1000
)

// NewFade returns one of half-lives in events and in seconds of event time, 0 for none. The step is
// in seconds, 0 for ten half-lives.
func NewFade(events, seconds, step float64) Fade {
	f := Fade{events: events, seconds: seconds, step: int64(1000 * defaultStep * min(seconds, 1e11)), Growth: 1}
	if step > 0 {
		f.step = max(1, int64(1000*min(step, 1e12)))
	}
	return f
}

// Halves lets the time of an event go by, and returns by how many half-lives.
func (f *Fade) Halves(time int64) (halves float64) {
	if f.events > 0 {
		halves = 1 / f.events
	}
	if f.seconds > 0 && time > 0 {
		halves += min(float64(f.tick(time))/1000/f.seconds, 100)
	}
	return halves
}

// Halve makes what is added from here on count 2^times as much. It says whether that has become so
// much that the metric must be divided by Growth, which then is 1 again.
func (f *Fade) Halve(times float64) (much bool) {
	if times == 0 {
		return false
	}
	f.Growth *= math.Exp2(times)
	return f.Growth > maxGrowth
}

// tick shows the clock a time and returns how many milliseconds that counts for.
func (f *Fade) tick(time int64) (passed int64) {
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
func (f *Fade) Clock(c *coder.Coder) {
	c.Int64(&f.lastTime)
	c.Int64(&f.odd)
}
