package run

// This file runs validations beside learning.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/loss"
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

// Exact returns the latest exact solution, nil if there is none yet. It may be
// called by anyone at any time.
func (r *Runner) Exact() *blankout.Linear { return r.exact.Load() }

// ValidationStatus is about validations since Run began.
type ValidationStatus struct {
	Running      bool
	Done, Failed uint64
	Last         *batch.Validation // nil before the first; shared, never changed
	// Adopting is the number of records at which learning waits for the exact solution
	// that is to be adopted, and WaitingSince since when; zero if it does not wait.
	Adopting     uint64
	WaitingSince time.Time
	Waited       time.Duration // in all, without the wait under way
	Adopted      uint64
	NotAdopted   uint64 // refused: the learned state stayed
	TimedOut     uint64 // given up after validate.Config.AdoptWait
	// Alarm is set, under the policy alarm, while the last one's gap is too large.
	Alarm bool
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
	holdout uint64
	at      uint64    // records, those before Run included, at which the next is due
	began   time.Time // when the latest did, at first when Run did
	sample  *validate.Reservoir
}

type validationResult struct {
	report *batch.Validation
	exact  *blankout.Linear
	err    error
}

func (l *loop) startValidating() (err error) {
	if l.Validator == nil {
		return nil
	}
	if l.Validator.Config.Policy != "adopt" {
		if l.validator.sample, err = validate.NewReservoir(l.Validator.Config.Reservoir, l.Reservoir); err != nil {
			return err
		}
	}
	l.validator.holdout, l.validator.began = l.Validator.Config.Holdout, time.Now()
	l.nextValidation()
	return nil
}

// nextValidation puts the next one at the next multiple of the configured number.
func (l *loop) nextValidation() {
	if n := l.Validator.Config.Events; n > 0 && l.Validator.Config.Policy != "adopt" {
		l.validator.at = ((l.before+l.records)/n + 1) * n
	}
}

// validateIfDue begins a validation if one is due or asked for.
func (l *loop) validateIfDue() {
	v := &l.validator
	if l.Validator == nil || !l.Validator.CanRead() && l.Validator.Config.Reservoir == 0 || v.running() || l.current.Validation.Adopting > 0 {
		return
	}
	due := v.at > 0 && l.before+l.records >= v.at ||
		l.Validator.Config.Interval > 0 && time.Since(v.began) >= l.Validator.Config.Interval
	if !due && !l.validation.Load() || l.before+l.records == 0 {
		return
	}
	l.validation.Store(false)
	v.began = time.Now()
	l.nextValidation()
	l.beginValidation()
}

// beginValidation copies the model and has a goroutine validate it.
func (l *loop) beginValidation() {
	state := l.freeze()
	subject := validate.Request{Live: state.Model(), Unit: state.Unit(), At: state.offsets, Reservoir: l.sampled(), Earlier: l.exact.Load()}
	if l.Labels != nil {
		subject.Labelled = l.Labels.Labelled()
	}
	l.current.Validation.Running, l.unreported = true, true
	validator, keep, log := l.Validator, l.Runner.keepReport, l.log
	begin(&l.validator.job, func(ctx context.Context) (r validationResult) {
		if r.report, r.exact, r.err = validator.Validate(ctx, subject); r.err == nil {
			keep(log, r.report)
		}
		return r
	}, l.finishValidation)
}

// keepReport names a report and hands it on. That it cannot be kept is logged only: it
// decides nothing.
func (r *Runner) keepReport(log *slog.Logger, v *batch.Validation) {
	// Named so that the order of names is that of time.
	v.ID = fmt.Sprintf("%s-%012d", v.Time.Format("20060102T150405.000Z"), v.Records)
	if r.Report == nil {
		return
	}
	if err := r.Report(v); err != nil {
		log.Error("a validation's report could not be kept", "id", v.ID, "err", err)
	}
}

// finishValidation takes the result over.
func (l *loop) finishValidation(r validationResult) {
	l.unreported = true
	s := &l.current.Validation
	s.Running = false
	if r.report != nil {
		l.exact.Store(r.exact)
		s.Last = r.report
		gap := math.NaN()
		if r.report.RelativeGap != nil {
			gap = *r.report.RelativeGap
		}
		s.Alarm = l.Validator.Config.Policy == "alarm" && !(gap <= l.Validator.Config.MaxGap)
		log := l.log.Info
		if s.Alarm {
			log = l.log.Warn
		}
		log("validated", "id", r.report.ID, "relative_gap", gap, "alarm", s.Alarm, "records", r.report.Records,
			"coverage", r.report.Coverage, "took", time.Duration((r.report.Reading+r.report.Seconds)*float64(time.Second)))
	}
	switch {
	case r.err == nil:
		s.Done++
	case errors.Is(r.err, context.Canceled):
		l.log.Info("a validation was given up")
	default:
		s.Failed++
		l.log.Error("a validation failed", "err", r.err)
	}
}

// endValidation waits for a validation under way, and makes the one that is due,
// if the run ends because there is no more to learn; if it was stopped, or has
// failed, the validation is given up.
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

// assess measures an event that was held out.
func (l *loop) assess(e *blankout.Example) {
	if l.Learner.Schema().Target != loss.Sign {
		l.Learner.AssessNumber(e, &l.current.HoldoutNumbers)
		return
	}
	l.Learner.Assess(e, &l.current.Holdout)
}
