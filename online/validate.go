package online

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"blankout"
	"blankout/batch"
)

// ValidateConfig is the section [validate] of the configuration: how a run
// compares its live model with the exact solution.
type ValidateConfig struct {
	// Holdout k > 0 keeps about one record in k from being learned, chosen by
	// HeldOut; it is scored instead. 0 learns everything, and validations
	// then measure on what was learned.
	Holdout uint64 `toml:"holdout"`
	// Events makes a validation due every so many records; 0 validates on demand only.
	Events uint64 `toml:"events"`
	// Window is about how many of the latest records a validation reads, which
	// bounds its memory; 0 reads all.
	Window uint64 `toml:"window"`
	// CPU is the share of one processor that a validation beside learning may
	// take, in (0, 1].
	CPU float64 `toml:"validation_cpu"`
	// Policy is observe, which reports, alarm, which also raises the alarm when the
	// relative gap exceeds MaxGap, or adopt, which makes the exact solution after
	// every Events records the live state.
	Policy string  `toml:"policy"`
	MaxGap float64 `toml:"max_gap"`
	// Tol is the certified gap, relative to the objective, at which a solution
	// counts as exact.
	Tol float64 `toml:"tol"`
	// Top is how many features a report lists.
	Top int `toml:"top"`
}

// DefaultValidateConfig returns the values of an empty section.
func DefaultValidateConfig() ValidateConfig {
	return ValidateConfig{Window: 1_000_000, CPU: 0.5, Policy: "observe", MaxGap: 0.1, Tol: 1e-6, Top: 20}
}

// Check reports the first value that makes no sense, with its name in front.
func (c ValidateConfig) Check() error {
	switch {
	case c.Holdout == 1:
		return errors.New("holdout 1: nothing would be learned; want 0 (none) or at least 2")
	case !(c.CPU > 0 && c.CPU <= 1):
		return fmt.Errorf("validation_cpu %v: want a share in (0, 1]", c.CPU)
	case c.Policy != "observe" && c.Policy != "alarm" && c.Policy != "adopt":
		return fmt.Errorf("policy %q: want observe, alarm or adopt", c.Policy)
	case c.Policy == "adopt" && c.Events == 0:
		return errors.New("policy adopt: set events, the number of records after which each exact solution is adopted")
	case c.Policy == "adopt" && c.Window > 0:
		return fmt.Errorf("policy adopt: only a solution over all records is adopted, window %d leaves some out; set window = 0", c.Window)
	case !(c.MaxGap >= 0):
		return fmt.Errorf("max_gap %v: want a number, at least 0", c.MaxGap)
	case !(c.Tol > 0 && c.Tol < 1):
		return fmt.Errorf("tol %v: want a number between 0 and 1", c.Tol)
	case c.Top < 1:
		return fmt.Errorf("top %d: want at least 1", c.Top)
	}
	return nil
}

// Fingerprint returns what of c gives weights their meaning: which records are
// held out, and which exact solutions are adopted.
func (c ValidateConfig) Fingerprint() Fingerprint {
	f := Fingerprint{}
	if c.Holdout > 0 {
		f["holdout"] = fmt.Sprint(c.Holdout)
	}
	if c.Policy == "adopt" {
		f["adopt"] = fmt.Sprintf("after every %d records, to %g", c.Events, c.Tol)
	}
	return f
}

// HeldOut says whether a record belongs to the holdout of one in k. It depends
// on where the record lies alone, so everybody agrees on it at any time.
func HeldOut(partition int32, offset int64, k uint64) bool {
	if k == 0 {
		return false
	}
	// Steele, Lea and Flood's SplitMix64.
	x := uint64(offset) + uint64(partition)<<48 + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x^x>>31)%k == 0
}

// Validator solves the problem that a Learner works on exactly, over the events
// that it has learned, read again.
type Validator struct {
	Config  ValidateConfig
	Learner Config // of the Learner
	// Open opens the Learner's stream once more, each partition at its Position.
	// Events decode under s, which is the caller's. Validate closes the Source if
	// it is an io.Closer.
	Open func(ctx context.Context, s *blankout.Schema, from blankout.Offsets) (Source, error)
	// Progress may be nil.
	Progress func(batch.Progress)
}

