package online

// This file holds the drift detector, and the half-life that makes the metric forget.

import (
	"math"

	"blankout/internal/coder"
)

// Drift is what the detector on the progressive log-loss has seen: the test of
// Page and Hinkley, which adds up by how much the loss exceeds its own mean and
// raises an alarm when that sum has risen far above its lowest point.
type Drift struct {
	Alarms uint64 `json:"alarms"`
	// Event is the number of the event that raised the latest alarm; Before and
	// After are the mean log-loss up to it since the alarm before, and over the
	// events that made the sum rise.
	Event  uint64  `json:"event,omitempty"`
	Before float64 `json:"before,omitempty"`
	After  float64 `json:"after,omitempty"`
	// Excess is how far the sum is above its lowest point now, in nats; the next
	// alarm comes at DriftAlarm.
	Excess float64 `json:"excess"`
}

// DriftAlarm is the Drift.Excess that raises an alarm.
const DriftAlarm = 50

// Drift returns what the detector has seen.
func (l *Learner) Drift() Drift {
	d := l.measures.sums.Drift
	d.Excess = l.measures.hinkley.sum - l.measures.hinkley.lowest
	return d
}

// pageHinkley is the detector's state since the latest alarm.
type pageHinkley struct {
	n, mean float64
	sum     float64 // of the excess over the mean
	lowest  float64 // value of sum
	since   float64 // events since it was lowest
	recent  float64 // sum of losses since then
}

const (
	driftSlack  = 0.05 // nats by which the loss may exceed its mean for free
	driftWarmup = 500  // events before the mean means something
	driftLimit  = 5    // nats that one event counts at most
)

// watch shows the detector the log-loss of an event. On an alarm, if the
// configuration wants that, the memory is shortened: see Learner.forget.
func (l *Learner) watch(loss float64) { l.watchMean(loss, 1) }

// watchMean shows the detector the mean log-loss of events.
func (l *Learner) watchMean(loss float64, events uint64) {
	p := &l.measures.hinkley
	p.add(min(loss, driftLimit), float64(events))
	if p.sum-p.lowest < DriftAlarm {
		return
	}
	d := &l.measures.sums.Drift
	d.Alarms++
	d.Event, d.After = l.events, p.recent/p.since
	d.Before = (p.mean*p.n - p.recent) / max(p.n-p.since, 1)
	*p = pageHinkley{}
	if l.config.OnDrift == "forget" {
		l.forget(driftKeep)
		l.filling.forget(driftKeep)
	}
}

// add takes up the mean loss of n events.
func (p *pageHinkley) add(loss, n float64) {
	p.n += n
	p.mean += (loss - p.mean) * n / p.n
	if p.n < driftWarmup {
		return
	}
	p.sum += (loss - p.mean - driftSlack) * n
	p.since += n
	p.recent += loss * n
	if p.sum < p.lowest {
		p.lowest, p.since, p.recent = p.sum, 0, 0
	}
}

// driftKeep is the share of the metric that an alarm leaves.
const driftKeep = 0.1

// forget leaves the given share of every metric, as if only that much of the
// past had been seen: the weights stay and move faster from here.
func (l *Learner) forget(keep float64) {
	forget := func(row []float64, intercepts bool) {
		l.rule.forget(row, intercepts, keep)
		if l.refresh.size > 0 {
			d := l.layout.curvature(row)
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
func (l *Learner) age(time int64) {
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
func (l *Learner) halve(times float64) {
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

func (p *pageHinkley) state(c *coder.Coder) {
	c.Each(&p.n, &p.mean, &p.sum, &p.lowest, &p.since, &p.recent)
}

func (d *Drift) state(c *coder.Coder) {
	c.Uint(&d.Alarms)
	c.Uint(&d.Event)
	c.Float(&d.Before)
	c.Float(&d.After)
}

func (f *fade) clock(c *coder.Coder) {
	c.Int64(&f.lastTime)
	if c.Version > 3 {
		c.Int64(&f.odd)
	}
}
