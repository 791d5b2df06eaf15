package validate

// This file decides when the next validation is due and keeps the status of the last one. All commands that validate
// while learning share it.

import (
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