// Validate compares the live model at the given place of the stream with the
// exact solution, which it returns too. earlier is what it returned the time
// before, or nil.
func (v *Validator) Validate(ctx context.Context, live *blankout.Model, at blankout.Offsets, earlier *blankout.Model) (*batch.Validation, *blankout.Model, error) {
	pace := &throttle{ctx: ctx, share: v.Config.CPU, since: time.Now()}
	r, exact, _, err := v.validate(ctx, live, at, earlier, pace)
	if err != nil {
		return nil, nil, err
	}
	return r, exact.Model, nil
}

func (v *Validator) validate(ctx context.Context, live *blankout.Model, at blankout.Offsets, earlier *blankout.Model, pace *throttle) (*batch.Validation, *batch.Exact, *batch.Evidence, error) {
	c, err := v.problem(&live.Head)
	if err != nil {
		return nil, nil, nil, err
	}
	c.Start, c.Progress, c.Pause = earlier, v.Progress, pace.rest
	begin := time.Now()
	evidence := batch.NewEvidence(live)
	counted, window, err := v.read(ctx, live, at, evidence, pace)
	if err != nil {
		return nil, nil, nil, err
	}
	reading := time.Since(begin)
	r, exact, err := evidence.Validate(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	r.Offsets, r.Window, r.Verified = at, window, !window
	for i, p := range at {
		r.Records += p.Records
		r.Read += counted[i].Records
		r.Verified = r.Verified && p.Records == counted[i].Records && p.Sum == counted[i].Sum
	}
	r.Coverage = float64(r.Read) / float64(r.Records)
	r.Reading, r.Pause = reading.Seconds(), pace.waited.Seconds()
	return r, exact, evidence, nil
}

// problem returns the batch problem of what a model of the Learner minimises.
func (v *Validator) problem(h *blankout.Head) (batch.ValidateConfig, error) {
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Tol, c.Top, c.Prior = h.Loss, h.Noise, v.Config.Tol, v.Config.Top, "l2"
	c.Intercept = batch.Intercept(v.Learner.Intercept)
	if c.Cost = v.Learner.C; math.IsInf(c.Cost, 1) {
		c.Cost, c.L2 = 1, 0
	}
	loss, err := blankout.ParseLoss(h.Loss)
	if err != nil {
		return c, err
	}
	switch l := loss.(type) {
	case blankout.HingeGaussian:
		c.Ell = l.Ell
	case blankout.HingeChen:
		c.Ell = l.Ell
	}
	return c, nil
}

// read presents the records before the given places to the evidence. It returns
// what it counted, and whether it left out records on purpose.
func (v *Validator) read(ctx context.Context, live *blankout.Model, at blankout.Offsets, evidence *batch.Evidence, pace *throttle) (counted blankout.Offsets, window bool, err error) {
	total := uint64(0)
	for _, p := range at {
		total += p.Records
	}
	window = v.Config.Window > 0 && total > v.Config.Window
	counted = at.Clone()
	left := 0
	for i := range counted {
		p := &counted[i]
		if p.Next = p.First; window {
			// Each partition gives in proportion.
			last := float64(at[i].Records) / float64(total) * float64(v.Config.Window)
			p.Next = max(p.First, at[i].Next-int64(math.Ceil(last)))
		}
		p.First, p.Records, p.Sum = p.Next, 0, 0
		if p.Next < at[i].Next {
			left++
		}
	}
	schema := live.Schema.Clone(-1, -1)
	source, err := v.Open(ctx, schema, counted.Clone())
	if err != nil {
		return nil, false, readError{fmt.Errorf("reading the events again: %w", err)}
	}
	if c, ok := source.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var b blankout.Batch
	for left > 0 {
		if err := source.Next(ctx, &b); errors.Is(err, io.EOF) {
			break // the log is shorter than it was: the coverage says so
		} else if err != nil {
			return nil, false, readError{fmt.Errorf("reading the events again: %w", err)}
		}
		i := slices.IndexFunc(counted, func(p blankout.Position) bool { return p.Topic == b.Topic && p.Partition == b.Partition })
		if i < 0 || counted[i].Next >= at[i].Next {
			continue
		}
		for j := range b.Examples {
			e := &b.Examples[j]
			if e.Offset < counted[i].First || e.Offset >= at[i].Next {
				continue
			}
			counted[i].Records++
			counted[i].Sum += e.Fingerprint
			if err := v.present(evidence, schema, b.Partition, e); err != nil {
				return nil, false, fmt.Errorf("%s/%d offset %d: %w", b.Topic, b.Partition, e.Offset, err)
			}
		}
		if counted[i].Next = b.Next; b.Next >= at[i].Next {
			left--
		}
		pace.rest()
	}
	return counted, window, ctx.Err()
}

func (v *Validator) present(evidence *batch.Evidence, s *blankout.Schema, partition int32, e *blankout.Example) error {
	held := HeldOut(partition, e.Offset, v.Config.Holdout)
	switch {
	case !usable(e) || e.Weight == 0:
		return nil
	case e.Label != blankout.Unlabelled:
	case v.Learner.Alpha > 0 && !held:
		return evidence.Unlabelled(e)
	default:
		return nil
	}
	if held {
		return evidence.HeldOut(e)
	}
	importance := e.Weight
	if w, ok := v.Learner.ClassWeight[s.Classes[e.Label]]; ok {
		importance *= w
	}
	return evidence.Learned(e, importance)
}

// throttle holds a goroutine to a share of a processor's time.
type throttle struct {
	ctx    context.Context
	share  float64
	since  time.Time // working since
	waited time.Duration
}

// rest waits as long as the work since the last rest demands.
func (t *throttle) rest() {
	const least = 2 * time.Millisecond // shorter waits are inexact
	busy := time.Since(t.since)
	if t.share >= 1 || busy < least || t.ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(time.Duration(float64(busy) * (1/t.share - 1)))
	defer timer.Stop()
	begin := time.Now()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
	t.since = time.Now()
	t.waited += t.since.Sub(begin)
}

// Validate asks for a validation. It comes at the end of a batch, unless one is
// under way, and at once when that ends. Anyone may call it at any time; without
// a Validator that can read the events again it returns an error.
func (r *Runner) Validate() error {
	if r.Validator == nil || r.Validator.Open == nil {
		return errors.New("this run cannot read its events again, so it cannot validate")
	}
	r.validation.Store(true)
	return nil
}

// Exact returns the latest exact solution, nil if there is none yet. It may be
// called by anyone at any time.
func (r *Runner) Exact() *blankout.Model { return r.exact.Load() }

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
	validated  chan validationResult
	cancel     context.CancelFunc // of the one under way, nil if there is none
}

