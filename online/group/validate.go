package group

// This file validates the group's model, on one of its members.

import (
	"context"

	"blankout/batch/validate"
	"blankout/internal/model"
)

// validator is the part of a running member that validates.
type validator struct {
	schedule validate.Schedule
	exact    *model.Linear      // the latest exact solution, or nil
	cancel   context.CancelFunc // of the current validation, or nil
}

// validateIfDue starts a validation if one is requested, or if one is due and this member is the writer, so that a
// group validates once. The model is the group's, so that every member would report the same.
func (l *running) validateIfDue() {
	if l.Validator == nil || l.validator.cancel != nil {
		return
	}
	records := l.replica.records()
	due := l.validator.schedule.Due(records)
	if due {
		l.validator.schedule.Begun(records)
	}
	if records == 0 || !(due && l.first()) && !l.validation.Load() {
		return
	}
	l.validation.Store(false)
	subject := validate.RequestOf(l.replica.fold.Learner().Snapshot(), l.replica.fold.Offsets())
	subject.Earlier = l.validator.exact
	l.current.Validation.Running = true
	ctx, cancel := context.WithCancel(context.Background())
	l.validator.cancel = cancel
	validator, keep, log := l.Validator, l.Report, l.log
	go func() {
		var r validate.Result
		if r.Report, r.Exact, r.Err = validator.Validate(ctx, subject); r.Err == nil {
			validate.Keep(r.Report, keep, log)
		}
		l.jobs <- func() {
			cancel()
			l.validator.cancel = nil
			if r.Exact != nil {
				l.validator.exact = r.Exact
			}
			l.current.Validation.Take(validator.Config, r, log)
		}
	}()
}
