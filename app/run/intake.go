package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
)

// This file processes records, for the loop of a Runner.

// intake is the part of a loop that processes records. For each batch it calls these methods in order:
//
//  1. admit stores the records that cannot be used.
//  2. learn counts all records, and learns events, or measures held-out events.
//
// A part of a batch counts as a batch.
type intake struct {
	*Runner
	log     *slog.Logger
	holdout uint64 // see validate.HeldOut
	turns   turns
	// retry calls try, which stores records in a store, until it succeeds or ctx ends. about is logged.
	retry func(ctx context.Context, in store, try func() error, about ...any) error

	round  *round              // for the other learners; nil for a single Learner
	kept   *validate.Reservoir // reservoir in checkpoints; may be nil
	sample *validate.Sample    // may be nil

	counts    Counts
	confusion [][]float64       // see Counts.Confusion
	stored    []float64         // prediction for the current event, stored until its label arrives
	latest    online.Prediction // result of example, valid until the next event

	// letters are further dead letters of the current batch: events that the Learner refused, and late labels.
	letters []event.Example

	broken error // set if a record is partly counted, so that the state must not be saved
	unsafe bool  // set if a dead letter could not be stored at the end, so that the state must not be saved
}

// Counts has the number of processed records by result.
type Counts struct {
	Learned, Unlabeled, Refused uint64
	HeldOut                     uint64          // number of events that were held out, not learned
	Holdout                     measure.Classes // measures of held-out events
	HoldoutNumbers              measure.Numbers // measures of held-out events for regression
	NotFinite                   uint64          // number of values that were NaN or infinite, and count as missing
	RefusedBy                   map[event.Reason]uint64
	DeadLetters                 map[event.Reason]uint64 // number of stored dead letters
	DeadLetterFailures          uint64                  // number of failed attempts to store a dead letter
	WaitingFailures             uint64                  // number of failed attempts to store waiting events
	LearnTime                   time.Duration           // time spent in the Learner
	// NewestTime is the largest event time learned. NewestAge is the age of the last batch's newest event when it had
	// been learned. Both are zero if events have no time.
	NewestTime time.Time
	NewestAge  time.Duration
	// Newest is the newest usable raw record. It is nil if records are not kept (record.Config.KeepValue), or if the
	// record is larger than maxNewest.
	Newest []byte
	// RefusedSamples and MislabeledSamples are a few of the newest refused records and mislabeled events.
	RefusedSamples, MislabeledSamples []Sample
	// Confusion counts the learned events by class and predicted class, if there may be more than two classes.
	Confusion [][]float64
}

// maxNewest is the largest size of Counts.Newest in bytes.
const maxNewest = 1 << 16

// DeadLetters stores records that cannot be used.
type DeadLetters interface {
	// Add stores a refused event. If Add returns an error, the event was not stored, and Add may be called again.
	Add(ctx context.Context, topic string, partition int32, e *event.Example) error
	// Flush returns nil once all added records are stored safely. If Flush returns an error, it may be called again.
	Flush(ctx context.Context) error
}

// store is a destination of records that people inspect.
type store struct {
	name     string  // name of the kind of records
	failures *uint64 // number of failed attempts
}

// unusable reports whether an event was refused because it is faulty.
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

// admit returns the number of events of a batch to learn. The events to learn are all events or, under PolicyFail, the
// events before a refused record that ends the run. admit stores refused records and waiting events before the first
// event is learned. So no checkpoint or commit includes a record that is not stored safely.
func (in *intake) admit(ctx context.Context, b *event.Batch) (n int, failed *RefusedError, err error) {
	n = len(b.Examples)
	if in.Config.Unnamed {
		if err := online.CheckNumbers(in.Learner.Config().Loss, b, n, in.Learner.Alarms(math.MaxUint64).Events); err != nil {
			return 0, nil, err
		}
	}
	switch in.Config.Refused {
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
		if err := in.retry(ctx, store{"events that wait for labels", &in.counts.WaitingFailures}, in.Labels.Flush); err != nil {
			return 0, nil, err
		}
	}
	if b.Schema != nil {
		in.Learner.SetSchema(b.Schema.AsOf(b.Examples[:n], in.Learner.Schema()))
	}
	return n, failed, nil
}

