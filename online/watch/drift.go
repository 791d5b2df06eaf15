package watch

// This file holds the drift detector.

import (
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

// Detector watches the mean of the progressive log-loss.
type Detector struct {
	alarms Drift // without Excess
	// Since the latest alarm.
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

// Report returns what the detector has seen.
func (p *Detector) Report() Drift {
	d := p.alarms
	d.Excess = p.sum - p.lowest
	return d
}

// Take takes up the mean log-loss of events, the last of them of the given number, and says
// whether that raises an alarm.
func (p *Detector) Take(loss float64, events, number uint64) (alarm bool) {
	p.add(min(loss, driftLimit), float64(events))
	if p.sum-p.lowest < DriftAlarm {
		return false
	}
	d := p.alarms
	d.Alarms++
	d.Event, d.After = number, p.recent/p.since
	d.Before = (p.mean*p.n - p.recent) / max(p.n-p.since, 1)
	*p = Detector{alarms: d}
	return true
}

// add takes up the mean loss of n events.
func (p *Detector) add(loss, n float64) {
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

// State codes what the detector holds since the latest alarm.
func (p *Detector) State(c *coder.Coder) {
	c.Each(&p.n, &p.mean, &p.sum, &p.lowest, &p.since, &p.recent)
}

// AlarmState codes what it holds of the latest alarm.
func (p *Detector) AlarmState(c *coder.Coder) {
	d := &p.alarms
	c.Uint(&d.Alarms)
	c.Uint(&d.Event)
	c.Float(&d.Before)
	c.Float(&d.After)
}
