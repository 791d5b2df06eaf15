package run

// This file has the processing of records, for the loop of a Runner and for a member of a group.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/watch"
	"blankout/stream/labels"
)

// Intake processes the batches of a stream. For each batch, in this order:
//
//  1. Admit stores the records that cannot be used.
//  2. Learn counts all records, and learns events, or measures those that are held out.
//  3. HandOn passes mislabeled events to Mislabeled; Flush returns once they are safe.
//
// A part of a batch counts as a batch. An Intake belongs to one goroutine. Set its exported fields before the first
// batch; only Learner is required, and may be replaced between batches.
type Intake struct {
	Learner     *online.Learner
	Refused     Policy // "" means PolicySkip
	DeadLetters DeadLetters
	Mislabeled  Mislabeled
	Holdout     uint64       // see validate.HeldOut
	Labels      *labels.Join // see Runner.Labels
	Unnamed     bool         // see Config.Unnamed
	Log         *slog.Logger // nil for no log
	Turns       Turns
	Answer      func(e *event.Example, p *online.Prediction) error // see Runner.Answer

	retry  retry               // nil tries once
	round  *round              // of the other contenders; nil for a single Learner
	kept   *validate.Reservoir // of checkpoints; nil for none
	sample *validate.Sample    // nil for none
	recent *recentRing         // nil for none

	counts    Counts
	confusion [][]float64 // see Counts
	stored    []float64   // the prediction for the current event, which will wait for its label

	// Borrowed from the current batch: late labels, and mislabeled events that HandOn has not passed on yet.
	late       []event.Example
	declined   []event.Example // refused by the Learner, to be stored
	mislabeled []mislabeledEvent

	handedOn uint64 // number of mislabeled events passed on
	broken   error  // a record is partly counted, so the state must not be saved
	unsafe   bool   // a dead letter could not be stored at the end, so the state must not be saved either
}

// Progress counts the records of a partition: an event.Position, or a group's Span.
type Progress interface {
	Advance(offset int64, fingerprint uint64) error
}

// Counts has the numbers of records that an Intake has processed, by result.
type Counts struct {
	Learned, Unlabeled, Refused    uint64
	HeldOut                        uint64          // not learned
	Holdout                        measure.Classes // scores of held-out events
	HoldoutNumbers                 measure.Numbers // the same for regression
	NotFinite                      uint64          // values that were NaN or infinite, and count as missing
	RefusedBy                      map[event.Reason]uint64
	DeadLetters                    map[event.Reason]uint64 // those stored
	DeadLetterFailures             uint64                  // failed attempts to store
	Mislabeled, MislabeledFailures uint64                  // those stored, and failed attempts
	WaitingFailures                uint64                  // failed attempts to store what waits for labels
	LearnTime                      time.Duration           // time in the Learner
	// NewestTime is the largest event time learned. NewestAge is the age of the newest event of the last batch when it
	// had been learned. They are zero if events have no time.
	NewestTime time.Time
	NewestAge  time.Duration
	// Newest is the newest usable raw record. It is nil if records are not kept (record.Config.KeepValue), and for a
	// record larger than maxNewest.
	Newest []byte
	// RefusedSamples and MislabeledSamples are some of the newest refused records and mislabeled events.
	RefusedSamples, MislabeledSamples []Sample
	// Confusion counts the learned events by class and predicted class, if there can be more than two classes.
	Confusion [][]float64
}

// maxNewest is the largest size of Counts.Newest in bytes.
const maxNewest = 1 << 16

// DeadLetters stores the records that cannot be used.
type DeadLetters interface {
	// Add stores a refused event. After an error it was not stored, and Add may be called again.
	Add(ctx context.Context, topic string, partition int32, e *event.Example) error
	// Flush returns nil once everything added is safe. After an error it may be called again.
	Flush(ctx context.Context) error
}

// Mislabeled stores the events whose label is probably wrong, see online.Config.MislabeledBelow. They are learned like
// all others.
type Mislabeled interface {
	// AddMislabeled stores an event with the name of its class, the score of the class and the influence, see
	// watch.MislabeledEvent. After an error it was not stored, and AddMislabeled may be called again.
	AddMislabeled(ctx context.Context, topic string, partition int32, e *event.Example, label string, score, influence float64) error
	// Flush returns nil once everything added is safe. After an error it may be called again.
	Flush(ctx context.Context) error
}

