package schedule

// This file has the half-life.

import (
	"blankout/internal/coder"
)

// Fade counts the half-lives that have passed.
//
// The clock is the latest event time. A time that is ahead of the clock by more than a step counts only if the event
// before it was ahead as well, and then as one step. So a single wrong time neither counts as many half-lives nor stops
// the clock. If many consecutive events are far behind the clock, the clock is set back to them.
type Fade struct {
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

// NewFade returns a Fade with half-lives in events and in seconds of event time, 0 for none. The step is in seconds, 0
// for ten half-lives.
func NewFade(events, seconds, step float64) Fade {
	f := Fade{events: events, seconds: seconds, step: int64(1000 * defaultStep * min(seconds, 1e11))}
	if step > 0 {
		f.step = max(1, int64(1000*min(step, 1e12)))
	}
	return f
}

// Halves advances the clock to the time of an event, and returns the number of half-lives that have passed.
func (f *Fade) Halves(time int64) (halves float64) {
	if f.events > 0 {
		halves = 1 / f.events
	}
	if f.seconds > 0 && time > 0 {
		halves += min(float64(f.tick(time))/1000/f.seconds, 100)
	}
	return halves
}

// tick returns by how many milliseconds a time advances the clock.
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
