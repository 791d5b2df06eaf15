package validate

// This file decides when the next validation is due and keeps the status of the last one. All commands that validate
// while learning share it.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"blankout/batch"
	"blankout/internal/model"
)

// Status describes the validations of a learner since the learner started.
type Status struct {
	Running bool
	// Done and Failed count validations. A validation of events of one class has nothing to solve: it is done, without a
	// report.
	Done, Failed uint64
	Last         *batch.Validation // last report; nil before the first; shared, must not be modified
	// Alarm is true if the last report has an alarm or, under the policy alarm, a gap above the limit.
	Alarm bool
}

// Result is a result of Validator.Validate that is passed to the learner's goroutine.
type Result struct {
	Report *batch.Validation
	Exact  *model.Linear
	Err    error
}

// Keep gives the report v an ID that sorts by time. It then calls keep with the report, unless keep is nil. Errors are
// only logged, because nothing depends on stored reports.
func Keep(v *batch.Validation, keep func(*batch.Validation) error, log *slog.Logger) {
	v.ID = fmt.Sprintf("%s-%012d", v.Time.Format("20060102T150405.000Z"), v.Records)
	if keep == nil {
		return
	}
	if err := keep(v); err != nil {
		log.Error("a validation report could not be saved", "id", v.ID, "err", err)
	}
}

// Take adds a finished validation to the status and logs it.
func (s *Status) Take(c Config, r Result, log *slog.Logger) {
	s.Running = false
	if r.Report != nil {
		s.Last = r.Report
		gap := math.NaN()
		if r.Report.RelativeGap != nil {
			gap = *r.Report.RelativeGap
		}
		s.Alarm = r.Report.Alarm != "" || c.Policy == "alarm" && !(gap <= c.MaxGap)
		write := log.Info
		if s.Alarm {
			write = log.Warn
		}
		write("validated", "id", r.Report.ID, "relative_gap", gap, "alarm", s.Alarm, "why", r.Report.Alarm, "records", r.Report.Records,
			"coverage", r.Report.Coverage, "summary", r.Report.Summary, "took", time.Duration((r.Report.Reading+r.Report.Seconds)*float64(time.Second)))
	}
	switch {
	case r.Err == nil:
		s.Done++
	case errors.Is(r.Err, context.Canceled):
		log.Info("a validation was canceled")
	case errors.Is(r.Err, batch.ErrOneClass): // usual in a stream with a rare class, and while a stream is young
		s.Done++
		log.Info("a validation had nothing to solve", "reason", r.Err)
	default:
		s.Failed++
		log.Error("a validation failed", "err", r.Err)
	}
}

// Schedule decides when a validation is due if Config.Events is a number of records. It counts records since the
// learner's start, including earlier processes. For AutoEvents use Auto.
type Schedule struct {
	config Config
	at     uint64 // number of records at which the next validation is due; 0 for none
}

// NewSchedule returns the Schedule of a learner with the given number of records.
func NewSchedule(c Config, records uint64) Schedule {
	s := Schedule{config: c}
	s.Begun(records)
	return s
}

// Due reports whether a validation is due at the given number of records.
func (s *Schedule) Due(records uint64) bool {
	return s.at > 0 && records >= s.at
}

// Begun records that a validation has started. The next validation is due at the next multiple of Config.Events.
func (s *Schedule) Begun(records uint64) {
	if n := uint64(s.config.Events); n > 0 && s.config.Events != AutoEvents {
		s.at = (records/n + 1) * n
	}
}

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
	each := cmp.Or(a.each.Seconds(), autoDear*learning)
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