// mislabeledEvent is a mislabeled event of the current batch.
type mislabeledEvent struct {
	index int
	watch.MislabeledEvent
}

// retry calls try, which stores records, until it succeeds or ctx ends. about is logged.
type retry func(ctx context.Context, in store, try func() error, about ...any) error

// store is a place where records are kept for people.
type store struct {
	name     string  // of the kind of records
	failures *uint64 // number of failed attempts
}

func (in *Intake) deadLetters() store {
	return store{"dead letters", &in.counts.DeadLetterFailures}
}

func (in *Intake) waiting() store {
	return store{"events that wait for labels", &in.counts.WaitingFailures}
}

func (in *Intake) mislabeledStore() store {
	return store{"mislabeled events", &in.counts.MislabeledFailures}
}

func (in *Intake) store(ctx context.Context, where store, try func() error, about ...any) error {
	if in.retry != nil {
		return in.retry(ctx, where, try, about...)
	}
	if err := try(); err != nil {
		return fmt.Errorf("%s cannot be stored: %w", where.name, err)
	}
	return nil
}

// unusable reports whether an event was refused because of a fault.
func unusable(e *event.Example) bool { return e.Refused != nil && e.Refused.Reason.Faulty() }

// firstUnusable returns the index of the first unusable event, or -1.
func firstUnusable(list []event.Example) int {
	for i := range list {
		if unusable(&list[i]) {
			return i
		}
	}
	return -1
}

// Admit returns the number of events of a batch to learn: all, or those before a refused one that ends the run under
// PolicyFail. It stores the refused ones, and what waits for labels, before the first event is learned: no checkpoint
// or commit passes a record that is not safe.
func (in *Intake) Admit(ctx context.Context, b *event.Batch) (n int, failed *RefusedError, err error) {
	n = len(b.Examples)
	if in.Unnamed {
		if err := online.CheckNumbers(in.Learner.Config().Loss, b, n, in.Learner.Alarms(math.MaxUint64).Events); err != nil {
			return 0, nil, err
		}
	}
	switch in.Refused {
	case PolicyFail:
		if i := firstUnusable(b.Examples); i >= 0 {
			refusal := *b.Examples[i].Refused
			refusal.Value = slices.Clone(refusal.Value)
			n, failed = i, &RefusedError{b.Topic, b.Partition, b.Examples[i].Offset, refusal}
		}
	case PolicyDeadLetter:
		if err := in.storeRefused(ctx, b, b.Examples); err != nil {
			return 0, nil, err
		}
	}
	if in.Labels != nil {
		if err := in.store(ctx, in.waiting(), in.Labels.Flush); err != nil {
			return 0, nil, err
		}
	}
	if b.Schema != nil {
		in.Learner.SetSchema(b.Schema)
	}
	return n, failed, nil
}

// storeRefused stores the refused events in list.
func (in *Intake) storeRefused(ctx context.Context, b *event.Batch, list []event.Example) error {
	first := firstUnusable(list)
	if first < 0 {
		return nil
	}
	added, stored := first, map[event.Reason]uint64{}
	try := func() error {
		if err := failpoint.Here("run.deadletters"); err != nil {
			return err
		}
		for ; added < len(list); added++ {
			e := &list[added]
			if !unusable(e) {
				continue
			}
			if err := in.DeadLetters.Add(ctx, b.Topic, b.Partition, e); err != nil {
				return err
			}
			stored[e.Refused.Reason]++
		}
		return in.DeadLetters.Flush(ctx)
	}
	if err := in.store(ctx, in.deadLetters(), try, "topic", b.Topic, "partition", b.Partition, "offset", list[first].Offset); err != nil {
		return err
	}
	for reason, count := range stored {
		in.count(&in.counts.DeadLetters, reason, count)
	}
	return nil
}

func (in *Intake) count(to *map[event.Reason]uint64, reason event.Reason, n uint64) {
	if *to == nil {
		*to = map[event.Reason]uint64{}
	}
	(*to)[reason] += n
}

