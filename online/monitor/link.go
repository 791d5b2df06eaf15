package monitor

// This file calibrates: it learns the function from scores to log-odds.

import (
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/calibration"
)

// link learns a Link from the predicted scores.
type link struct {
	calibration.Link
	learns bool
	always bool // the Link takes effect even if it does not reduce the loss
}

// newLink returns a link. It learns nothing under "auto" if there are class weights, because these shift scores on
// purpose.
func newLink(s Settings) link {
	l := link{always: s.Calibrate == "on"}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && !s.ClassWeights)
	l.reset()
	return l
}

// Recalibrate replaces the Link by one of other scores, because predictions change to these.
func (m *Monitors) Recalibrate(l calibration.Link) {
	if m.link.learns {
		m.link.Link = l
	}
}

// reset discards the Link, because the outputs have changed.
func (l *link) reset() { l.Link = calibration.NewLink() }

// inForce returns the Link in effect, or nil if scores are used as log-odds.
func (l *link) inForce() *model.Link {
	if !l.learns || !l.always && !l.Helps() {
		return nil
	}
	return l.Latest()
}

func (l *link) Observe(e *Event) *Request {
	if !e.Labeled || e.Again || !l.learns {
		return nil
	}
	if e.Due.Gain {
		l.Measure(e.Scores, e.Label, e.Weight)
	}
	every := uint64(followFirst)
	if l.Taken() > followAfter {
		every = followEvery
	}
	l.Learn(e.Scores, e.Active, e.Label, e.Weight, every)
	return nil
}

// The Link in effect is updated every followFirst events. After followAfter events it is updated every followEvery
// events.
const followFirst, followEvery, followAfter = 64, 512, 65_536

func (l *link) Report(*Report) {}
