package online

// This file makes the metric forget: by a half-life, and when the drift detector raises an alarm.

import (
	"math"

	"blankout/internal/coder"
)

// drifted shortens the memory after an alarm of the drift detector, if the configuration
// wants that.
func (l *Learner) drifted() {
	if l.config.OnDrift == "forget" {
		l.forget(driftKeep)
		l.filling.forget(driftKeep)
		l.forgetSecond(driftKeep)
	}
}

// driftKeep is the share of the metric that an alarm leaves.
const driftKeep = 0.1

// forget leaves the given share of every metric, as if only that much of the
// past had been seen: the weights stay and move faster from here.
func (l *bank) forget(keep float64) {
	forget := func(row []float64, intercepts bool) {
		l.rule.Forget(row, intercepts, keep)
		if l.refresh.size > 0 {
			d := l.layout.Curvature(row)
			for j := range d {
				d[j] *= keep
			}
		}
	}
	forget(l.bias, true)
	l.wrote()
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		forget(l.table.Touch(column), false)
	}
}

// fade makes the metric forget by half in HalfLife events (or HalfLifeTime
// seconds of event time), lazily: instead of every metric shrinking, what is
// added grows. An addition counts growth times, and the metric in force is the
// stored one divided by growth.
//
// The clock is the latest event time. A time that is ahead of it by more than a step
// counts only if the event before was so far ahead as well, and then for one step:
// one far-future time neither ages the metric nor stops the clock. If all of many
// events in a row are so far behind, the clock goes back to them.
type fade struct {
	growth   float64
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

// age lets the time of an event go by. Between several learners of one model the fold's
// events are the clock, and each lets them go by between its intervals.
func (l *bank) age(time int64) {
	if l.shared() {
		return
	}
	f := &l.fade
	halves := 0.0
	if l.config.HalfLife > 0 {
		halves = 1 / l.config.HalfLife
	}
	if l.config.HalfLifeTime > 0 && time > 0 {
		halves += min(float64(f.tick(time, l.set.timeStep))/1000/l.config.HalfLifeTime, 100)
	}
	if halves > 0 {
		l.halve(halves)
	}
}

// halve makes the metric forget by half so many times.
func (l *bank) halve(times float64) {
	f := &l.fade
	if f.growth *= math.Exp2(times); f.growth > maxGrowth {
		l.forget(1 / f.growth)
		f.growth = 1
	}
}

// tick shows the clock a time and returns how many milliseconds that counts for.
func (f *fade) tick(time, step int64) (passed int64) {
	ahead := time - f.lastTime
	switch {
	case f.lastTime == 0:
		f.lastTime = time
		return 0
	case ahead > step:
		f.odd = max(f.odd, 0) + 1
	case ahead < -step:
		f.odd = min(f.odd, 0) - 1
	default:
		f.odd = 0
		f.lastTime = max(f.lastTime, time)
		return max(ahead, 0)
	}
	if f.odd == aheadFor || f.odd == -behindFor {
		f.lastTime, f.odd = time, 0
		return max(0, min(ahead, step))
	}
	return 0
}

func (f *fade) clock(c *coder.Coder) {
	c.Int64(&f.lastTime)
	c.Int64(&f.odd)
}