// Learn counts and learns the first n events of a batch, where n is the result of Admit.
func (in *Intake) Learn(ctx context.Context, b *event.Batch, n int, p Progress) error {
	began := time.Now()
	err := in.examples(b, n, p)
	if in.round != nil { // before anything that waits and reports
		err = errors.Join(err, in.round.end())
	}
	if err != nil {
		return err
	}
	if err := in.answered(nil, nil); err != nil {
		return err
	}
	if err := in.storeLate(ctx, b); err != nil {
		return err
	}
	if err := in.storeDeclined(ctx, b); err != nil {
		return err
	}
	now := time.Now()
	in.counts.LearnTime += now.Sub(began)
	for i := n - 1; i >= 0; i-- {
		// The time of a refused record may be the broker's and not the event's.
		if e := &b.Examples[i]; e.Refused == nil {
			in.newest(e, now)
			break
		}
	}
	return nil
}

// newest records the newest usable event of a batch.
func (in *Intake) newest(e *event.Example, now time.Time) {
	c := &in.counts
	if len(e.Value) <= maxNewest {
		c.Newest = slices.Clone(e.Value)
	}
	if e.Time > 0 {
		newest := time.UnixMilli(e.Time)
		c.NewestAge = now.Sub(newest)
		if newest.After(c.NewestTime) {
			c.NewestTime = newest
		}
	}
}

// panicError is a panic while learning.
type panicError struct {
	topic     string
	partition int32
	offset    int64
	cause     any
	stack     []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("%s/%d offset %d: learning this record panics: %v; nothing is saved past the last checkpoint\n%s", e.topic, e.partition, e.offset, e.cause, e.stack)
}

// Turns yields to other goroutines while a batch is learned. Otherwise requests may have to wait until Go preempts
// learning after 10 ms. It does not yield while there are no requests, because each yield wakes a thread, which would
// cost a twentieth of the processor time.
type Turns struct {
	Asked *atomic.Uint64 // number of requests for the model; nil if there are no readers
	seen  uint64         // last value of Asked
	left  int            // number of remaining turns
}

// A turn is due after yieldEvery events, which take a tenth of a millisecond. There are turnsAfter turns after the last
// request, because the next one may be waiting.
const yieldEvery, turnsAfter = 64, 64

// due reports whether a turn is due after i events of a batch.
func (t *Turns) due(i int) bool {
	if t.Asked == nil || i%yieldEvery != 0 {
		return false
	}
	if n := t.Asked.Load(); n != t.seen {
		t.seen, t.left = n, turnsAfter
	}
	t.left = max(t.left-1, -1)
	return t.left >= 0
}

func (in *Intake) examples(b *event.Batch, n int, p Progress) (err error) {
	i := 0
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{b.Topic, b.Partition, b.Examples[i].Offset, cause, debug.Stack()}
			if in.Log != nil {
				in.Log.Error("learning panics", "err", err) // logged at once, because closing may fail or hang
			}
		}
	}()
	for ; i < n; i++ {
		e := &b.Examples[i]
		if i+1 < n {
			in.Learner.Prefetch(&b.Examples[i+1])
		}
		if err := in.refusal(b, e); err != nil {
			return err
		}
		if err := p.Advance(e.Offset, e.Fingerprint); err != nil {
			return fmt.Errorf("counting events in: %w", err)
		}
		in.counts.NotFinite += uint64(e.NotFinite)
		if in.Turns.due(i + 1) {
			runtime.Gosched()
		}
		if in.Labels == nil {
			p := in.example(b, i)
			if in.round != nil {
				in.round.take(e, p)
			}
			if err := in.answered(e, p); err != nil {
				return err
			}
		} else if err := in.join(b, e); err != nil {
			in.broken = err
			return err
		}
	}
	return nil
}

