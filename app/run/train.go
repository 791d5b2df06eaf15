package run

// This file trains on a finite set of events in several passes.

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/health"
)

// Training makes passes over a finite set of events, and reports the result.
type Training struct {
	Learner *online.Learner
	Schema  *event.Schema // schema that the Source's decoder extends
	// Open opens the set at its start. Open is called once if Memory suffices for all events; otherwise it is called
	// for every pass and for the evaluation. If the result is an io.Closer, Run closes it.
	Open   func() (event.Source, error)
	Passes int
	// Unnamed means the same as Config.Unnamed, and Fingerprint the same as Runner.Fingerprint.
	Unnamed     bool
	Fingerprint online.Fingerprint
	// Memory is the number of bytes for decoded events that are kept for later passes and the evaluation; 0 keeps none.
	Memory int64
	// Refused is PolicySkip or PolicyFail.
	Refused Policy
	// Threads is the number of goroutines for the evaluation. The result does not depend on the number of goroutines.
	Threads int
	// Evaluate enables the computation of Trained.Objective and Error. The evaluation reads every event once more,
	// which takes a third of the time of a pass.
	Evaluate bool
	// Observe receives the status, on the goroutine of Run. It may be nil.
	Observe func(pass int, s *Status)
}

// Trained is the result of Training.Run.
type Trained struct {
	// Status is that of the first pass, in which every event is scored before it is learned.
	*Status
	// Objective is the objective of the batch solvers at the published weights, |w|^2 + kappa sum loss (sum loss
	// without a ridge), summed over outputs. Error is the fraction of training events that the published weights
	// predict wrongly. Both are NaN without an evaluation.
	Objective, Error float64
	// Numbers has the measures of the published weights at the end, for regression; it is nil without an evaluation.
	Numbers  *measure.NumbersReport
	Warnings []health.Warning
}

// Run trains. It returns the context's error if the context ends first.
func (t *Training) Run(ctx context.Context) (*Trained, error) {
	result := &Trained{Objective: math.NaN(), Error: math.NaN()}
	kept := &tape{limit: t.Memory}
	if t.Passes == 1 && !t.Evaluate {
		kept.limit = 0
	}
	for pass := range t.Passes {
		var status *Status
		err := t.pass(kept, pass == 0, func(s event.Source) (err error) {
			status, err = t.learn(ctx, s, pass)
			return err
		})
		if err != nil {
			return nil, err
		}
		if pass == 0 {
			result.Status = status
		}
		// Warnings about records are taken from the first pass, which has counted each record once.
		first := slices.DeleteFunc(result.Warnings, func(w health.Warning) bool { return !w.OfRecords() })
		for _, w := range status.Warnings {
			if pass == 0 || !w.OfRecords() {
				first = append(first, w)
			}
		}
		result.Warnings = first
		if pass+1 < t.Passes {
			t.Learner.EndPass()
		}
	}
	if t.Evaluate {
		err := t.pass(kept, false, func(s event.Source) (err error) {
			result.Objective, result.Error, result.Numbers, err = t.Learner.Evaluate(ctx, s, max(t.Threads, 1))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return result, nil
}

// pass calls f with a source of the events, which reads from memory if all events are kept.
func (t *Training) pass(kept *tape, record bool, f func(event.Source) error) error {
	if kept.complete {
		kept.next = 0
		return f(kept)
	}
	source, err := t.Open()
	if err != nil {
		return err
	}
	opened := source
	if record && kept.limit > 0 {
		kept.from, source = source, recorder{kept}
	}
	err = f(source)
	if c, ok := opened.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (t *Training) learn(ctx context.Context, s event.Source, pass int) (*Status, error) {
	c := DefaultConfig()
	c.Refused, c.SaveEvents, c.SaveInterval, c.PublishEvents, c.PublishInterval = t.Refused, 0, 0, 0, 0
	c.Unnamed, c.Fruitless = t.Unnamed, true // Trained reports the number of refused records
	r := &Runner{Config: c, Source: s, State: State{Learner: t.Learner}, Schema: t.Schema, Fingerprint: t.Fingerprint, unread: true}
	if t.Observe != nil {
		r.Observe = func(s *Status) { t.Observe(pass, s) }
	}
	if err := r.Run(ctx); err != nil {
		return nil, err
	}
	return r.Status(), ctx.Err()
}

// tape keeps decoded batches in memory, and is a Source of them. It omits the parts of an Example that are not learned
// (key, time, bytes of refused records).
type tape struct {
	from     event.Source // source to record
	limit    int64        // largest size in bytes
	bytes    int64
	batches  []event.Batch
	complete bool
	next     int
}

// recorder is a Source that returns the batches of another Source and keeps them.
type recorder struct{ *tape }

func (r recorder) Next(ctx context.Context, b *event.Batch) error {
	err := r.from.Next(ctx, b)
	if err == io.EOF {
		r.complete = r.bytes <= r.limit
	}
	if err != nil || r.bytes > r.limit {
		return err
	}
	if r.keep(b); r.bytes > r.limit {
		r.batches = nil
	}
	return nil
}

func (t *tape) keep(b *event.Batch) {
	entries, fields, missing := 0, 0, 0
	for i := range b.Examples {
		e := &b.Examples[i]
		entries += e.Features.Len()
		fields += len(e.Field)
		missing += len(e.Missing)
	}
	index, value := make([]uint32, 0, entries), make([]float64, 0, entries)
	field, absent := make([]uint16, 0, fields), make([]uint16, 0, missing)
	c := *b
	c.Examples = make([]event.Example, len(b.Examples))
	for i := range b.Examples {
		e := &b.Examples[i]
		index, value = append(index, e.Features.Index...), append(value, e.Features.Value...)
		field, absent = append(field, e.Field...), append(absent, e.Missing...)
		c.Examples[i] = event.Example{Label: e.Label, Target: e.Target, Weight: e.Weight, Offset: e.Offset, Fingerprint: e.Fingerprint, Time: e.Time}
		k := &c.Examples[i]
		k.Features = event.Vec{Index: index[len(index)-e.Features.Len():], Value: value[len(value)-e.Features.Len():]}
		if e.Field != nil {
			k.Field = field[len(field)-len(e.Field):]
		}
		k.Missing = absent[len(absent)-len(e.Missing):]
		if e.Refused != nil {
			k.Refused = &event.Refusal{Reason: e.Refused.Reason, Detail: e.Refused.Detail}
		}
	}
	t.batches = append(t.batches, c)
	t.bytes += int64(12*entries + 2*fields + 2*missing + 200*len(b.Examples))
}

// Next returns the kept batches without a copy of their examples, because these are never written.
func (t *tape) Next(ctx context.Context, b *event.Batch) error {
	if t.next == len(t.batches) {
		return io.EOF
	}
	*b = t.batches[t.next]
	b.Schema = t.batches[len(t.batches)-1].Schema // as from the source: a Schema never loses fields
	t.next++
	return ctx.Err()
}
