package monitor

// This file detects drift, and requests what the learner does about it.

import (
	"blankout/internal/coder"
	"blankout/online/health"
)

// drift is the drift detector, with the request that an alarm makes.
type drift struct {
	health.Detector
	asks *Request // nil requests nothing
}

// The fraction of the weight of old events that remains after an alarm: forgetKeep if on_drift is "forget", expertKeep
// if it is "expert".
const forgetKeep, expertKeep = 0.1, 0.3

func newDrift(s Settings) (d drift) {
	switch s.OnDrift {
	case "forget":
		d.asks = &Request{Keep: forgetKeep}
	case "expert":
		d.asks = &Request{Keep: expertKeep, Fresh: true}
	}
	return d
}

func (d *drift) Observe(e *Event) *Request {
	if e.Labeled && d.Take(e.Loss, 1, e.Number) {
		return d.asks
	}
	return nil
}

func (d *drift) State(c *coder.Coder) {
	d.AlarmState(c)
	d.Detector.State(c)
}

func (d *drift) Report(r *Report) { r.Drift = d.Detector.Report() }
