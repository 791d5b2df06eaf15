package validate

// This file implements Config.Events = "auto": when to validate, and on how many events.

import (
	"time"

	"blankout/batch"
)

// Auto is the schedule of "auto". The first validation is due at autoFirst records, the next whenever the records have
// doubled, at most one in autoEvery. A validation uses a Sample of events, as many as the fraction autoShare of the
// processor time of learning pays for. It waits until they are enough for a meaningful result.
type Auto struct {
	at    uint64        // records at which the next validation is due
	last  time.Time     // when the last one ran
	spent time.Duration // on all validations
	each  time.Duration // cost of the last one per event, 0 before the first
}

const (
	autoFirst = 10_000
	autoEvery = 24 * time.Hour
	autoShare = 0.05
	// With fewer events than these, in all and for each feature, an exact solution says more about the sample than
	// about the stream.
	autoLeast, autoByFeature = 2000, 20
	// autoDear is the assumed cost of an event in the first validation, relative to learning it.
	autoDear = 1.5
)

// fromSample is the Validation.Source of a validation on a Sample.
const fromSample = "sample"

// Progress is the progress of a learner.
type Progress struct {
	Records  uint64        // since the learner first began
	Own      uint64        // of Records, those of this process
	Learning time.Duration // spent on Own
	CPU      time.Duration // processor time of the whole process
	Sampled  int           // number of events in the Sample
	Now      time.Time
}

// NewAuto returns the schedule of a learner with the given number of records. reports are the stored reports, newest
// first. Those of an earlier stream are ignored: reports belong to this learner until their records go up.
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

// Due returns the number of events of a validation that is due now, 0 if none is. It calls features, which returns the
// size of the model, only if everything else is met.
func (a *Auto) Due(p Progress, features func() int) int {
	if p.Records < a.at || p.Own == 0 || !a.last.IsZero() && p.Now.Sub(a.last) < autoEvery {
		return 0
	}
	learning := p.Learning.Seconds() / float64(p.Own) // per record
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
		a.at = p.Records + p.Records/10 // do not ask again before every batch
		return 0
	}
	return n
}

// Begun records that a validation begins.
func (a *Auto) Begun(p Progress) {
	a.last = p.Now
	a.begun(p.Records)
}

// begun sets the next validation to the next doubling of autoFirst.
func (a *Auto) begun(records uint64) {
	for a.at = autoFirst; a.at <= records; a.at *= 2 {
	}
}

// Take adds the cost of a finished validation.
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