// storeRefused stores the refused events of list.
func (in *intake) storeRefused(ctx context.Context, b *event.Batch, list []event.Example) error {
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
	if err := in.retry(ctx, store{"dead letters", &in.counts.DeadLetterFailures}, try, "topic", b.Topic, "partition", b.Partition, "offset", list[first].Offset); err != nil {
		return err
	}
	for reason, count := range stored {
		in.count(&in.counts.DeadLetters, reason, count)
	}
	return nil
}

func (in *intake) count(to *map[event.Reason]uint64, reason event.Reason, n uint64) {
	if *to == nil {
		*to = map[event.Reason]uint64{}
	}
	(*to)[reason] += n
}

// learn counts and learns the first n events of a batch. n is the result of admit.
func (in *intake) learn(ctx context.Context, b *event.Batch, n int, p *event.Position) error {
	began := time.Now()
	err := in.examples(b, n, p)
	if in.round != nil { // start it before anything that may block
		err = errors.Join(err, in.round.end())
	}
	if err != nil {
		return err
	}
	if err := in.predicted(nil, nil); err != nil {
		return err
	}
	letters := in.letters
	in.letters = nil
	if err := in.storeRefused(ctx, b, letters); err != nil {
		in.unsafe = true // no checkpoint may include these records until they are stored safely
		return err
	}
	now := time.Now()
	in.counts.LearnTime += now.Sub(began)
	for i := n - 1; i >= 0; i-- {
		// Skip refused records: their time may be the broker's, not the event's.
		if e := &b.Examples[i]; e.Refused == nil {
			in.newest(e, now)
			break
		}
	}
	return nil
}

// newest records the newest usable event of a batch.
func (in *intake) newest(e *event.Example, now time.Time) {
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

// panicError reports a panic during learning.
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

// turns yields to other goroutines while a batch is learned. Without yields, requests may have to wait for 10 ms, until
// Go preempts learning. turns does not yield if there are no requests, because each yield wakes a thread, which would
// cost a twentieth of the processor time.
type turns struct {
	seen uint64 // latest number of requests
	left int    // number of remaining yields
}

// yieldEvery is the number of events between yields, which take a tenth of a millisecond. turnsAfter is the number of
// yields after the last request, because another request may be waiting.
const yieldEvery, turnsAfter = 64, 64

// due reports whether to yield after i events of a batch. asked is the number of requests for the model.
func (t *turns) due(i int, asked *atomic.Uint64) bool {
	if i%yieldEvery != 0 {
		return false
	}
	if n := asked.Load(); n != t.seen {
		t.seen, t.left = n, turnsAfter
	}
	t.left = max(t.left-1, -1)
	return t.left >= 0
}

func (in *intake) examples(b *event.Batch, n int, p *event.Position) (err error) {
	i := 0
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{b.Topic, b.Partition, b.Examples[i].Offset, cause, debug.Stack()}
			in.log.Error("learning panics", "err", err) // log now, because closing may fail or hang
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
		if in.turns.due(i+1, &in.asked) {
			runtime.Gosched()
		}
		if in.Labels == nil {
			p := in.example(b, i)
			if in.round != nil {
				in.round.add(e, p)
			}
			if err := in.predicted(e, p); err != nil {
				return err
			}
		} else if err := in.join(b, e); err != nil {
			in.broken = err
			return err
		}
	}
	return nil
}

// example processes an event that does not wait for a label. It returns the prediction, or nil if the event is refused.
func (in *intake) example(b *event.Batch, i int) *online.Prediction {
	e := &b.Examples[i]
	switch {
	case e.Refused != nil:
		in.refuse(b, e)
		return nil
	case validate.HeldOut(b.Partition, e.Offset, in.holdout):
		in.keep(b, e)
		return in.holdOut(e)
	case in.decline(b, e):
		return nil
	case e.Label == event.Unlabeled:
		in.counts.Unlabeled++
	default:
		in.counts.Learned++
		in.keep(b, e)
		in.remember(e)
	}
	in.latest = in.Learner.Learn(e, nil)
	p := &in.latest
	in.confuse(e, p)
	if s := p.Mislabeled; s != nil {
		why := fmt.Sprintf("labeled %s with score %.3g: counts as %.2g of an event", in.Learner.Schema().Classes[s.Class], s.Score, s.Influence)
		in.counts.MislabeledSamples = withSample(in.counts.MislabeledSamples, sample(b, e, why, e.Value))
	}
	return p
}

