package monitor

// This file calibrates: it learns which log-odds scores stand for.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/calibration"
	"blankout/online/watch"
)

// link learns a Link of scores as they were predicted or, for readers with older weights, as such weights predict.
type link struct {
	calibration.Link
	learns   bool
	always   bool   // the Link is in force although it does not help
	stale    uint64 // how old the weights of readers are, 0 for the newest
	measures *watch.Measures
	outputs  int         // how many scores a prediction has
	active   int         // the first so many classes have come
	bounded  *model.Link // what cautious made of the Link, nil before it is asked for
}

// newLink learns nothing under auto where class weights bend scores on purpose.
func newLink(s Settings, m *watch.Measures) link {
	l := link{always: s.Calibrate == "on", stale: uint64(s.ServingStaleness), measures: m}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && !s.ClassWeights)
	l.reset()
	return l
}

// reset begins again, because scores are those of other outputs.
func (l *link) reset() { l.Link, l.bounded = calibration.NewLink(), nil }

// inForce returns the Link by which scores are served, nil where they are log-odds.
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

// cautious bounds a Link around the log-odds of the class frequencies, as long as few models of the readers' age have been seen: what
// the latest ones have lost says little of what the next will. At first an answer that is right half the time loses .05 nats more than the
// frequencies; from the fourth such model on the bound grows with their number.
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

// See cautious.
const cautionFirst, cautionModels = 0.6, 4

// Observe comes after the event is measured: what is bounded around are the frequencies with it.
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
		if l.Age != l.stale { // it has learned from other weights
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

// The Link follows what it has learned after every followFirst events, and after the followAfter-th one after followEvery.
const followFirst, followEvery, followAfter = 64, 512, 65_536

func (l *link) State(c *coder.Coder) {
	l.Link.State(c)
	c.Int(&l.active)
}

func (l *link) Report(*Report) {}
