package run

// This file runs validations beside learning.

import (
	"context"
	"errors"
	"time"

	"blankout/model"
	"blankout/validate"
)

// Validate asks for a validation. It comes at the end of a batch, unless one is
// under way, and at once when that ends. Anyone may call it at any time; without
// a Validator that can read the events again, or a reservoir, it returns an error.
func (r *Runner) Validate() error {
	if r.Validator == nil || !r.Validator.CanRead() && r.Validator.Config.Reservoir == 0 {
		return errors.New("this run cannot read its events again and keeps no reservoir of them, so it cannot validate")
	}
	r.validation.Store(true)
	return nil
}

// ValidationStatus is about validations since Run began.
type ValidationStatus struct {
	validate.Status
	// Adopting is the number of records at which learning waits for the exact solution
	// that is to be adopted, and WaitingSince since when; zero if it does not wait.
	Adopting     uint64
	WaitingSince time.Time
	Waited       time.Duration // in all, without the wait under way
	Adopted      uint64
	NotAdopted   uint64 // refused: the learned state stayed
	TimedOut     uint64 // given up after validate.Config.AdoptWait
}

// Waiting returns for how long learning has been waiting for an exact solution.
func (s *ValidationStatus) Waiting() time.Duration {
	if s.WaitingSince.IsZero() {
		return 0
	}
	return time.Since(s.WaitingSince)
}

// validator is the part of a loop that validates.
type validator struct {
	job
	schedule validate.Schedule
	exact    *model.Linear // the latest exact solution, or nil
}

func (l *loop) startValidating() (err error) {
	if l.Validator == nil {
		return nil
	}
	if l.Validator.Config.Policy != "adopt" {
		if l.intake.sample, err = validate.NewReservoir(l.Validator.Config.Reservoir, l.Reservoir); err != nil {
			return err
		}
	}
	l.intake.Holdout, l.validator.schedule = l.Validator.Config.Holdout, validate.NewSchedule(l.Validator.Config, l.before+l.records)
	return nil
}

// validateIfDue begins a validation if one is due or asked for.
func (l *loop) validateIfDue() {
	v := &l.validator
	if l.Validator == nil || !l.Validator.CanRead() && l.Validator.Config.Reservoir == 0 || v.running() || l.current.Validation.Adopting > 0 {
		return
	}
	if !v.schedule.Due(l.before+l.records) && !l.validation.Load() || l.before+l.records == 0 {
		return
	}
	l.validation.Store(false)
	v.schedule.Begun(l.before + l.records)
	l.beginValidation()
}

// beginValidation copies the model and has a goroutine validate it.
func (l *loop) beginValidation() {
	state := l.freeze()
	subject := validate.Request{Live: state.Model(), Unit: state.Unit(), At: state.offsets, Reservoir: l.intake.sample.Encode(), Earlier: l.validator.exact}
	if l.Labels != nil {
		subject.Labelled = l.Labels.Labelled()
	}
	l.current.Validation.Running, l.unreported = true, true
	validator, keep, log := l.Validator, l.Report, l.log
	begin(&l.validator.job, func(ctx context.Context) (r validate.Result) {
		if r.Report, r.Exact, r.Err = validator.Validate(ctx, subject); r.Err == nil {
			validate.Keep(r.Report, keep, log)
		}
		return r
	}, l.finishValidation)
}

// finishValidation takes the result over.
func (l *loop) finishValidation(r validate.Result) {
	l.unreported = true
	if r.Report != nil {
		l.validator.exact = r.Exact
	}
	l.current.Validation.Take(l.Validator.Config, r, l.log)
}

// endValidation waits for a validation under way, and makes the one that is due, if the run
// ends because its events have ended. If the run was stopped or has failed, it gives the
// validation up.
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
