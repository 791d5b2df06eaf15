package run

// This file runs validations while learning continues.

import (
	"context"
	"errors"
	"time"

	"blankout/batch/validate"
	"blankout/internal/model"
)

// Validate requests a validation. The validation starts at the end of a batch, or when the current validation ends. Any
// goroutine may call Validate at any time. Validate returns an error if no Validator can read the events again or has a
// reservoir. It also returns an error if the events have ended with Config.KeepServing.
func (r *Runner) Validate() error {
	if r.Validator == nil || !r.Validator.CanRead() && r.Validator.Config.Reservoir == 0 {
		return errors.New("this run cannot read its events again and keeps no reservoir of them, so it cannot validate")
	}
	if s := r.status.Load(); s != nil && s.NotReady == Ended {
		return errors.New("the events have ended, and with them the validations; blankout validate takes a checkpoint")
	}
	r.validation.Store(true)
	return nil
}

// validator is the part of a loop that validates.
type validator struct {
	job
	schedule validate.Schedule
	auto     *validate.Auto     // nil unless the schedule is "auto"
	waiting  []validate.Request // states whose validation became due during another, the oldest first
	exact    *model.Linear      // the latest exact solution, or nil
}

// mostWaiting is the largest number of requests that wait, and mostWaitingFeatures is the largest number of features of
// each.
const mostWaiting, mostWaitingFeatures = 16, 500_000

func (l *loop) startValidating() (err error) {
	if l.Validator == nil {
		return nil
	}
	c := l.Validator.Config
	if l.intake.kept, err = validate.NewReservoir(c.Reservoir, l.Reservoir); err != nil {
		return err
	}
	l.intake.holdout, l.validator.schedule = c.Holdout, validate.NewSchedule(c, l.before+l.records)
	switch {
	case c.Events != validate.AutoEvents:
	case l.Labels != nil:
		l.log.Info("no validations: with delayed labels set validate.events to a number of records")
	default:
		l.validator.auto, l.intake.sample = validate.NewAuto(l.before, l.Validator.Reports), validate.NewSample(validate.SampleBytes)
	}
	return nil
}

// validateIfDue starts a due or requested validation, or queues it while another validation runs. A requested
// validation is queued without a state.
func (l *loop) validateIfDue() {
	v, records := &l.validator, l.before+l.records
	if l.Validator == nil || records == 0 {
		return
	}
	if n := l.autoDue(); n > 0 {
		next := l.subject()
		next.Sample, next.Most = l.intake.sample.Freeze(), n
		l.beginValidation(next)
		return
	}
	if !l.Validator.CanRead() && l.Validator.Config.Reservoir == 0 {
		return
	}
	due := v.schedule.Due(records)
	switch {
	case due && v.running():
		if n := len(v.waiting); n > 0 && (n >= mostWaiting || (n+1)*l.Learner.Report().Rows > mostWaitingFeatures) {
			l.log.Warn("a due validation is skipped, because validations take longer than the records between them: raise validate.events", "records", records)
		} else {
			v.waiting = append(v.waiting, l.subject())
		}
	case v.running():
	case len(v.waiting) > 0:
		next := v.waiting[0]
		v.waiting = v.waiting[1:]
		l.beginValidation(next)
		return
	case due || l.validation.Load():
		l.validation.Store(false)
		l.beginValidation(l.subject())
	}
	if due {
		v.schedule.Begun(records)
	}
}

// autoDue returns the number of events for a validation that is due by "auto", or 0 if no validation is due.
func (l *loop) autoDue() int {
	v := &l.validator
	if v.auto == nil || v.running() {
		return 0
	}
	p := validate.Progress{Records: l.before + l.records, Own: l.records, Learning: l.intake.counts.LearnTime, CPU: max(processTime(), l.intake.counts.LearnTime), Sampled: l.intake.sample.Len(), Now: time.Now()}
	n := v.auto.Due(p, func() int { return l.Learner.Report().Rows })
	if n > 0 {
		v.auto.Begun(p)
	}
	return n
}

// subject freezes the current state for a validation.
func (l *loop) subject() validate.Request {
	s := validate.RequestOf(l.Learner.Snapshot(), l.Offsets.Clone())
	s.Reservoir = l.intake.kept.Encode()
	if l.Labels != nil {
		s.Labeled = l.Labels.Labeled()
	}
	return s
}

// beginValidation starts a goroutine that validates a state.
func (l *loop) beginValidation(s validate.Request) {
	s.Earlier = l.validator.exact
	l.current.Validation.Running, l.unreported = true, true
	validator, keep, log := l.Validator, l.Report, l.log
	begin(&l.validator.job, func(ctx context.Context) (r validate.Result) {
		if r.Report, r.Exact, r.Err = validator.Validate(ctx, s); r.Err == nil {
			validate.Keep(r.Report, keep, log)
		}
		return r
	}, l.finishValidation)
}

// finishValidation processes the result of a validation.
func (l *loop) finishValidation(r validate.Result) {
	l.unreported = true
	if r.Report != nil {
		l.validator.exact = r.Exact
	}
	if l.validator.auto != nil {
		l.validator.auto.Take(r.Report)
	}
	l.current.Validation.Take(l.Validator.Config, r, l.log)
}

// endValidation ends validations at the end of a run. If the events have ended, it waits for the current validation,
// and then runs a validation that is due. If the run was stopped or has failed, it cancels the validation.
func (l *loop) endValidation(ctx context.Context, failed error) {
	done := ctx.Done()
	for {
		if failed == nil && ctx.Err() == nil {
			l.validateIfDue()
		}
		if !l.validator.running() {
			return
		}
		if failed != nil || ctx.Err() != nil {
			l.validator.waiting = nil
			l.validator.cancel()
			done = nil
		}
		select {
		case take := <-l.finished:
			take()
		case <-done:
		}
	}
}