type validationResult struct {
	report *batch.Validation
	exact  *blankout.Model
	err    error
}

func (l *loop) startValidating() {
	if l.Validator == nil {
		return
	}
	l.holdout = l.Validator.Config.Holdout
	l.validated = make(chan validationResult, 1)
	for _, p := range l.Offsets {
		l.before += p.Records
	}
	l.nextValidation()
}

// nextValidation puts the next one at the next multiple of the configured number.
func (l *loop) nextValidation() {
	if n := l.Validator.Config.Events; n > 0 && l.Validator.Config.Policy != "adopt" {
		l.validateAt = ((l.before+l.records)/n + 1) * n
	}
}

// hold scores a held-out event.
func (l *loop) hold(e *blankout.Example) {
	if e.Label == blankout.Unlabelled || !usable(e) {
		return
	}
	scores := l.Learner.Score(e, make([]float64, l.Learner.k))
	wrong := 0.0
	if l.Learner.predict(scores) != e.Label {
		wrong = e.Weight
	}
	l.current.Holdout.add(e.Weight, wrong, e.Weight*l.Learner.logLoss(scores, e.Label), 1)
}

// validateIfDue begins a validation if one is due or asked for.
func (l *loop) validateIfDue() {
	if l.Validator == nil || l.Validator.Open == nil || l.cancel != nil || l.base != nil {
		return
	}
	due := l.validateAt > 0 && l.before+l.records >= l.validateAt
	if !due && !l.validation.Load() || l.before+l.records == 0 {
		return
	}
	l.validation.Store(false)
	l.nextValidation()
	l.beginValidation()
}

// beginValidation copies the model and has a goroutine validate it.
func (l *loop) beginValidation() {
	live, at, earlier := l.freeze().Model(), l.Offsets.Clone(), l.exact.Load()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.current.Validation.Running, l.unreported = true, true
	go func() {
		var r validationResult
		r.report, r.exact, r.err = l.Validator.Validate(ctx, live, at, earlier)
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
