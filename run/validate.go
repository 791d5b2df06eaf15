package run

import (
	"context"
	"errors"
	"math"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/online"
	"blankout/validate"
)

// Validate asks for a validation. It comes at the end of a batch, unless one is
// under way, and at once when that ends. Anyone may call it at any time; without
// a Validator that can read the events again, or a reservoir, it returns an error.
func (r *Runner) Validate() error {
	if r.Validator == nil || r.Validator.Open == nil && r.Validator.Config.Reservoir == 0 {
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
	// Adopting is the number of records at which the solution under way is to be
	// adopted, 0 if there is none.
	Adopting            uint64
	Adopted, NotAdopted uint64
	// Alarm is set, under the policy alarm, while the last one's gap is too large.
	Alarm bool
}

// validating is the part of a loop that validates.
type validating struct {
	holdout    uint64
	before     uint64 // records counted in before Run began
	validateAt uint64 // records, those before included, at which the next is due
	// validatedAt is when the latest began, at first when Run did.
	validatedAt time.Time
	sample      *validate.Reservoir
	validated   chan validationResult
	cancel      context.CancelFunc // of the one under way, nil if there is none
}

type validationResult struct {
	report *batch.Validation
	exact  *blankout.Linear
	err    error
}

func (l *loop) startValidating() error {
	if l.Validator == nil {
		return nil
	}
	if l.Validator.Config.Policy != "adopt" {
		sample, err := validate.NewReservoir(l.Validator.Config.Reservoir, l.Reservoir)
		if err != nil {
			return err
		}
		l.sample = sample
	}
	l.holdout, l.validatedAt = l.Validator.Config.Holdout, time.Now()
	l.validated = make(chan validationResult, 1)
	for _, p := range l.Offsets {
		l.before += p.Records
	}
	l.nextValidation()
	return nil
}

// nextValidation puts the next one at the next multiple of the configured number.
func (l *loop) nextValidation() {
	if n := l.Validator.Config.Events; n > 0 && l.Validator.Config.Policy != "adopt" {
		l.validateAt = ((l.before+l.records)/n + 1) * n
	}
}

// hold scores a held-out event.
func (l *loop) hold(e *blankout.Example) {
	if e.Label == blankout.Unlabelled || !online.Usable(e) {
		return
	}
	l.Learner.Assess(e, &l.current.Holdout)
}

// validateIfDue begins a validation if one is due or asked for.
func (l *loop) validateIfDue() {
	if l.Validator == nil || l.Validator.Open == nil && l.Validator.Config.Reservoir == 0 || l.cancel != nil || l.base != nil {
		return
	}
	due := l.validateAt > 0 && l.before+l.records >= l.validateAt ||
		l.Validator.Config.Interval > 0 && time.Since(l.validatedAt) >= l.Validator.Config.Interval
	if !due && !l.validation.Load() || l.before+l.records == 0 {
		return
	}
	l.validation.Store(false)
	l.validatedAt = time.Now()
	l.nextValidation()
	l.beginValidation()
}

// beginValidation copies the model and has a goroutine validate it.
func (l *loop) beginValidation() {
	subject := validate.Subject{Live: l.freeze().Model(), At: l.Offsets.Clone(), Reservoir: l.sample.Encode(), Earlier: l.exact.Load()}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.current.Validation.Running, l.unreported = true, true
	go func() {
		var r validationResult
		r.report, r.exact, r.err = l.Validator.Validate(ctx, subject)
		if r.err == nil {
			l.keep(r.report)
		}
		l.validated <- r // one place, one validation at a time: never blocks
	}()
}

// finishValidation takes the result over.
func (l *loop) finishValidation(r validationResult) {
	l.cancel()
	l.cancel, l.unreported = nil, true
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
		if l.cancel == nil {
			return
		}
		if failed != nil || ctx.Err() != nil {
			l.cancel()
			done = nil
		}
		select {
		case r := <-l.validated:
			l.finishValidation(r)
		case <-done:
		}
	}
}
