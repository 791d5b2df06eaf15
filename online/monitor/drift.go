package monitor

// This file detects drift. After an alarm it requests a reaction from the learner.

import (
	"blankout/internal/coder"
	"blankout/online/health"
)

// drift is the drift detector. At an alarm it returns a request to the learner.
type drift struct {
	health.Detector
	asks *Request // nil requests nothing
}

// After an alarm the weight of old events is multiplied by forgetKeep if on_drift is "forget", and by expertKeep if it
// is "expert".
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
