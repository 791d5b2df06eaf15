package monitor

// This file calibrates: it learns the function from scores to log-odds.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/calibration"
	"blankout/online/health"
)

// link learns a Link from the predicted scores. If readers have older weights (ServingStaleness), it learns from the
// scores of weights of that age.
type link struct {
	calibration.Link
	learns   bool
	always   bool   // the Link takes effect even if it does not reduce the loss
	stale    uint64 // age of the readers' weights in events, 0 for current weights
	measures *health.Measures
	outputs  int         // number of scores of a prediction
	active   int         // number of classes seen so far
	bounded  *model.Link // the Link after cautious, nil before it is computed
}

// newLink returns a link. It learns nothing under "auto" if there are class weights, because these shift scores on
// purpose.
func newLink(s Settings, m *health.Measures) link {
	l := link{always: s.Calibrate == "on", stale: uint64(s.ServingStaleness), measures: m}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && !s.ClassWeights)
	l.reset()
	return l
}

// reset discards the Link, because the outputs have changed.
func (l *link) reset() { l.Link, l.bounded = calibration.NewLink(), nil }

// inForce returns the Link in effect, or nil if scores are used as log-odds.
func (l *link) inForce() *model.Link {
	if !l.learns {
		return nil
	}
	found := l.Latest()
	if !l.always && !l.Helps() {
		found = nil
	}
	if l.stale == 0 {
		return found
	}
	if l.bounded == nil {
		l.bounded = l.cautious(found)
	}
	return l.bounded
}

// cautious bounds a Link around the log-odds of the class frequencies, as long as only few models of the age that
// readers use have been observed. The losses of few models predict the loss of the next model poorly. At first the
// bound is small: a prediction that is right half of the time can lose at most 0.05 nats more than the class
// frequencies. From the fourth model on, the bound grows with the number of models.
func (l *link) cautious(of *model.Link) *model.Link {
	seen := 0.0
	if l.Age == l.stale {
		seen = l.Taken() / float64(l.stale)
	}
	center, bound := -math.Log(float64(max(1, l.active-1))), cautionFirst*max(1, seen/cautionModels)
	if n := l.measures.Classes; l.outputs == 1 && len(n) > 1 {
		center = math.Log(float64(n[1]+1) / float64(n[0]+1))
	}
	return of.Bounded(center-bound, center+bound)
}

// cautionFirst is the initial bound. The bound grows after cautionModels models.
const cautionFirst, cautionModels = 0.6, 4

// Observe must be called after Measures has observed the event. The bound uses the class frequencies, which must
// include the event.
func (l *link) Observe(e *Event) *Request {
	if !e.Labeled || e.Again || !l.learns {
		return nil
	}
	l.active, l.bounded = e.Active, nil
	scores, active := e.Scores, e.Active
	if l.stale > 0 {
		if scores, active = e.Older.Scores, e.Older.Active; scores == nil {
			return nil
		}
		if l.Age != l.stale { // the Link was learned from weights of another age
			l.reset()
			l.Age = l.stale
		}
	}
	if e.Due.Gain {
		l.Measure(scores, e.Label, e.Weight)
	}
	every := uint64(followFirst)
	if l.Taken() > followAfter {
		every = followEvery
	}
	l.Learn(scores, active, e.Label, e.Weight, every)
	return nil
}

// The Link in effect is updated every followFirst events. After followAfter events it is updated every followEvery
// events.
const followFirst, followEvery, followAfter = 64, 512, 65_536

func (l *link) State(c *coder.Coder) {
	l.Link.State(c)
	c.Int(&l.active)
}

func (l *link) Report(*Report) {}
