package validate

// This file holds what everyone who validates beside learning decides in the same way:
// when the next validation is due, and what became of the last.

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

// Status is about the validations of a learner since it began.
type Status struct {
	Running      bool
	Done, Failed uint64
	Last         *batch.Validation // nil before the first; shared, never changed
	// Alarm is set while the last one's Validation.Alarm is and, under the policy alarm, while its gap is too large.
	Alarm bool
}

// Result is what Validator.Validate has returned, on its way to the learner's goroutine.
type Result struct {
	Report *batch.Validation
	Exact  *model.Linear
	Err    error
}

// Keep gives a report an ID, in the order of time, and hands it to keep, if that is not nil.
// It only logs an error: no report decides anything.
func Keep(v *batch.Validation, keep func(*batch.Validation) error, log *slog.Logger) {
	v.ID = fmt.Sprintf("%s-%012d", v.Time.Format("20060102T150405.000Z"), v.Records)
	if keep == nil {
		return
	}
	if err := keep(v); err != nil {
		log.Error("a validation's report could not be kept", "id", v.ID, "err", err)
	}
}

// Take counts a finished validation, and logs what it found.
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
		log.Info("a validation was given up")
	default:
		s.Failed++
		log.Error("a validation failed", "err", r.Err)
	}
}

// Schedule says when a validation is due by a number Config.Events, in records since the
// learner first began. Auto is that of AutoEvents.
type Schedule struct {
	config Config
	at     uint64 // records at which the next is due, 0 for none
}

// NewSchedule returns the Schedule of a learner that has counted in so many records.
func NewSchedule(c Config, records uint64) Schedule {
	s := Schedule{config: c}
	s.Begun(records)
	return s
}

// Due says whether a validation is due.
func (s *Schedule) Due(records uint64) bool {
	return s.at > 0 && records >= s.at
}

// Begun puts the next validation after the one that begins now: at the next multiple of
// Config.Events.
func (s *Schedule) Begun(records uint64) {
	if n := uint64(s.config.Events); n > 0 && s.config.Events != AutoEvents && s.config.Policy != "adopt" {
		s.at = (records/n + 1) * n
	}
}
