package monitor

// This file calibrates: it learns which log-odds scores stand for.

import (
	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/answer"
)

// link learns a Link of scores as they were predicted.
type link struct {
	answer.Link
	learns bool
	always bool // the Link is in force although it does not help
}

// newLink learns nothing under auto where class weights bend scores on purpose.
func newLink(s Settings) link {
	l := link{always: s.Calibrate == "on"}
	l.learns = s.Target == loss.Sign && (l.always || s.Calibrate == "auto" && len(s.ClassWeight) == 0)
	l.reset()
	return l
}

// reset begins again, because scores are those of other outputs.
func (l *link) reset() { l.Link = answer.NewLink() }

// inForce returns the Link by which scores are served, nil where they are log-odds.
func (l *link) inForce() *model.Link {
	if !l.learns || !l.always && !l.Helps() {
		return nil
	}
	return l.Latest()
}

func (l *link) Observe(e *Event) (none Request) {
	if !e.Labeled || !l.learns {
		return none
	}
	if e.Due.Gain {
		l.Measure(e.Scores, e.Label, e.Weight)
	}
	every := uint64(followFirst)
	if l.Taken() > followAfter {
		every = followEvery
	}
	l.Learn(e.Scores, e.Active, e.Label, e.Weight, every)
	return none
}

// The Link follows what it has learned after every followFirst events, and after the followAfter-th one after followEvery.
const followFirst, followEvery, followAfter = 64, 256, 65_536

func (l *link) State(c *coder.Coder) { l.Link.State(c) }

func (l *link) Report(*online.Report) {}
