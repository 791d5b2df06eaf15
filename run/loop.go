package run

// This file holds the loop that learns and decides when its jobs begin.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"blankout"
	"blankout/online"
	"blankout/validate"
)

// loop is the state of one Run. It belongs to the goroutine that called it.
type loop struct {
	*Runner
	log       *slog.Logger
	current   Status
	highWater map[partition]int64
	before    uint64 // records counted in before Run began
	records   uint64 // since then

	reported   time.Time
	unreported bool
	warned     map[string]warned
	alarms     uint64         // of the drift detector, those logged
	confusion  [][]float64    // see Status
	first      online.Metrics // as Run began

	healthChanges uint64 // alarms about fields raised and ended, those logged
	healthRaised  uint64 // as Run began

	ahead    *ahead
	finished chan func() // what jobs come back with, to be called
	end      func()      // ends the run, as the caller of Run may

	told []float64          // scores of the event at hand that will wait for its label
	late []blankout.Example // labels of the part of a batch at hand, borrowed from it

	aside     aside
	saver     saver
	publisher publisher
	validator validator
	adopter   adopter
	exact     *blankout.Linear // the latest exact solution, nil if there is none yet
}

func newLoop(r *Runner) *loop {
	now := time.Now()
	l := &loop{
		Runner: r, log: r.Log, highWater: map[partition]int64{}, warned: map[string]warned{},
		current: Status{Started: now, RefusedBy: map[blankout.Reason]uint64{}, DeadLetters: map[blankout.Reason]uint64{}},
		first:   r.Learner.Metrics(), finished: make(chan func(), 3), // a place for every job
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.alarms = l.first.Drift.Alarms
	_, l.healthChanges = r.Learner.HealthChanges(math.MaxUint64)
	l.healthRaised = r.Learner.Health().Raised
	for _, p := range r.Offsets {
		l.before += p.Records
	}
	l.saver = saver{status: r.Saved, job: job{finished: l.finished}, log: l.log, config: &r.Config, save: r.Save, commit: r.Commit, keep: r.LabelKeep, fingerprint: r.Fingerprint, last: now, at: r.Config.SaveEvents}
	l.publisher = publisher{config: &r.Config}
	l.validator.job.finished, l.adopter.job.finished = l.finished, l.finished
	return l
}

// job is work beside learning, on a goroutine of its own, one piece at a time.
type job struct {
	finished chan<- func()
	cancel   context.CancelFunc // of the piece under way, nil if there is none
}

func (j *job) running() bool { return j.cancel != nil }

// begin has a goroutine work. The result is taken over on the loop's goroutine. There is
// a place for every job in its channel, so that none ever waits.
func begin[T any](j *job, work func(context.Context) T, take func(T)) {
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	go func() {
		result := work(ctx)
		j.finished <- func() {
			cancel()
			j.cancel = nil
			take(result)
		}
	}()
}

type partition struct {
	topic  string
	number int32
}

var errEnough = errors.New("enough events")

// reportInterval is how old a Status may be while something happens.
const reportInterval = 200 * time.Millisecond

// learn works through the batches until there are no more, or no more are
// wanted. A nil error means that, any other is a failure.
func (l *loop) learn(ctx context.Context) error {
	tick := time.NewTicker(reportInterval) // saves and reports are due without events too
	defer tick.Stop()
	err := l.adoptIfDue(ctx) // at the place where the run before was stopped
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case take := <-l.finished:
			take()
			continue
		case <-tick.C:
		case b := <-l.ahead.filled:
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(b.err, io.EOF):
				return nil
			case b.err != nil:
				return fmt.Errorf("reading events: %w", b.err)
			}
			err = l.batch(ctx, b.Batch)
			l.ahead.free <- b.Batch // never blocks: there are as many places as Batches
		}
		if err == nil {
			err = l.doWhatIsDue(ctx)
		}
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// attend waits for a condition, and does meanwhile what is due beside learning. It
// returns an error only when ctx ends.
func (l *loop) attend(ctx context.Context, until func() bool) error {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for !until() {
		if err := l.doWhatIsDue(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case take := <-l.finished:
			take()
		case <-tick.C:
			l.unreported = true // how far behind it is
		}
	}
	return nil
}

// doWhatIsDue publishes, saves, validates and reports where that is due. It returns an
// error only when ctx ends.
func (l *loop) doWhatIsDue(ctx context.Context) error {
	now := time.Now()
	if l.publisher.due(l.records, now) {
		l.publish()
	}
	if l.saver.due(l.records, now) {
		if err := l.retry(ctx, l.suspectStore(), func() error { return l.flushSuspects(ctx) }); err != nil {
			return err
		}
		l.beginSave()
	}
	l.validateIfDue()
	if l.unreported && now.Sub(l.reported) >= reportInterval {
		l.report("")
	}
	return nil
}

