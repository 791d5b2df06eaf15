package group

// This file lets one member validate the group's model.

import (
	"context"

	"blankout/batch/validate"
	"blankout/internal/model"
)

// validator is the validation state of a running member.
type validator struct {
	schedule validate.Schedule
	exact    *model.Linear      // the latest exact solution, or nil
	cancel   context.CancelFunc // cancels the current validation; nil if none runs
}

// validateIfDue starts a validation if one is requested or due. A due validation is started only by the member that
// writes snapshots. All members have the same model, so one validation is enough.
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