// predicted passes an event to Answer; a nil event ends a batch.
func (in *intake) predicted(e *event.Example, p *online.Prediction) error {
	if in.Answer == nil {
		return nil
	}
	return in.Answer(e, p)
}

// remember offers an event to the events that readers ask for.
func (in *intake) remember(e *event.Example) {
	if !in.unread {
		in.recent.offer(e)
	}
}

// keep offers an event to the samples that validation uses.
func (in *intake) keep(b *event.Batch, e *event.Example) {
	in.kept.Offer(b.Topic, b.Partition, e)
	in.sample.Offer(b.Topic, b.Partition, e)
}

// refuse counts a refused event. It logs the first unusable event of each reason.
func (in *intake) refuse(b *event.Batch, e *event.Example) {
	if unusable(e) && in.counts.RefusedBy[e.Refused.Reason] == 0 {
		in.log.Warn("a record is refused; more with the same reason are counted and not logged", "topic", b.Topic, "partition", b.Partition, "offset", e.Offset,
			"reason", e.Refused.Reason, "err", e.Refused.Error())
	}
	in.counts.Refused++
	in.count(&in.counts.RefusedBy, e.Refused.Reason, 1)
	value := e.Refused.Value
	if value == nil {
		value = e.Value
	}
	in.counts.RefusedSamples = withSample(in.counts.RefusedSamples, sample(b, e, e.Refused.Error(), value))
	in.Learner.Learn(e, nil) // Learn counts the event
}

// holdOut measures a held-out event, and returns its prediction.
func (in *intake) holdOut(e *event.Example) *online.Prediction {
	in.counts.HeldOut++
	p := in.Learner.Predict(e)
	if e.Label == event.Unlabeled || !e.Usable() {
		return &p
	}
	in.remember(e)
	switch {
	case in.Learner.Schema().Target == loss.Sign:
		p.Measure(e, &in.counts.Holdout)
	case !math.IsNaN(p.Value):
		in.counts.HoldoutNumbers.Add(p.Loss, e.Target, e.Weight, p.Value, p.Low, p.High, 1)
	}
	return &p
}

// copied returns a copy of the counts.
func (in *intake) copied() Counts {
	c := in.counts
	c.RefusedBy, c.DeadLetters = maps.Collect(maps.All(c.RefusedBy)), maps.Collect(maps.All(c.DeadLetters)) // never nil
	if len(in.confusion) <= 2 {
		return c // for two classes the Learner's measures have the confusion matrix
	}
	for _, row := range in.confusion {
		c.Confusion = append(c.Confusion, slices.Clone(row))
	}
	return c
}

// The part below handles events that the Learner refuses because its memory limit excludes their features or class.

// refusal returns an error under PolicyFail if the Learner will refuse the event, before the event is counted.
func (in *intake) refusal(b *event.Batch, e *event.Example) error {
	if in.Config.Refused != PolicyFail || in.Labels != nil || validate.HeldOut(b.Partition, e.Offset, in.holdout) {
		return nil
	}
	return refusedError(b, e, in.Learner.Refusal(e))
}

// refusedError returns the error for a refusal, or nil if r is nil.
func refusedError(b *event.Batch, e *event.Example, r *event.Refusal) error {
	if r == nil {
		return nil
	}
	refusal := *r
	refusal.Value = slices.Clone(e.Value)
	return &RefusedError{b.Topic, b.Partition, e.Offset, refusal}
}

// decline reports whether the Learner will refuse an event. If so, it counts the event as declined.
func (in *intake) decline(b *event.Batch, e *event.Example) bool {
	r := in.Learner.Refusal(e)
	if r == nil {
		return false
	}
	r.Value = e.Value
	refused := event.Example{Label: event.Unlabeled, Key: e.Key, Time: e.Time, Offset: e.Offset, Fingerprint: e.Fingerprint, Refused: r}
	in.refuse(b, &refused)
	if in.Config.Refused == PolicyDeadLetter && in.Labels == nil {
		in.letters = append(in.letters, refused)
	}
	return true
}

