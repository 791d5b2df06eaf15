package run

// This file makes passes over a finite set of events.

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/watch"
)

// Training makes passes over a finite set of events and says what came of it.
type Training struct {
	Learner *online.Learner
	Schema  *event.Schema // the one the Source's decoder adds to
	// Open opens the set at its beginning. It is called once if Memory holds all
	// of the events, else for every pass and once more to evaluate. Run closes
	// what it opened if that is an io.Closer.
	Open   func() (event.Source, error)
	Passes int
	// Unnamed is Config's, and Fingerprint Runner's.
	Unnamed     bool
	Fingerprint online.Fingerprint
	// Memory is for how many bytes of decoded events later passes and the
	// evaluation may be served without Open; 0 keeps none.
	Memory int64
	// Refused is PolicySkip or PolicyFail.
	Refused Policy
	// Threads is how many goroutines evaluate. The result does not depend on it.
	Threads int
	// Evaluate computes Trained.Objective and Error, which costs one more look at
	// every event: a third of the time of one pass.
	Evaluate bool
	// Observe sees how it goes, on the goroutine of Run. May be nil.
	Observe func(pass int, s *Status)
}

// Trained is what a Training came to.
type Trained struct {
	Progressive        measure.Classes // of the first pass: every event scored before it was learned
	Learned, Unlabeled uint64
	Refused            map[event.Reason]uint64
	Passes             int
	// Objective is that of the batch solvers at the published weights,
	// |w|^2 + kappa sum loss (sum loss without a ridge), summed over the
	// outputs; Error is the share of training events that the published weights
	// get wrong. NaN if not evaluated.
	Objective, Error float64
	// Where labels are numbers: the measures of the first pass, of every event before it was
	// learned, and of the published weights at the end, nil if not evaluated.
	ProgressiveNumbers *watch.Numbers
	Baselines          watch.Baselines // of the first pass
	Numbers            *measure.NumbersReport
	Noise              loss.Noise // published at the end
	Warnings           []watch.Warning
}

// Run trains. It returns the context's error if that ends first.
func (t *Training) Run(ctx context.Context) (*Trained, error) {
	result := &Trained{Refused: map[event.Reason]uint64{}, Objective: math.NaN(), Error: math.NaN()}
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
			m := t.Learner.Report()
			result.Progressive, result.ProgressiveNumbers, result.Baselines = m.Total, m.Numbers, m.Baselines
			result.Learned, result.Unlabeled, result.Refused = status.Learned, status.Unlabeled, status.RefusedBy
		}
		// The first pass has reported what is wrong with the records, and counted each once.
		first := slices.DeleteFunc(result.Warnings, func(w watch.Warning) bool { return !w.OfRecords() })
		for _, w := range status.Warnings {
			if pass == 0 || !w.OfRecords() {
				first = append(first, w)
			}
		}
		result.Warnings = first
		result.Passes++
		if result.Passes < t.Passes {
			t.Learner.EndPass()
		}
	}
	result.Noise = t.Learner.Report().Noise
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

// pass calls f with the events, from memory if they are all there.
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
	c.Unnamed, c.Fruitless = t.Unnamed, true // its report counts what was refused
	r := &Runner{Config: c, Source: s, State: State{Learner: t.Learner}, Schema: t.Schema, Fingerprint: t.Fingerprint, unread: true}
	if t.Observe != nil {
		r.Observe = func(s *Status) { t.Observe(pass, s) }
	}
	if err := r.Run(ctx); err != nil {
		return nil, err
	}
	return r.Status(), ctx.Err()
}

// tape keeps decoded batches in memory and is a Source of them. What an Example
// is not learned from (key, time, bytes of refused records) is left out.
type tape struct {
	from     event.Source // recorded from
	limit    int64        // bytes that may be kept
	bytes    int64
	batches  []event.Batch
	complete bool
	next     int
}

// recorder is a Source that keeps what passes through it.
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

// Next hands out the kept batches. Nobody writes to them, so they need no copy.
func (t *tape) Next(ctx context.Context, b *event.Batch) error {
	if t.next == len(t.batches) {
		return io.EOF
	}
	*b = t.batches[t.next]
	t.next++
	return ctx.Err()
}