// example processes an event that has its label, if any, and returns its prediction, or nil if it is refused.
func (in *Intake) example(b *event.Batch, i int) *online.Prediction {
	e := &b.Examples[i]
	switch {
	case e.Refused != nil:
		in.refuse(b, e)
		return nil
	case validate.HeldOut(b.Partition, e.Offset, in.Holdout):
		in.keep(b, e)
		return in.holdOut(e)
	case in.decline(b, e):
		return nil
	case e.Label == event.Unlabeled:
		in.counts.Unlabeled++
	default:
		in.counts.Learned++
		in.keep(b, e)
		in.recent.offer(e)
	}
	p := in.Learner.Learn(e, nil)
	in.confuse(e, &p)
	if s := p.Mislabeled; s != nil {
		in.counts.MislabeledSamples = withSample(in.counts.MislabeledSamples, mislabeledSample(b, e, in.Learner.Schema().Classes[s.Class], *s))
		if in.Mislabeled != nil {
			in.mislabeled = append(in.mislabeled, mislabeledEvent{i, *s})
		}
	}
	return &p
}

// answered passes an event, or nil at the end of a batch, to Answer.
func (in *Intake) answered(e *event.Example, p *online.Prediction) error {
	if in.Answer == nil {
		return nil
	}
	return in.Answer(e, p)
}

// keep offers an event to the samples for validation.
func (in *Intake) keep(b *event.Batch, e *event.Example) {
	in.kept.Offer(b.Topic, b.Partition, e)
	in.sample.Offer(b.Topic, b.Partition, e)
}

// refuse counts a refused event.
func (in *Intake) refuse(b *event.Batch, e *event.Example) {
	in.counts.Refused++
	in.count(&in.counts.RefusedBy, e.Refused.Reason, 1)
	in.counts.RefusedSamples = withSample(in.counts.RefusedSamples, refusedSample(b, e))
	in.Learner.Learn(e, nil) // which counts it
}

// holdOut measures an event that is not learned, and returns its prediction.
func (in *Intake) holdOut(e *event.Example) *online.Prediction {
	in.counts.HeldOut++
	p := in.Learner.Predict(e)
	if e.Label == event.Unlabeled || !e.Usable() {
		return &p
	}
	in.recent.offer(e)
	switch {
	case in.Learner.Schema().Target == loss.Sign:
		p.Measure(e, &in.counts.Holdout)
	case !math.IsNaN(p.Value):
		in.counts.HoldoutNumbers.Add(p.Loss, e.Target, e.Weight, p.Value, p.Low, p.High, 1)
	}
	return &p
}

// HandOn passes the mislabeled events of a batch to Mislabeled. After an error it keeps them.
func (in *Intake) HandOn(ctx context.Context, b *event.Batch) error {
	if len(in.mislabeled) == 0 {
		return nil
	}
	classes := in.Learner.Schema().Classes
	return in.store(ctx, in.mislabeledStore(), func() error {
		for ; len(in.mislabeled) > 0; in.mislabeled = in.mislabeled[1:] {
			s := in.mislabeled[0]
			if err := in.Mislabeled.AddMislabeled(ctx, b.Topic, b.Partition, &b.Examples[s.index], classes[s.Class], s.Score, s.Influence); err != nil {
				return err
			}
			in.handedOn++
		}
		in.mislabeled = nil
		return nil
	})
}

// Flush returns nil once all mislabeled events so far are safe.
func (in *Intake) Flush(ctx context.Context) error {
	return in.store(ctx, in.mislabeledStore(), func() error { return in.tryFlush(ctx) })
}

func (in *Intake) tryFlush(ctx context.Context) error {
	if n := len(in.mislabeled); n > 0 {
		return fmt.Errorf("%d mislabeled events could not be stored", n)
	}
	if in.handedOn == in.counts.Mislabeled {
		return nil
	}
	if err := failpoint.Here("run.mislabeled"); err != nil {
		return err
	}
	if err := in.Mislabeled.Flush(ctx); err != nil {
		return err
	}
	in.counts.Mislabeled = in.handedOn
	return nil
}

// Counts returns a copy of the counts.
func (in *Intake) Counts() Counts {
	c := in.counts
	c.RefusedBy, c.DeadLetters = maps.Collect(maps.All(c.RefusedBy)), maps.Collect(maps.All(c.DeadLetters)) // not nil
	if len(in.confusion) <= 2 {
		return c // for two classes the Learner's measures have it
	}
	for _, row := range in.confusion {
		c.Confusion = append(c.Confusion, slices.Clone(row))
	}
	return c
}