// The part below keeps some of the newest events. The server uses them to compute how predictions change if a field is
// missing.

const (
	// The ring keeps recentEvents of the newest labeled events. In a long stream it samples one event in recentEvery.
	// The ring skips events with more than recentFeatures features.
	recentEvents, recentEvery = 512, 8
	recentFeatures            = 2048
)

// recentRing holds the newest sampled events. The loop adds events, and other goroutines read copies.
type recentRing struct {
	mu      sync.Mutex
	events  []event.Example // the oldest event is at index first
	first   int
	offered uint64
}

// offer adds a copy of an event if the event is sampled.
func (r *recentRing) offer(e *event.Example) {
	if e.Label == event.Unlabeled || !e.Usable() {
		return
	}
	r.offered++
	if r.offered > recentEvents && r.offered%recentEvery != 0 || e.Features.Len() > recentFeatures {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < recentEvents {
		r.events = append(r.events, event.Example{})
		r.put(&r.events[len(r.events)-1], e)
		return
	}
	r.put(&r.events[r.first], e)
	r.first = (r.first + 1) % recentEvents
}

// clear discards all events, but keeps the number of offered events.
func (r *recentRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.first = nil, 0
}

func (r *recentRing) put(to, e *event.Example) {
	to.Features.Index = append(to.Features.Index[:0], e.Features.Index...)
	to.Features.Value = append(to.Features.Value[:0], e.Features.Value...)
	to.Field = append(to.Field[:0], e.Field...)
	if e.Field == nil {
		to.Field = nil
	}
	to.Missing = append(to.Missing[:0], e.Missing...)
	to.Label, to.Target, to.Weight, to.Time, to.Offset = e.Label, e.Target, e.Weight, e.Time, e.Offset
}

// Recent returns copies of some of the newest labeled events, the oldest first.
func (r *Runner) Recent() []event.Example {
	ring := &r.recent
	ring.mu.Lock()
	defer ring.mu.Unlock()
	out := make([]event.Example, len(ring.events))
	for i := range out {
		e := ring.events[(ring.first+i)%len(out)]
		e.Features = event.Vec{Index: slices.Clone(e.Features.Index), Value: slices.Clone(e.Features.Value)}
		e.Field, e.Missing = slices.Clone(e.Field), slices.Clone(e.Missing)
		out[i] = e
	}
	return out
}

// The part below keeps single records for the web page: samples of refused records and of mislabeled events, and the
// confusion matrix.

// Sample is one of the newest refused records or mislabeled events.
type Sample struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Why       string `json:"why"`
	Text      string `json:"text"` // start of the record, if records are kept
}

const (
	shownSamples = 20  // largest number of samples
	shownText    = 400 // largest length of Text in bytes
	// shownClasses is the largest number of classes of a confusion matrix.
	shownClasses = 50
)

// sample returns the Sample of an event, whose record begins with value.
func sample(b *event.Batch, e *event.Example, why string, value []byte) Sample {
	text := value[:min(len(value), shownText)]
	return Sample{b.Topic, b.Partition, e.Offset, why, string(bytes.ToValidUTF8(text, []byte("\uFFFD")))}
}

// withSample adds a Sample in front, and keeps the newest ones. It returns a new list, because a Status has the old
// list.
func withSample(list []Sample, s Sample) []Sample {
	return slices.Insert(slices.Clone(list[:min(len(list), shownSamples-1)]), 0, s)
}

// confuse counts an event by its class and by the class that was predicted before the event was learned.
func (in *intake) confuse(e *event.Example, p *online.Prediction) {
	classes := min(max(len(p.Scores), 2), shownClasses)
	if e.Label < 0 || e.Label >= classes || in.Learner.Schema().Target != loss.Sign || p.Refused {
		return
	}
	for len(in.confusion) < classes {
		in.confusion = append(in.confusion, nil)
	}
	for k, row := range in.confusion {
		if len(row) < classes {
			in.confusion[k] = append(row, make([]float64, classes-len(row))...)
		}
	}
	if predicted := p.Decision.Predict(p.Scores); predicted < classes {
		in.confusion[e.Label][predicted] += e.Weight
	}
}
