// Package validate computes the exact solution of a Learner's problem and reports the distance of the live model from
// this solution. It uses the events that the Learner has learned, read again or kept in a sample. It works on a frozen
// state and never changes the Learner.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
)

// Validator solves the exact problem of a Learner on the events that it has learned.
type Validator struct {
	Config  Config
	Learner online.Config // configuration of the Learner
	// Exact minimizes the exact expectation over all dropout masks (batch.ExactBound) instead of the bound that the
	// Learner uses.
	Exact bool
	// Open opens the Learner's stream again, starting each partition at its Position. Events are decoded with s, which
	// the caller owns. Validate closes the Source if it is an io.Closer.
	Open func(ctx context.Context, s *event.Schema, from event.Offsets) (event.Source, error)
	// OpenJoined is the counterpart of Open for delayed labels; Open is nil then. Each partition ends at its Position
	// in to.
	OpenJoined func(ctx context.Context, s *event.Schema, from, to event.Offsets) (Joined, error)
	// OpenHoldout opens Config.HoldoutTopic as Open does, up to its current end. OpenHoldout is nil if there is no such
	// topic.
	OpenHoldout func(ctx context.Context, s *event.Schema) (event.Source, error)
	// Reports are the reports of earlier runs, newest first. The schedule Auto continues from them.
	Reports []*batch.Validation
	// called during a solution; may be nil
	Progress func(batch.Progress)
}

// Joined yields events with their labels, and the records from which they were joined. The implementation is
// *labels.Joined. Validate closes it.
type Joined interface {
	Records(context.Context, *event.Batch) error
	Settled(f func(partition int32, e *event.Example) error) error
	io.Closer
}

// Request describes the state to validate.
type Request struct {
	Live      *model.Linear
	Level     *model.Linear            // noise level to compare with the exact solution, from online.Snapshot.Levels; nil means Live
	Foreign   func(column uint32) bool // columns of other levels, from online.Snapshot.Foreign; may be nil
	Unit      batch.Unit               // unit of the targets, from online.Snapshot.Unit of the same state
	ByAge     []measure.StaleLoss      // losses by staleness, from online.Snapshot.ByAge, for the report
	At        event.Offsets            // position of the model in the stream
	Labeled   uint64                   // number of events that are labeled at that position, for delayed labels
	Reservoir []byte                   // reservoir from ReadReservoir; may be nil
	Earlier   *model.Linear            // the previous exact solution; may be nil
	// Sample replaces the log and Reservoir. About Most of its events are used. The solver uses half of these events,
	// and the errors are measured on the other half. Sample may be nil.
	Sample *Sample
	Most   int
}

// RequestOf returns a request to validate a state at the given position in the stream.
func RequestOf(s *online.Snapshot, at event.Offsets) Request {
	levels, largest := s.Levels()
	return Request{Live: s.Model(), Level: levels[largest], Foreign: s.Foreign, Unit: s.Unit(), ByAge: s.ByAge(), At: at}
}

