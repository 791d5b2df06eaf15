package health

// This file has the drift detector.

import (
	"blankout/internal/coder"
)

// Drift is the state of the drift detector on the progressive log-loss. It is the Page-Hinkley test. It sums the excess
// of the loss over its mean, and raises an alarm when the sum is far above its minimum.
type Drift struct {
	Alarms uint64 `json:"alarms"`
	// Event is the number of the event that raised the latest alarm. Before is the mean log-loss from the previous
	// alarm to the rise of the sum, and After is the mean log-loss during the rise.
	Event  uint64  `json:"event,omitempty"`
	Before float64 `json:"before,omitempty"`
	After  float64 `json:"after,omitempty"`
	// Excess is the current sum minus its minimum, in nats. The next alarm is raised at DriftAlarm.
	Excess float64 `json:"excess"`
}

// DriftAlarm is the Drift.Excess that raises an alarm.
const DriftAlarm = 50

// Detector detects increases of the mean progressive log-loss.
type Detector struct {
	alarms Drift // all fields except Excess
	// These fields describe the events since the latest alarm:
	n, mean float64
	sum     float64 // sum of the excess of losses over the mean
	lowest  float64 // minimum of sum
	since   float64 // number of events since the minimum
	recent  float64 // sum of losses since the minimum
}

const (
	driftSlack  = 0.05 // excess over the mean that is ignored, in nats
	driftWarmup = 500  // number of events until the mean is reliable
	driftLimit  = 5    // bound on the loss of one event, in nats
)

// Report returns the state of the detector.
func (p *Detector) Report() Drift {
	d := p.alarms
	d.Excess = p.sum - p.lowest
	return d
}

// Take adds the mean log-loss of some events. events is how many, and number is the number of the last event. alarm
// reports whether they raise an alarm.
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

// add adds the mean loss of n events.
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

// State encodes or decodes the state since the latest alarm.
func (p *Detector) State(c *coder.Coder) {
	c.Each(&p.n, &p.mean, &p.sum, &p.lowest, &p.since, &p.recent)
}

// AlarmState encodes or decodes the latest alarm.
func (p *Detector) AlarmState(c *coder.Coder) {
	d := &p.alarms
	c.Uint(&d.Alarms)
	c.Uint(&d.Event)
	c.Each(&d.Before, &d.After)
}
