package validate

// This file decides when Config.Events = "auto" validates, and over how many events.

import (
	"time"

	"blankout/batch"
)

// Auto is the schedule of "auto": a validation is due at autoFirst records and whenever they
// have doubled since the last one, at most once in autoEvery. It is over a Sample of as many
// events as autoShare of the processor's time since the learner first began pays for, and waits
// until these are enough to tell anything.
type Auto struct {
	at    uint64        // records at which the next is due
	last  time.Time     // when one was made
	spent time.Duration // on all of them
	each  time.Duration // what the last one cost by event, 0 before the first
}

const (
	autoFirst = 10_000
	autoEvery = 24 * time.Hour
	autoShare = 0.05
	// With fewer events than these, in all and for each feature, an exact solution says more
	// about the sample than about the stream.
	autoLeast, autoByFeature = 2000, 20
	// autoDear is how much dearer an event of the first validation is taken to be than learning one.
	autoDear = 1.5
)

// fromSample is Validation.Source of a validation over a Sample.
const fromSample = "sample"

// Progress is how far a learner is.
type Progress struct {
	Records  uint64        // since it first began
	Own      uint64        // of these since the program began
	Learning time.Duration // spent on the latter
	CPU      time.Duration // of the program, all that it does
	Sampled  int           // events of its Sample
	Now      time.Time
}

// NewAuto returns the schedule of a learner that has counted in so many records. reports are
// those that are kept, the newest first: of them those count that can be its own, which ends
// where their records go up.
func NewAuto(records uint64, reports []*batch.Validation) *Auto {
	a := &Auto{at: autoFirst}
	for _, r := range reports {
		if r.Records > records {
			break
		}
		if records = r.Records; r.Source != fromSample {
			continue
		}
		if a.last.IsZero() {
			a.last = r.Time
			a.begun(r.Records)
		}
		a.take(r)
	}
	return a
}

// Due returns over how many events a validation is due, 0 for none. features is asked for the
// size of the model only where the rest is given.
func (a *Auto) Due(p Progress, features func() int) int {
	if p.Records < a.at || p.Own == 0 || !a.last.IsZero() && p.Now.Sub(a.last) < autoEvery {
		return 0
	}
	learning := p.Learning.Seconds() / float64(p.Own) // a record
	each := a.each.Seconds()
	if each == 0 {
		each = autoDear * learning
	}
	all := p.CPU.Seconds() + learning*float64(p.Records-p.Own)
	n := min(p.Sampled, int((autoShare*all-a.spent.Seconds())/each))
	if n < autoLeast {
		return 0
	}
	if n < autoByFeature*features() {
		a.at = p.Records + p.Records/10 // not before every batch
		return 0
	}
	return n
}

// Begun says that a validation begins.
func (a *Auto) Begun(p Progress) {
	a.last = p.Now
	a.begun(p.Records)
}

// begun puts the next one at the next doubling of autoFirst.
func (a *Auto) begun(records uint64) {
	for a.at = autoFirst; a.at <= records; a.at *= 2 {
	}
}

// Take counts what a validation has cost.
func (a *Auto) Take(r *batch.Validation) {
	if r != nil && r.Source == fromSample {
		a.each = 0
		a.take(r)
	}
}

func (a *Auto) take(r *batch.Validation) {
	cost := time.Duration((r.Reading + r.Seconds - r.Pause) * float64(time.Second))
	a.spent += cost
	if a.each == 0 && r.Read > 0 {
		a.each = cost / time.Duration(r.Read)
	}
}
