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
	// Interval makes a validation due so long after the one before; 0 is never.
	Interval time.Duration `toml:"interval"`
	// HoldoutTopic names a topic of labelled events that are never learned, to
	// measure on instead of, or beside, those of Holdout.
	HoldoutTopic string `toml:"holdout_topic"`
	// Window is about how many of the latest records a validation reads, which
	// bounds its memory; 0 reads all. WindowTime leaves out, of those, the records
	// older than so long before the newest; 0 leaves none out.
	Window     uint64        `toml:"window"`
	WindowTime time.Duration `toml:"window_time"`
	// Reservoir is the number of labelled events in the uniform sample that
	// checkpoints carry along, for validations when the log has less than half of
	// the records left. None is kept under the policy adopt.
	Reservoir int `toml:"reservoir"`
	// CPU is the share of one processor that a validation beside learning may
	// take, in (0, 1].
	CPU float64 `toml:"validation_cpu"`
	// Policy is observe, which reports, alarm, which also raises the alarm when the
	// relative gap exceeds MaxGap, or adopt, which makes the exact solution after
	// every Events records the live state if it is better there by AdoptMargin.
	Policy string  `toml:"policy"`
	MaxGap float64 `toml:"max_gap"`
	// AdoptMargin is for the policy adopt: the exact solution is adopted if on the
	// newest events (batch.Newest) its log-loss is lower by more than so many standard
	// errors of the difference; -Inf adopts it whatever it is there.
	AdoptMargin float64 `toml:"adopt_margin"`
	// Tol is the certified gap, relative to the objective, at which a solution
	// counts as exact.
	Tol float64 `toml:"tol"`
	// Top is how many features a report lists.
	Top int `toml:"top"`
}

// DefaultValidateConfig returns the values of an empty section.
func DefaultValidateConfig() ValidateConfig {
	return ValidateConfig{Window: 1_000_000, Reservoir: 1000, CPU: 0.5, Policy: "observe", MaxGap: 0.1, AdoptMargin: 1, Tol: 1e-6, Top: 20}
}

// Check reports the first value that makes no sense, with its name in front.
func (c ValidateConfig) Check() error {
	switch {
	case c.Holdout == 1:
		return blankout.KeyErrorf("holdout", "holdout 1: nothing would be learned; want 0 (none) or at least 2")
	case !(c.CPU > 0 && c.CPU <= 1):
		return blankout.KeyErrorf("validation_cpu", "validation_cpu %v: want a share in (0, 1]", c.CPU)
	case c.Policy != "observe" && c.Policy != "alarm" && c.Policy != "adopt":
		return blankout.KeyErrorf("policy", "policy %q: want observe, alarm or adopt", c.Policy)
	case c.Policy == "adopt" && c.Events == 0:
		return blankout.KeyErrorf("policy", "policy adopt: set events, the number of records after which each exact solution is adopted")
	case c.Interval < 0:
		return blankout.KeyErrorf("interval", "interval %v is negative", c.Interval)
	case c.WindowTime < 0:
		return blankout.KeyErrorf("window_time", "window_time %v is negative", c.WindowTime)
	case c.Reservoir < 0 || c.Reservoir > 1_000_000:
		return blankout.KeyErrorf("reservoir", "reservoir %d: want 0 to 1000000", c.Reservoir)
	case c.Policy == "adopt" && c.Interval > 0:
		return blankout.KeyErrorf("policy", "policy adopt: what is adopted must not depend on the clock; set interval = 0 and events")
	case c.Policy == "adopt" && c.WindowTime > 0:
		return blankout.KeyErrorf("policy", "policy adopt: only a solution over all records is adopted, window_time %v leaves some out; set window_time = 0", c.WindowTime)
	case c.Policy == "adopt" && c.Window > 0:
		return blankout.KeyErrorf("policy", "policy adopt: only a solution over all records is adopted, window %d leaves some out; set window = 0", c.Window)
	case !(c.MaxGap >= 0):
		return blankout.KeyErrorf("max_gap", "max_gap %v: want a number, at least 0", c.MaxGap)
	case math.IsNaN(c.AdoptMargin):
		return blankout.KeyErrorf("adopt_margin", "adopt_margin %v: want a number of standard errors", c.AdoptMargin)
	case !(c.Tol > 0 && c.Tol < 1):
		return blankout.KeyErrorf("tol", "tol %v: want a number between 0 and 1", c.Tol)
	case c.Top < 1:
		return blankout.KeyErrorf("top", "top %d: want at least 1", c.Top)
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
		if c.AdoptMargin != 1 {
			f["adopt_margin"] = fmt.Sprint(c.AdoptMargin)
		}
	}
	return f
}