// Validate compares a live model with the exact solution. It also returns the exact solution.
func (v *Validator) Validate(ctx context.Context, s Request) (*batch.Validation, *model.Linear, error) {
	pace := &throttle{ctx: ctx, fraction: v.Config.CPU, since: time.Now()}
	c := v.Problem(s)
	c.Progress, c.Pause = v.Progress, pace.rest
	if s.Sample != nil {
		c.HalfSample, c.Deletions, c.Sample = true, nil, 1000
	}
	begin := time.Now()
	got, err := v.gather(ctx, s, pace)
	if err != nil {
		return nil, nil, err
	}
	reading := time.Since(begin)
	r, exact, err := got.evidence.Validate(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	r.ByAge = s.ByAge
	r.Offsets, r.Source, r.Window, r.Read, r.Verified = s.At, got.source, got.window, got.read, got.verified
	for _, p := range s.At {
		r.Records += p.Records
	}
	r.Coverage = float64(r.Read) / float64(r.Records)
	r.Reading, r.Pause = reading.Seconds(), pace.waited.Seconds()
	return r, exact.Linear, nil
}

// gathered is the evidence of a validation, and the way in which it was read.
type gathered struct {
	evidence *batch.Evidence
	source   string // log or reservoir
	window   bool   // whether the configuration skipped records
	read     uint64 // number of records read
	verified bool   // whether they are exactly the learned records
}

// gather reads the learned records and the records of the holdout topic. It reads the learned records from the log. If
// the log has fewer than half of them, it reads from the reservoir.
func (v *Validator) gather(ctx context.Context, s Request, pace *throttle) (*gathered, error) {
	schema := s.Live.Schema.Clone()
	if s.Sample != nil {
		return v.gatherSample(ctx, s, schema, pace)
	}
	sample, err := NewReservoir(math.MaxInt, s.Reservoir)
	if err != nil {
		return nil, err
	}
	got := &gathered{evidence: batch.NewEvidence(s.Live), source: "log"}
	wanted := uint64(0)
	if v.CanRead() {
		if wanted, err = v.read(ctx, s, schema, got, pace); err != nil {
			return nil, err
		}
	}
	if n := len(sample.events); n > 0 && (!v.CanRead() || 2*got.read < wanted) {
		got = &gathered{evidence: batch.NewEvidence(s.Live), source: "reservoir", read: uint64(n)}
		for i := range sample.events {
			k := &sample.events[i]
			e := k.Example
			if !HeldOut(k.partition, e.Offset, v.Config.Holdout) {
				e.Weight *= float64(sample.met) / float64(n) // each kept event represents this many events
			}
			if err := v.present(got.evidence, schema, HeldOut(k.partition, e.Offset, v.Config.Holdout), &e); err != nil {
				return nil, fmt.Errorf("the reservoir: %w", err)
			}
			if i%256 == 0 {
				pace.rest()
			}
		}
	} else if !v.CanRead() {
		return nil, errors.New("these events cannot be read again, and no reservoir of them is kept")
	}
	if v.OpenHoldout != nil {
		if err := v.readHoldout(ctx, schema, got.evidence, pace); err != nil {
			return nil, err
		}
	}
	return got, ctx.Err()
}

// gatherSample reads the events from the sample. It scales their weights so that the sum is the number of learned
// events. Held-out events are in the half on which errors are measured.
func (v *Validator) gatherSample(ctx context.Context, s Request, schema *event.Schema, pace *throttle) (*gathered, error) {
	got := &gathered{evidence: batch.NewEvidence(s.Live), source: fromSample}
	events := s.Sample.draw(s.Most)
	got.read = uint64(len(events))
	var e event.Example
	aside := make([]bool, len(events))
	counts := map[bool]float64{}
	for i, packed := range events {
		partition, offset := packedPlace(packed)
		aside[i] = packedHash(packed)&1 == 1 || HeldOut(partition, offset, v.Config.Holdout)
		counts[aside[i]]++
	}
	for i, packed := range events {
		if i%256 == 0 {
			pace.rest()
		}
		unpack(packed, &e)
		e.Weight *= v.importance(schema, &e) * float64(s.Live.Events) / counts[aside[i]]
		var err error
		if aside[i] {
			err = got.evidence.HeldOut(&e)
		} else {
			err = got.evidence.Learned(&e, e.Weight)
		}
		if err != nil {
			return nil, fmt.Errorf("the sample: offset %d: %w", e.Offset, err)
		}
	}
	return got, ctx.Err()
}

// CanRead reports whether events can be read again.
func (v *Validator) CanRead() bool { return v.Open != nil || v.OpenJoined != nil }

// readHoldout adds the events of the holdout topic to the evidence, at most Config.Window of them.
func (v *Validator) readHoldout(ctx context.Context, schema *event.Schema, evidence *batch.Evidence, pace *throttle) (err error) {
	source, err := v.OpenHoldout(ctx, schema)
	if err != nil {
		return fmt.Errorf("reading the holdout topic: %w", err)
	}
	if c, ok := source.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var b event.Batch
	for n := uint64(0); v.Config.Window == 0 || n < v.Config.Window; n += uint64(len(b.Examples)) {
		if err := source.Next(ctx, &b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the holdout topic: %w", err)
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			if e.Label == event.Unlabeled || !e.Usable() || e.Weight == 0 || e.Label >= max(2, evidence.Outputs()) {
				continue
			}
			if err := evidence.HeldOut(e); err != nil {
				return fmt.Errorf("%s/%d offset %d: %w", b.Topic, b.Partition, e.Offset, err)
			}
		}
		pace.rest()
	}
	return nil
}

// Problem returns the settings of the exact problem for the model of a request.
func (v *Validator) Problem(s Request) batch.ValidateConfig {
	h, c := &s.Live.Head, batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Tol, c.Top, c.Prior = h.Loss, h.Noise, v.Config.Tol, reported, "l2"
	if c.Intercept = batch.Intercept(v.Learner.Intercept); v.Exact {
		c.Bound = batch.ExactBound
	}
	if c.Cost = v.Learner.C; math.IsInf(c.Cost, 1) {
		c.Cost, c.L2 = 1, 0
	}
	c.Level, c.Foreign, c.Start, c.Unit = s.Level, s.Foreign, s.Earlier, s.Unit
	return c
}

// read adds the records before the position of the request to the evidence. It returns the number of records that
// should exist.
func (v *Validator) read(ctx context.Context, s Request, schema *event.Schema, got *gathered, pace *throttle) (wanted uint64, err error) {
	at, total := s.At, uint64(0)
	for _, p := range at {
		total += p.Records
	}
	got.window = v.Config.Window > 0 && total > v.Config.Window
	skip := uint64(0) // with delayed labels all events are read, so that every label finds its event
	if v.OpenJoined != nil {
		if got.window = v.Config.Window > 0 && s.Labeled > v.Config.Window; got.window {
			skip = s.Labeled - v.Config.Window
		}
	}
	whole := !got.window || v.OpenJoined != nil
	if wanted = total; !whole {
		wanted = v.Config.Window
	}
	counted := at.Clone()
	left := 0
	for i := range counted {
		p := &counted[i]
		if p.Next = p.First; !whole {
			// Each partition contributes in proportion to its records.
			last := float64(at[i].Records) / float64(total) * float64(v.Config.Window)
			p.Next = max(p.First, at[i].Next-int64(math.Ceil(last)))
		}
		p.First, p.Records, p.Sum = p.Next, 0, 0
		if p.Next < at[i].Next {
			left++
		}
	}
	next, closer, settled, err := v.open(ctx, schema, counted.Clone(), at)
	if err != nil {
		return 0, fmt.Errorf("reading the events again: %w", err)
	}
	if closer != nil {
		defer func() { err = errors.Join(err, closer.Close()) }()
	}
	take := func(partition int32, e *event.Example) error {
		if skip > 0 && e.Label != event.Unlabeled {
			skip--
			return nil
		}
		return v.present(got.evidence, schema, HeldOut(partition, e.Offset, v.Config.Holdout), e)
	}
	var b event.Batch
	for left > 0 || settled != nil {
		err := next(ctx, &b)
		if settled != nil && (err == nil || errors.Is(err, io.EOF)) {
			if err := settled(take); err != nil {
				return 0, err
			}
		}
		if errors.Is(err, io.EOF) {
			break // the log has become shorter; Coverage reports it
		} else if err != nil {
			return 0, fmt.Errorf("reading the events again: %w", err)
		}
		i := slices.IndexFunc(counted, func(p event.Position) bool { return p.Topic == b.Topic && p.Partition == b.Partition })
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
			if settled != nil {
				continue
			}
			if err := v.present(got.evidence, schema, HeldOut(b.Partition, e.Offset, v.Config.Holdout), e); err != nil {
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
	return wanted, ctx.Err()
}

// open opens the records to read again. The result settled is nil if labels arrive with their events.
func (v *Validator) open(ctx context.Context, s *event.Schema, from, to event.Offsets) (next func(context.Context, *event.Batch) error,
	closer io.Closer, settled func(func(int32, *event.Example) error) error, err error) {
	if v.OpenJoined != nil {
		joined, err := v.OpenJoined(ctx, s, from, to)
		if err != nil {
			return nil, nil, nil, err
		}
		return joined.Records, joined, joined.Settled, nil
	}
	source, err := v.Open(ctx, s, from)
	if err != nil {
		return nil, nil, nil, err
	}
	closer, _ = source.(io.Closer)
	return source.Next, closer, nil, nil
}

func (v *Validator) present(evidence *batch.Evidence, s *event.Schema, held bool, e *event.Example) error {
	if !e.Usable() || e.Weight == 0 || e.Label == event.Unlabeled {
		return nil
	}
	if held {
		return evidence.HeldOut(e)
	}
	return evidence.Learned(e, e.Weight*v.importance(s, e))
}

// importance returns the weight of the class of event e.
func (v *Validator) importance(s *event.Schema, e *event.Example) float64 {
	if len(v.Learner.ClassWeight) > 0 { // class weights exist for classification only
		return v.Learner.WeightOf(s.Classes[e.Label])
	}
	return 1
}

// throttle limits a goroutine to a fraction of a processor's time.
type throttle struct {
	ctx      context.Context
	fraction float64
	since    time.Time // start of the current work
	waited   time.Duration
}

// rest waits in proportion to the time worked since the last wait, so that the fraction is not exceeded.
func (t *throttle) rest() {
	const least = 2 * time.Millisecond // shorter waits are inaccurate
	busy := time.Since(t.since)
	if t.fraction >= 1 || busy < least || t.ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(time.Duration(float64(busy) * (1/t.fraction - 1)))
	defer timer.Stop()
	begin := time.Now()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
	t.since = time.Now()
	t.waited += t.since.Sub(begin)
}