// batch counts a batch in: part by part where an adoption is due within it.
func (l *loop) batch(ctx context.Context, b *blankout.Batch) error {
	for rest := *b; ; {
		part := rest
		n := l.untilAdoption(len(rest.Examples))
		if most := l.Config.MaxEvents; most > 0 && uint64(n) > most-l.records {
			n = int(most - l.records)
		}
		if n < len(rest.Examples) {
			part.Examples, part.Next = rest.Examples[:n], rest.Examples[n-1].Offset+1
			rest.Examples, rest.Reset = rest.Examples[n:], false
		} else {
			rest.Examples = nil
		}
		if err := l.part(ctx, &part); err != nil {
			return err
		}
		if err := l.adoptIfDue(ctx); err != nil {
			return err
		}
		if most := l.Config.MaxEvents; most > 0 && l.records >= most {
			return errEnough
		}
		if len(rest.Examples) == 0 {
			l.current.Batches++
			return nil
		}
	}
}

// part counts in a batch or a part of one. Its refused records are safe before the first
// of its events is learned, so that a checkpoint never passes a dead letter that is not.
func (l *loop) part(ctx context.Context, b *blankout.Batch) error {
	n := len(b.Examples)
	if l.Unnamed {
		if err := l.Learner.CheckNumbers(b, n); err != nil {
			return err
		}
	}
	var failed *RefusedError
	if l.Config.Refused == PolicyFail {
		for i := range b.Examples[:n] {
			if e := &b.Examples[i]; unusable(e) {
				refusal := *e.Refused
				refusal.Value = slices.Clone(refusal.Value)
				failed, n = &RefusedError{b.Topic, b.Partition, e.Offset, refusal}, i
				break
			}
		}
	}
	if l.Config.Refused == PolicyDeadLetter {
		if err := l.storeRefused(ctx, b, n); err != nil {
			return err
		}
	}
	if l.Labels != nil {
		if err := l.retry(ctx, l.waiting(), l.Labels.Flush); err != nil {
			return err
		}
	}
	if b.Schema != nil {
		l.Learner.SetSchema(b.Schema)
	}
	before, known := l.Offsets.Lookup(b.Topic, b.Partition)
	start := b.Next
	if len(b.Examples) > 0 {
		start = b.Examples[0].Offset
	}
	position := l.Offsets.At(b.Topic, b.Partition, start)
	if known && b.Reset {
		l.log.Warn("the position in a partition was moved, by the policy for offsets out of range",
			"topic", b.Topic, "partition", b.Partition, "from", position.Next, "to", start)
		position.Next = start
		if position.TopicID != b.TopicID {
			position.First = start // what was before cannot be read again
		}
	}
	position.TopicID = cmp.Or(b.TopicID, position.TopicID)
	began := time.Now()
	if err := l.examples(b, n, position); err != nil {
		return err
	}
	if len(l.late) > 0 {
		if err := l.storeLate(ctx, b); err != nil {
			return err
		}
	}
	l.current.LearnTime += time.Since(began)
	l.records += uint64(n)
	l.reportDrift(b)
	l.reportHealth(b)
	now := time.Now()
	if n == len(b.Examples) {
		position.Next = max(position.Next, b.Next)
	}
	l.highWater[partition{b.Topic, b.Partition}] = b.HighWater
	l.unreported = true
	l.publisher.news = l.publisher.news || n > 0
	l.saver.moved = l.saver.moved || !known || *position != before
	for i := n - 1; i >= 0; i-- {
		// A refused record's time may be the broker's instead of the event's.
		if e := &b.Examples[i]; e.Refused == nil {
			if len(e.Value) <= maxNewest {
				l.current.Newest = slices.Clone(e.Value)
			}
			if e.Time > 0 {
				newest := time.UnixMilli(e.Time)
				l.current.NewestAge = now.Sub(newest)
				if newest.After(l.current.NewestTime) {
					l.current.NewestTime = newest
				}
			}
			break
		}
	}
	l.warn(false)
	if len(l.aside.suspects) > 0 {
		if err := l.retry(ctx, l.suspectStore(), func() error { return l.addSuspects(ctx, b) }); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	return nil
}

// reportDrift logs an alarm of the drift detector.
func (l *loop) reportDrift(b *blankout.Batch) {
	d := l.Learner.Drift()
	before := l.alarms
	if l.alarms = d.Alarms; d.Alarms == before {
		return
	}
	l.log.Warn("the stream drifts: events cost more than before", "alarms", d.Alarms, "event", d.Event,
		"log_loss_before", d.Before, "log_loss_after", d.After, "topic", b.Topic, "partition", b.Partition, "before_offset", b.Next,
		"on_drift", l.Learner.Fingerprint()["on_drift"])
}

// warned is what has been logged about one kind of Warning.
type warned struct {
	on bool   // it was among the latest Warnings
	at uint64 // records at which it was logged last
}

// warn logs the Warnings that are new. One that comes and goes is logged again
// only when twice as many records have been counted in.
func (l *loop) warn(final bool) {
	l.current.Warnings = l.Learner.Warnings(l.Fingerprint, final)
	for kind, w := range l.warned {
		w.on = slices.ContainsFunc(l.current.Warnings, func(x online.Warning) bool { return x.Kind == kind })
		l.warned[kind] = w
	}
	for _, x := range l.current.Warnings {
		w, before := l.warned[x.Kind]
		if !w.on && (!before || l.records >= 2*w.at) {
			w.at = l.records
			l.log.Warn(x.Text, "warning", x.Kind)
		}
		w.on = true
		l.warned[x.Kind] = w
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

// examples counts in the first n examples of a batch.
func (l *loop) examples(b *blankout.Batch, n int, p *blankout.Position) (err error) {
	i := 0
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{b.Topic, b.Partition, b.Examples[i].Offset, cause, debug.Stack()}
			l.log.Error("learning panics", "err", err) // at once: what closes after it may fail, or hang
		}
	}()
	for ; i < n; i++ {
		e := &b.Examples[i]
		if i+1 < n {
			l.Learner.Prefetch(&b.Examples[i+1])
		}
		l.current.NotFinite += uint64(e.NotFinite)
		if err := p.Advance(e.Offset, e.Fingerprint); err != nil {
			return fmt.Errorf("counting events in: %w", err)
		}
		switch {
		case l.Labels != nil:
			if err := l.join(b, e); err != nil {
				return err
			}
			continue
		case e.Refused != nil:
			l.current.Refused++
			l.current.RefusedBy[e.Refused.Reason]++
			l.current.RefusedSamples = withSample(l.current.RefusedSamples, refusedSample(b, e))
			l.confuse(e, l.Learner.Learn(e)) // which counts it
			continue
		case validate.HeldOut(b.Partition, e.Offset, l.validator.holdout):
			l.current.HeldOut++
			l.validator.sample.Offer(b.Topic, b.Partition, e)
			l.recent.offer(e)
			if e.Label != blankout.Unlabelled && online.Usable(e) {
				l.assess(e)
			}
			continue
		case e.Label == blankout.Unlabelled:
			l.current.Unlabelled++
		default:
			l.current.Learned++
			l.validator.sample.Offer(b.Topic, b.Partition, e)
			l.recent.offer(e)
		}
		l.confuse(e, l.Learner.Learn(e))
		if s, ok := l.Learner.Suspicion(); ok {
			l.current.SuspectSamples = withSample(l.current.SuspectSamples, suspectSample(b, e, l.Learner.Schema().Classes[s.Class], s))
			if l.Suspects != nil {
				l.aside.suspects = append(l.aside.suspects, suspect{i, s})
			}
		}
	}
	return nil
}

// freeze copies the state as it is now. Only what was written since the last
// copy is copied.
func (l *loop) freeze() *frozen {
	return &frozen{l.Learner.Snapshot(), l.Offsets.Clone(), l.before + l.records}
}

// frozen is the state at one instant, which jobs get.
type frozen struct {
	*online.Snapshot
	offsets blankout.Offsets
	records uint64 // counted in, those before Run included, and those of a round under way
}

// report publishes the Status.
func (l *loop) report(notReady string) {
	s := l.current
	s.NotReady = cmp.Or(notReady, l.saver.trouble, l.adopter.trouble)
	s.Save, s.Published = l.saver.status, l.publisher.count
	s.RefusedBy, s.DeadLetters = maps.Clone(s.RefusedBy), maps.Clone(s.DeadLetters)
	s.Confusion = l.confusionNow()
	s.Partitions = make([]PartitionStatus, len(l.Offsets))
	for i, p := range l.Offsets {
		high, ok := l.highWater[partition{p.Topic, p.Partition}]
		if !ok {
			high = -1
		}
		s.Partitions[i] = PartitionStatus{p, high}
	}
	if l.Labels != nil {
		counts := l.Labels.Counts()
		s.Labels, s.AtLearning = &counts, l.atLearning()
	}
	s.Metrics, s.Health = l.Learner.Metrics(), l.Learner.Health()
	s.FieldAlarms = s.Health.Raised - l.healthRaised
	s.Suspected, s.DriftAlarms = s.Metrics.Suspects-l.first.Suspects, s.Metrics.Drift.Alarms-l.first.Drift.Alarms
	l.reported, l.unreported = time.Now(), false
	l.status.Store(&s)
	if l.Observe != nil {
		l.Observe(&s)
	}
}
