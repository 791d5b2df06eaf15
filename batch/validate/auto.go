package validate

// This file implements Config.Events = "auto": when to validate, and on how many events.

import (
	"time"

	"blankout/batch"
)

// Auto is the schedule of "auto". The first validation is due after autoFirst records. The next is due whenever the
// number of records has doubled, but not before autoEvery has passed. A validation uses events from a Sample, as many
// as fit into the fraction autoFraction of the learner's processor time. It is delayed until these are enough events
// for a meaningful result.
type Auto struct {
	at    uint64        // number of records at which the next validation is due
	last  time.Time     // time of the last validation
	spent time.Duration // time spent on all validations
	each  time.Duration // time per event in the last validation, 0 before the first
}

const (
	autoFirst    = 10_000
	autoEvery    = 24 * time.Hour
	autoFraction = 0.05
	// autoLeast is the smallest number of events of a validation, and autoByFeature the smallest number per feature. An
	// exact solution of fewer events would describe the sample, not the stream.
	autoLeast, autoByFeature = 2000, 20
	// autoDear is the assumed cost of an event in the first validation, relative to the cost of learning it.
	autoDear = 1.5
)

// fromSample is the Validation.Source of a validation on a Sample.
const fromSample = "sample"

// Progress is the state of a learner that determines whether a validation is due.
type Progress struct {
	Records  uint64        // records since the learner's start, including earlier processes
	Own      uint64        // records of this process
	Learning time.Duration // time spent learning the Own records
	CPU      time.Duration // processor time of the whole process
	Sampled  int           // number of events in the Sample
	Now      time.Time
}

// NewAuto returns the schedule of a learner with the given number of records. The slice reports has the stored reports,
// newest first. A report belongs to this learner as long as the numbers of records decrease; all older reports are
// ignored.
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

// Due returns the number of events of a validation that is due now, or 0. It calls features, which returns the number
// of the model's features, only if all other conditions hold.
func (a *Auto) Due(p Progress, features func() int) int {
	if p.Records < a.at || p.Own == 0 || !a.last.IsZero() && p.Now.Sub(a.last) < autoEvery {
		return 0
	}
	learning := p.Learning.Seconds() / float64(p.Own) // seconds per record
	each := a.each.Seconds()
	if each == 0 {
		each = autoDear * learning
	}
	all := p.CPU.Seconds() + learning*float64(p.Records-p.Own)
	n := min(p.Sampled, int((autoFraction*all-a.spent.Seconds())/each))
	if n < autoLeast {
		return 0
	}
	if n < autoByFeature*features() {
		a.at = p.Records + p.Records/10 // avoids calling features before every batch
		return 0
	}
	return n
}

// Begun records that a validation has started.
func (a *Auto) Begun(p Progress) {
	a.last = p.Now
	a.begun(p.Records)
}

// begun sets the next validation to the next doubling of autoFirst above records.
func (a *Auto) begun(records uint64) {
	for a.at = autoFirst; a.at <= records; a.at *= 2 {
	}
}

// Take adds the cost of a finished validation to the schedule.
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