// HeldOut says whether a record belongs to the holdout of one in k. It depends
// on where the record lies alone, so everybody agrees on it at any time.
func HeldOut(partition int32, offset int64, k uint64) bool {
	if k == 0 {
		return false
	}
	return mix(uint64(offset)+uint64(partition)<<48)%k == 0
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
	// OpenHoldout opens Config.HoldoutTopic, to its present end, as Open does. Nil
	// where there is none.
	OpenHoldout func(ctx context.Context, s *blankout.Schema) (Source, error)
	// Progress may be nil.
	Progress func(batch.Progress)
}

// Subject is what is validated.
type Subject struct {
	Live      *blankout.Linear
	At        blankout.Offsets // its place in the stream
	Reservoir []byte           // as of ReadReservoir; may be nil
	Earlier   *blankout.Linear // the exact solution of the time before; may be nil
}

// Validate compares a live model with the exact solution, which it returns too.
func (v *Validator) Validate(ctx context.Context, s Subject) (*batch.Validation, *blankout.Linear, error) {
	pace := &throttle{ctx: ctx, share: v.Config.CPU, since: time.Now()}
	r, exact, _, err := v.validate(ctx, s, pace)
	if err != nil {
		return nil, nil, err
	}
	return r, exact.Linear, nil
}

func (v *Validator) validate(ctx context.Context, s Subject, pace *throttle) (*batch.Validation, *batch.Exact, *batch.Evidence, error) {
	c := v.problem(&s.Live.Head)
	c.Start, c.Progress, c.Pause = s.Earlier, v.Progress, pace.rest
	c.OwnHoldout = v.Config.Policy == "adopt" // that topic ends where it ends today
	begin := time.Now()
	got, err := v.gather(ctx, s, pace)
	if err != nil {
		return nil, nil, nil, err
	}
	reading := time.Since(begin)
	r, exact, err := got.evidence.Validate(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	r.Offsets, r.Source, r.Window, r.Read, r.Verified = s.At, got.source, got.window, got.read, got.verified
	for _, p := range s.At {
		r.Records += p.Records
	}
	r.Coverage = float64(r.Read) / float64(r.Records)
	r.Reading, r.Pause = reading.Seconds(), pace.waited.Seconds()
	return r, exact, got.evidence, nil
}

// gathered is the evidence of a validation and where it comes from.
type gathered struct {
	evidence *batch.Evidence
	source   string // log or reservoir
	window   bool   // records were left out on purpose
	read     uint64 // records
	verified bool   // they are those that were counted in
}

// gather reads the records that were learned, from the log or, if that holds
// less than half of those that it is to give, from the reservoir, and those of
// the holdout topic.
func (v *Validator) gather(ctx context.Context, s Subject, pace *throttle) (*gathered, error) {
	sample, err := newReservoir(math.MaxInt, s.Reservoir)
	if err != nil {
		return nil, err
	}
	schema := s.Live.Schema.Clone(-1, -1)
	got := &gathered{evidence: batch.NewEvidence(s.Live), source: "log"}
	wanted := uint64(0)
	if v.Open != nil {
		if wanted, err = v.read(ctx, s, schema, got, pace); err != nil {
			return nil, err
		}
	}
	if n := len(sample.events); n > 0 && (v.Open == nil || 2*got.read < wanted) {
		got = &gathered{evidence: batch.NewEvidence(s.Live), source: "reservoir", read: uint64(n)}
		for i := range sample.events {
			k := &sample.events[i]
			k.Fingerprint = 0
			if len(k.Field) == 0 {
				k.Field = nil
			}
			e := k.Example
			if !HeldOut(k.partition, e.Offset, v.Config.Holdout) {
				e.Weight *= float64(sample.met) / float64(n) // each stands for so many
			}
			if err := v.present(got.evidence, schema, k.partition, &e); err != nil {
				return nil, fmt.Errorf("the reservoir: %w", err)
			}
			if i%256 == 0 {
				pace.rest()
			}
		}
	} else if v.Open == nil {
		return nil, errors.New("these events cannot be read again, and no reservoir of them is kept")
	}
	if v.OpenHoldout != nil {
		if err := v.readHoldout(ctx, schema, got.evidence, pace); err != nil {
			return nil, err
		}
	}
	return got, ctx.Err()
}

// readHoldout presents the holdout topic's events, at most Window of them.
func (v *Validator) readHoldout(ctx context.Context, schema *blankout.Schema, evidence *batch.Evidence, pace *throttle) (err error) {
	source, err := v.OpenHoldout(ctx, schema)
	if err != nil {
		return readError{fmt.Errorf("reading the holdout topic: %w", err)}
	}
	if c, ok := source.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var b blankout.Batch
	for n := uint64(0); v.Config.Window == 0 || n < v.Config.Window; n += uint64(len(b.Examples)) {
		if err := source.Next(ctx, &b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return readError{fmt.Errorf("reading the holdout topic: %w", err)}
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			if e.Label == blankout.Unlabelled || !usable(e) || e.Weight == 0 || e.Label >= max(2, evidence.Outputs()) {
				continue
			}
			if err := evidence.Aside(e); err != nil {
				return fmt.Errorf("%s/%d offset %d: %w", b.Topic, b.Partition, e.Offset, err)
			}
		}
		pace.rest()
	}
	return nil
}

// problem returns the batch problem of what a model of the Learner minimises.
func (v *Validator) problem(h *blankout.Head) batch.ValidateConfig {
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Tol, c.Top, c.Prior = h.Loss, h.Noise, v.Config.Tol, v.Config.Top, "l2"
	c.Intercept = batch.Intercept(v.Learner.Intercept)
	if c.Cost = v.Learner.C; math.IsInf(c.Cost, 1) {
		c.Cost, c.L2 = 1, 0
	}
	return c
}

// read presents the records before the subject's place to the evidence. It
// returns how many it was to find.
func (v *Validator) read(ctx context.Context, s Subject, schema *blankout.Schema, got *gathered, pace *throttle) (wanted uint64, err error) {
	at, total := s.At, uint64(0)
	for _, p := range at {
		total += p.Records
	}
	got.window = v.Config.Window > 0 && total > v.Config.Window
	if wanted = total; got.window {
		wanted = v.Config.Window
	}
	counted := at.Clone()
	left := 0
	for i := range counted {
		p := &counted[i]
		if p.Next = p.First; got.window {
			// Each partition gives in proportion.
			last := float64(at[i].Records) / float64(total) * float64(v.Config.Window)
			p.Next = max(p.First, at[i].Next-int64(math.Ceil(last)))
		}
		p.First, p.Records, p.Sum = p.Next, 0, 0
		if p.Next < at[i].Next {
			left++
		}
	}
	source, err := v.Open(ctx, schema, counted.Clone())
	if err != nil {
		return 0, readError{fmt.Errorf("reading the events again: %w", err)}
	}
	if c, ok := source.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var times []int64 // of all records read, for a window of time
	newest := int64(math.MinInt64)
	var b blankout.Batch
	for left > 0 {
		if err := source.Next(ctx, &b); errors.Is(err, io.EOF) {
			break // the log is shorter than it was: the coverage says so
		} else if err != nil {
			return 0, readError{fmt.Errorf("reading the events again: %w", err)}
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
			if v.Config.WindowTime > 0 {
				times = append(times, e.Time)
				if e.Refused == nil { // else its time may be the broker's instead of the event's
					newest = max(newest, e.Time)
				}
			}
			if err := v.present(got.evidence, schema, b.Partition, e); err != nil {
				return 0, fmt.Errorf("%s/%d offset %d: %w", b.Topic, b.Partition, e.Offset, err)
			}
		}
		if counted[i].Next = b.Next; b.Next >= at[i].Next {
			left--
		}
		pace.rest()
	}
	got.verified = !got.window
	for i, p := range at {
		got.read += counted[i].Records
		got.verified = got.verified && p.Records == counted[i].Records && p.Sum == counted[i].Sum
	}
	if newest > math.MinInt64 {
		// By the events' own time, so that it does not matter when one looks.
		since := newest - v.Config.WindowTime.Milliseconds()
		got.evidence.Since(since)
		all := len(times)
		times = slices.DeleteFunc(times, func(t int64) bool { return t < since })
		if len(times) < all {
			missed := got.read < wanted
			got.window, got.verified, got.read = true, false, uint64(len(times))
			if !missed {
				wanted = got.read
			}
		}
	}
	return wanted, ctx.Err()
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
	sample      reservoir
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
		sample, err := newReservoir(l.Validator.Config.Reservoir, l.Reservoir)
		if err != nil {
			return err
		}
		l.sample = *sample
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
	if l.Validator == nil || l.Validator.Open == nil && l.sample.size == 0 || l.cancel != nil || l.base != nil {
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
	subject := Subject{l.freeze().Model(), l.Offsets.Clone(), l.sample.encode(), l.exact.Load()}
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
