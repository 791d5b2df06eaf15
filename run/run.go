package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/internal/failpoint"
	"blankout/online"
	"blankout/validate"
)

// DeadLetters takes the records that cannot be used.
type DeadLetters interface {
	// Add takes up a refused example. After an error it was not taken, and Add
	// may be called again with it.
	Add(ctx context.Context, topic string, partition int32, e *blankout.Example) error
	// Flush returns nil once everything added is safe. After an error it may be
	// called again.
	Flush(ctx context.Context) error
}

// Suspects takes the events whose label is probably wrong, see Config.Suspect.
// They are learned like all others.
type Suspects interface {
	// Add takes up an example; the label is the name of its class. After an error
	// it was not taken, and Add may be called again with it.
	Add(ctx context.Context, topic string, partition int32, e *blankout.Example, label string, s online.Suspicion) error
	// Flush returns nil once everything added is safe. After an error it may be
	// called again.
	Flush(ctx context.Context) error
}

// Runner learns from a Source until it ends or is told to stop, and keeps the
// Learner's state and its place in the stream together in checkpoints.
//
// Two goroutines do it: one reads and decodes ahead, the caller of Run learns. A
// third encodes and writes a checkpoint while learning goes on, a fourth
// validates; they work on copies. All are Run's and end before it returns.
//
// The state after a number of events depends on those events alone: neither
// saves, nor publishing, nor where a batch ends changes a weight. A run that is
// killed and started again from its last checkpoint therefore ends in the same
// state, to the bit, as one that never was (one partition; with several the
// order in which they interleave is chance, and every record still counts once).
type Runner struct {
	Config  Config
	Source  blankout.Source
	Learner *online.Learner
	Schema  *blankout.Schema // the one the Source's decoder adds to
	// Offsets says where in the stream the Learner's state belongs. Run keeps it
	// current; nobody else may use it meanwhile.
	Offsets blankout.Offsets
	// Fingerprint holds what gives the weights their meaning beside the Learner's
	// own settings: how records become events. It goes into every checkpoint, and
	// Resume compares it.
	Fingerprint online.Fingerprint

	// Save writes a checkpoint for good and returns its name and size. Nil saves
	// nothing. It is called from a goroutine of Run's, never twice at a time.
	// After an error learning goes on and a later save is tried, unless the error is
	// a FinalError: it ends the run, and nothing more is saved.
	Save func(blocks iter.Seq[blankout.Block]) (name string, size int64, err error)
	// Commit tells the broker what has been saved, for its lag displays. An error
	// is logged and nothing more. May be nil.
	Commit func(context.Context, blankout.Offsets) error
	// Unnamed says that nobody has named the classes. Labels that are numbers may
	// then be meant as such: see NumbersError.
	Unnamed bool
	// DeadLetters is needed under the policy dead-letter.
	DeadLetters DeadLetters
	// Suspects keeps the suspects, and a checkpoint passes none that is not safe
	// there. May be nil: they are then only counted.
	Suspects Suspects
	// Observe sees every new Status, on the goroutine of Run. May be nil.
	Observe func(*Status)
	// Validator compares the live weights with the exact solution beside learning,
	// and says which records are held out. May be nil; without its Open there is
	// only a holdout.
	Validator *validate.Validator
	// Decided is the number of records at which an exact solution was last adopted,
	// or found to be none that can be: see ReadDecided. Run keeps it current.
	Decided uint64
	// Reservoir is what ReadReservoir returned of the checkpoint that the run goes
	// on from.
	Reservoir []byte
	// Report takes a finished validation, on a goroutine of Run's. May be nil.
	Report func(*batch.Validation) error
	Log    *slog.Logger // nil logs nothing
	// FirstVersion is that of the first Model published. Who sees to it that it
	// lies above all those of earlier runs has versions that never go back.
	FirstVersion uint64

	status     atomic.Pointer[Status]
	published  atomic.Pointer[Published]
	exact      atomic.Pointer[blankout.Linear]
	validation atomic.Bool // one is asked for
}

// Published is a Model handed to readers and where it belongs. It is immutable.
type Published struct {
	*blankout.Linear
	Version uint64           // larger means published later
	Offsets blankout.Offsets // how far the stream had been learned
	At      time.Time
}

// Config says when Run saves, publishes and stops.
type Config struct {
	// Refused is what happens to a record that cannot be used.
	Refused Policy
	// SaveEvents and SaveInterval say after how many records and how long a
	// checkpoint is due; 0 switches either off. The last one, when the run ends
	// or is stopped, comes in any case.
	SaveEvents   uint64
	SaveInterval time.Duration
	// PublishEvents and PublishInterval say after how many records and how long
	// readers get a new Model, 0 switches either off. Copying never takes more
	// than a twentieth of the time: a large model is published less often.
	PublishEvents   uint64
	PublishInterval time.Duration
	// MaxEvents ends the run after that many records, 0 for no end.
	MaxEvents uint64
	// ShutdownTimeout is how long stopping may take: finishing the batch, the
	// last save, the commit.
	ShutdownTimeout time.Duration
}

// DefaultConfig returns the values of an empty configuration.
func DefaultConfig() Config {
	return Config{
		Refused:         PolicyDeadLetter,
		SaveEvents:      1_000_000,
		SaveInterval:    30 * time.Second,
		PublishInterval: time.Second,
		ShutdownTimeout: 10 * time.Second,
	}
}

// Policy says what happens to a record that cannot be used.
type Policy string

// The policies for refused records. They are counted under each.
const (
	PolicyDeadLetter Policy = "dead-letter" // to the dead letters, and on
	PolicySkip       Policy = "skip"        // on
	PolicyFail       Policy = "fail"        // save what came before it, and end with an error
)

// Check reports the first value that makes no sense, with its name in front.
func (c Config) Check() error {
	switch {
	case c.Refused != PolicyDeadLetter && c.Refused != PolicySkip && c.Refused != PolicyFail:
		return fmt.Errorf("refused: %q, want %s, %s or %s", c.Refused, PolicyDeadLetter, PolicySkip, PolicyFail)
	case c.SaveInterval < 0:
		return fmt.Errorf("save_interval: %v is negative", c.SaveInterval)
	case c.PublishInterval < 0:
		return fmt.Errorf("publish_interval: %v is negative", c.PublishInterval)
	case c.ShutdownTimeout <= 0:
		return fmt.Errorf("shutdown_timeout: %v, want a positive time", c.ShutdownTimeout)
	}
	return nil
}

// RefusedError ends a run under PolicyFail. The run can be continued from its
// checkpoint once the policy is another one or the record is dealt with.
type RefusedError struct {
	Topic     string
	Partition int32
	Offset    int64
	Refusal   blankout.Refusal
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s/%d offset %d: record refused (%s): %s", e.Topic, e.Partition, e.Offset, e.Refusal.Reason, e.Refusal.Detail)
}

// FinalError is an error of Runner.Save after which no later save may be tried.
type FinalError struct{ Err error }

func (e FinalError) Error() string { return e.Err.Error() }
func (e FinalError) Unwrap() error { return e.Err }

// Status is what Run publishes about itself after a batch. It is immutable.
type Status struct {
	// NotReady says why the run is not consuming, "" if it is.
	NotReady string
	Started  time.Time
	// Counts of records since Run began.
	Learned, Unlabelled, Refused uint64
	HeldOut                      uint64          // and not learned
	Holdout                      online.Progress // their scores as they came
	Batches                      uint64
	RefusedBy                    map[blankout.Reason]uint64
	DeadLetters                  map[blankout.Reason]uint64 // those stored
	DeadLetterFailures           uint64                     // attempts to store that failed
	Suspects, SuspectFailures    uint64                     // those stored, and attempts to that failed
	Suspected, DriftAlarms       uint64                     // counted and raised; Metrics has those before Run began too
	Partitions                   []PartitionStatus          // ordered by topic and partition
	// NewestTime is the largest event time learned, NewestAge how old the newest
	// event of the last batch was when it had been learned. Zero if events have no time.
	NewestTime time.Time
	NewestAge  time.Duration
	LearnTime  time.Duration // spent in the Learner
	Save       SaveStatus
	Published  uint64         // Models handed to readers
	Metrics    online.Metrics // the Learner's
	Warnings   []online.Warning
	Validation ValidationStatus
}

// PartitionStatus is how far one partition has been learned.
type PartitionStatus struct {
	blankout.Position
	HighWater int64 // -1 if unknown
}

// Lag returns how many offsets the learner is behind, -1 if that is unknown.
func (p PartitionStatus) Lag() int64 {
	if p.HighWater < 0 {
		return -1
	}
	return max(p.HighWater-p.Next, 0)
}

// SaveStatus is about checkpoints.
type SaveStatus struct {
	Saved, Failed uint64
	Name          string // of the last one saved
	Bytes         int64
	At            time.Time     // when it was saved
	Took, TookSum time.Duration // encoding and writing, beside learning
	// Pause is for how long learning stood still for the copy.
	Pause, PauseSum, PauseMax time.Duration
	CommitFailures            uint64
}

// Status returns the latest Status. It may be called by anyone at any time.
func (r *Runner) Status() *Status {
	if s := r.status.Load(); s != nil {
		return s
	}
	return &Status{NotReady: "not started"}
}

// Published returns the latest published Model, nil if there is none yet. It may
// be called by anyone at any time.
func (r *Runner) Published() *Published { return r.published.Load() }

// Model returns the Model of Published.
func (r *Runner) Model() *blankout.Linear {
	if p := r.published.Load(); p != nil {
		return p.Linear
	}
	return nil
}

// Run learns until the Source ends, MaxEvents have come, ctx ends, or something
// fails. When it ends in the first three ways it saves and returns nil, within
// ShutdownTimeout. When the Source fails, or a record under PolicyFail, it saves
// what it has learned and returns the error. When learning itself panics the
// state is not saved, for it may be broken, and the error names the record.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Config.Check(); err != nil {
		return err
	}
	if r.Config.Refused == PolicyDeadLetter && r.DeadLetters == nil {
		return errors.New("the policy for refused records is dead-letter, but there is no place for dead letters")
	}
	l := &loop{
		Runner: r, log: r.Log, saved: make(chan saveResult, 1), highWater: map[partition]int64{}, warned: map[string]warned{},
		current: Status{Started: time.Now(), RefusedBy: map[blankout.Reason]uint64{}, DeadLetters: map[blankout.Reason]uint64{}},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.lastSave, l.saveAt = l.current.Started, r.Config.SaveEvents
	l.alarms = r.Learner.Drift().Alarms
	l.alarmsBefore, l.suspectsBefore = l.alarms, r.Learner.Metrics().Suspects
	if err := l.startValidating(); err != nil {
		return err
	}
	if err := l.startAdopting(); err != nil {
		return err
	}
	l.warn(false)
	l.publish()
	l.report("")

	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	l.Learner.SetSchema(l.Learner.Schema().View()) // from now on the decoder works ahead
	l.startReading(ctx)
	err := l.learn(ctx)
	l.ahead.stop()
	l.endValidation(ctx, err)

	deadline, cancel := context.WithTimeout(context.Background(), r.Config.ShutdownTimeout)
	defer cancel()
	l.report("stopping")
	if broken := (*panicError)(nil); !errors.As(err, &broken) {
		err = errors.Join(err, l.endAdoption(deadline), l.saveAtEnd(deadline))
		l.warn(true)
		l.publish()
		l.report("stopped")
	}
	select {
	case <-l.ahead.done:
	case <-deadline.Done():
		l.log.Warn("the source does not stop; its reader is left behind", "after", r.Config.ShutdownTimeout)
	}
	return err
}

// ahead is the reading side: three Batches go round, one being decoded, one
// waiting, one being learned.
type ahead struct {
	filled chan filledBatch
	free   chan *blankout.Batch
	stop   context.CancelFunc
	done   chan struct{}
}

type filledBatch struct {
	*blankout.Batch
	err error
}

func readAhead(ctx context.Context, source blankout.Source) *ahead {
	const batches = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{filled: make(chan filledBatch, batches), free: make(chan *blankout.Batch, batches), stop: stop, done: make(chan struct{})}
	for range batches {
		a.free <- &blankout.Batch{}
	}
	go func() {
		defer close(a.done)
		for {
			var b *blankout.Batch
			select {
			case b = <-a.free:
			case <-ctx.Done():
				return
			}
			err := next(ctx, source, b)
			a.filled <- filledBatch{b, err} // never blocks: there are as many places as Batches
			if err != nil {
				return
			}
		}
	}()
	return a
}

// next turns a panic of a decoder into an error: it would otherwise take the
// process down from a goroutine on which nothing can be saved.
func next(ctx context.Context, source blankout.Source, b *blankout.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s/%d after offset %d: panic: %v\n%s", b.Topic, b.Partition, b.Next, p, debug.Stack())
		}
	}()
	return source.Next(ctx, b)
}

// loop is the state of one Run. It belongs to the goroutine that called it.
type loop struct {
	*Runner
	log       *slog.Logger
	current   Status
	highWater map[partition]int64
	records   uint64 // since Run began

	reported    time.Time
	unreported  bool
	publishAt   uint64 // records at which the next Model is due
	published   time.Time
	publishCost time.Duration

	unpublished bool
	moved       bool   // there is something to save
	saveAt      uint64 // records at which the next checkpoint is due
	lastSave    time.Time
	saving      bool
	saved       chan saveResult
	saveTrouble string // the last save's failure, "" if it went well
	final       error  // a FinalError of a save: nothing more is saved
	end         func() // ends the run, as the caller of Run may

	alarms uint64 // of the drift detector, those logged
	warned map[string]warned

	alarmsBefore, suspectsBefore uint64    // as Run began
	suspects                     []suspect // of the batch at hand, not yet handed on
	added                        uint64    // suspects handed on

	ahead *ahead
	validating
	adopting
}

// startReading begins to read ahead, stopReading ends it.
func (l *loop) startReading(ctx context.Context) { l.ahead = readAhead(ctx, l.Source) }

func (l *loop) stopReading() {
	l.ahead.stop()
	<-l.ahead.done
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
	for {
		var b filledBatch
		var err error
		select {
		case <-ctx.Done():
			return nil
		case result := <-l.saved:
			l.finishSave(result)
			continue
		case result := <-l.validated:
			l.finishValidation(result)
			continue
		case result := <-l.adopted:
			if err = l.finishAdoption(ctx, result); err != nil && err != errBack {
				return err
			}
			continue
		case <-tick.C:
			if err := l.takeStock(ctx); err != nil {
				return nil
			}
			continue
		case b = <-l.ahead.filled:
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(b.err, io.EOF):
			err = errEnough
		case b.err != nil:
			return fmt.Errorf("reading events: %w", b.err)
		default:
			if err = l.batch(ctx, b.Batch); err != errBack {
				l.ahead.free <- b.Batch
			}
		}
		if refused := (*RefusedError)(nil); errors.Is(err, errEnough) || errors.As(err, &refused) {
			// The end, unless an adoption under way takes it back.
			if waited := l.awaitAdoption(ctx); waited != nil {
				err = waited
			}
		}
		switch {
		case err == nil, err == errBack:
		case errors.Is(err, errEnough), err == ctx.Err():
			return nil
		default:
			return err
		}
		if err := l.takeStock(ctx); err != nil {
			return nil
		}
	}
}

// takeStock does what is due between two batches. It returns an error only when
// ctx ends.
func (l *loop) takeStock(ctx context.Context) error {
	now := time.Now()
	due := l.Config.PublishEvents > 0 && l.records >= l.publishAt ||
		l.Config.PublishInterval > 0 && now.Sub(l.published) >= l.Config.PublishInterval
	if due && l.unpublished && now.Sub(l.published) >= 20*l.publishCost {
		l.publish()
	}
	due = l.Config.SaveEvents > 0 && l.records >= l.saveAt || l.soon ||
		l.Config.SaveInterval > 0 && now.Sub(l.lastSave) >= l.Config.SaveInterval
	if due && l.moved && !l.saving && (l.base == nil || !l.base.saved) {
		if err := l.retry(ctx, l.suspectStore(), func() error { return l.flushSuspects(ctx) }); err != nil {
			return err
		}
		l.beginSave()
	}
	l.validateIfDue()
	l.solveIfDue(now)
	if l.unreported && now.Sub(l.reported) >= reportInterval {
		l.report("")
	}
	return nil
}

// batch counts a batch in. Its refused records are safe before the first of its
// events is learned, so that a checkpoint never passes a dead letter that is not.
func (l *loop) batch(ctx context.Context, b *blankout.Batch) error {
	n := len(b.Examples)
	if max := l.Config.MaxEvents; max > 0 && uint64(n) > max-l.records {
		n = int(max - l.records)
	}
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
	for from := 0; from < n; {
		began, to := time.Now(), l.untilAdoption(from, n)
		if err := l.examples(b, from, to, position); err != nil {
			return err
		}
		l.current.LearnTime += time.Since(began)
		l.records += uint64(to - from)
		from = to
		if err := l.adoptIfDue(ctx); err != nil {
			return err
		}
	}
	l.reportDrift(b)
	now := time.Now()
	if n == len(b.Examples) {
		position.Next = max(position.Next, b.Next)
	}
	l.highWater[partition{b.Topic, b.Partition}] = b.HighWater
	l.current.Batches++
	l.unreported = true
	l.unpublished = l.unpublished || n > 0
	l.moved = l.moved || !known || *position != before
	for i := n - 1; i >= 0; i-- {
		// A refused record's time may be the broker's instead of the event's.
		if e := &b.Examples[i]; e.Refused == nil {
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
	if len(l.suspects) > 0 {
		if err := l.retry(ctx, l.suspectStore(), func() error { return l.addSuspects(ctx, b) }); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	if max := l.Config.MaxEvents; max > 0 && l.records >= max {
		return errEnough
	}
	return nil
}

// reportDrift logs an alarm of the drift detector.
func (l *loop) reportDrift(b *blankout.Batch) {
	d := l.Learner.Drift()
	before := l.alarms
	if l.alarms = d.Alarms; d.Alarms <= before { // fewer after an adoption went back
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

// examples counts in the examples of a batch from one number to another.
func (l *loop) examples(b *blankout.Batch, from, to int, p *blankout.Position) (err error) {
	i, again := from, l.again[partition{b.Topic, b.Partition}]
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{b.Topic, b.Partition, b.Examples[i].Offset, cause, debug.Stack()}
		}
	}()
	for ; i < to; i++ {
		e := &b.Examples[i]
		if i+1 < to {
			l.Learner.Prefetch(&b.Examples[i+1])
		}
		if err := p.Advance(e.Offset, e.Fingerprint); err != nil {
			return fmt.Errorf("counting events in: %w", err)
		}
		first := uint64(1) // times that it comes for the first time
		if e.Offset < again {
			first = 0
		}
		switch {
		case e.Refused != nil:
			l.current.Refused += first
			l.current.RefusedBy[e.Refused.Reason] += first
			l.Learner.Learn(e) // which counts it
			continue
		case validate.HeldOut(b.Partition, e.Offset, l.holdout):
			l.current.HeldOut += first
			l.sample.Offer(b.Topic, b.Partition, e)
			l.hold(e)
			continue
		case e.Label == blankout.Unlabelled:
			l.current.Unlabelled += first
		default:
			l.current.Learned += first
			l.sample.Offer(b.Topic, b.Partition, e)
		}
		l.Learner.Learn(e)
		if s, ok := l.Learner.Suspicion(); ok && l.Suspects != nil {
			l.suspects = append(l.suspects, suspect{i, s})
		}
	}
	return nil
}

// suspect is one among the examples of the batch at hand.
type suspect struct {
	at int
	online.Suspicion
}

// addSuspects hands on the suspects of a batch.
func (l *loop) addSuspects(ctx context.Context, b *blankout.Batch) error {
	classes := l.Learner.Schema().Classes
	for ; len(l.suspects) > 0; l.suspects = l.suspects[1:] {
		s := l.suspects[0]
		if err := l.Suspects.Add(ctx, b.Topic, b.Partition, &b.Examples[s.at], classes[s.Class], s.Suspicion); err != nil {
			return err
		}
		l.added++
	}
	l.suspects = nil
	return nil
}

// flushSuspects returns nil once all suspects so far are safe.
func (l *loop) flushSuspects(ctx context.Context) error {
	if l.Suspects == nil || l.added == l.current.Suspects {
		return nil
	}
	if err := failpoint.Here("run.suspects"); err != nil {
		return err
	}
	if err := l.Suspects.Flush(ctx); err != nil {
		return err
	}
	l.current.Suspects = l.added
	return nil
}

// unusable says whether an example is refused for what it is, and so a matter for
// a person. One that came before is counted and passed over.
func unusable(e *blankout.Example) bool {
	return e.Refused != nil && e.Refused.Reason != blankout.ReasonRepeated
}

// storeRefused stores the refused ones among the first n examples, and keeps at
// it for as long as it takes: meanwhile nothing is read, and the run is not ready.
func (l *loop) storeRefused(ctx context.Context, b *blankout.Batch, n int) error {
	before := l.stored[partition{b.Topic, b.Partition}]
	first := 0
	for first < n && (!unusable(&b.Examples[first]) || b.Examples[first].Offset < before) {
		first++
	}
	if first == n {
		return nil
	}
	added, stored := first, map[blankout.Reason]uint64{}
	try := func() error {
		if err := failpoint.Here("run.deadletters"); err != nil {
			return err
		}
		for ; added < n; added++ {
			e := &b.Examples[added]
			if !unusable(e) {
				continue
			}
			if err := l.DeadLetters.Add(ctx, b.Topic, b.Partition, e); err != nil {
				return err
			}
			stored[e.Refused.Reason]++
		}
		return l.DeadLetters.Flush(ctx)
	}
	if err := l.retry(ctx, l.deadLetters(), try, "topic", b.Topic, "partition", b.Partition, "offset", b.Examples[first].Offset); err != nil {
		return err
	}
	for reason, count := range stored {
		l.current.DeadLetters[reason] += count
	}
	if l.stored != nil {
		l.stored[partition{b.Topic, b.Partition}] = b.Examples[n-1].Offset + 1
	}
	return nil
}

// store is a place where records are kept for a person to look at.
type store struct {
	name     string  // of what is kept there
	failures *uint64 // counts the attempts to store that failed
}

func (l *loop) deadLetters() store { return store{"dead letters", &l.current.DeadLetterFailures} }

func (l *loop) suspectStore() store { return store{"suspects", &l.current.SuspectFailures} }

// retry calls try, which stores records, until it succeeds or ctx ends. Meanwhile
// nothing is learned, and the run is not ready. about goes into the log.
func (l *loop) retry(ctx context.Context, in store, try func() error, about ...any) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		*in.failures++
		l.log.Error(in.name+" cannot be stored; learning waits", append(about, "retry_in", wait, "err", err)...)
		l.report(fmt.Sprintf("%s cannot be stored: %v", in.name, err))
		for timer := time.After(wait); timer != nil; {
			select {
			case <-timer:
				timer = nil
			case result := <-l.saved:
				l.finishSave(result)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func firstError(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// publish hands a new Model to readers.
func (l *loop) publish() {
	began := time.Now()
	l.Runner.published.Store(&Published{
		Linear: l.freeze().Model(), Version: l.FirstVersion + l.current.Published,
		Offsets: l.Offsets.Clone(), At: began,
	})
	l.published, l.publishCost = began, time.Since(began)
	l.current.Published++
	l.publishAt, l.unpublished = l.records+l.Config.PublishEvents, false
}

// freeze copies the state as it is now. Only what was written since the last
// copy is copied.
func (l *loop) freeze() *online.Snapshot {
	return l.Learner.Snapshot()
}

// report publishes the Status.
func (l *loop) report(notReady string) {
	s := l.current
	if s.NotReady = notReady; notReady == "" {
		s.NotReady = l.saveTrouble
	}
	s.RefusedBy, s.DeadLetters = maps.Clone(s.RefusedBy), maps.Clone(s.DeadLetters)
	s.Partitions = make([]PartitionStatus, len(l.Offsets))
	for i, p := range l.Offsets {
		high, ok := l.highWater[partition{p.Topic, p.Partition}]
		if !ok {
			high = -1
		}
		s.Partitions[i] = PartitionStatus{p, high}
	}
	s.Metrics = l.Learner.Metrics()
	// They only grow, though the state may go back.
	s.Suspected = max(s.Suspected, s.Metrics.Suspects-min(s.Metrics.Suspects, l.suspectsBefore))
	s.DriftAlarms = max(s.DriftAlarms, s.Metrics.Drift.Alarms-min(s.Metrics.Drift.Alarms, l.alarmsBefore))
	l.current.Suspected, l.current.DriftAlarms = s.Suspected, s.DriftAlarms
	l.reported, l.unreported = time.Now(), false
	l.status.Store(&s)
	if l.Observe != nil {
		l.Observe(&s)
	}
}

// saveResult is what the goroutine that writes a checkpoint comes back with.
type saveResult struct {
	name   string
	size   int64
	took   time.Duration
	err    error // of the save
	commit error
}

// beginSave copies the state and has a goroutine encode and write it. Learning
// stands still for the copy only.
func (l *loop) beginSave() {
	if l.Save == nil {
		return
	}
	began := time.Now()
	snapshot, offsets := (*online.Snapshot)(nil), l.Offsets.Clone()
	if b := l.base; b != nil { // what has been learned since is provisional
		snapshot, offsets, b.saved = b.state, b.offsets, true
	} else {
		snapshot = l.freeze()
	}
	var more []blankout.Block
	if l.every > 0 {
		data, err := json.Marshal(adoptionState{l.Decided})
		if err != nil {
			panic(err) // a number
		}
		more = append(more, blankout.Block{Name: blockAdoption, Data: data})
	}
	if sample := l.sample.Encode(); sample != nil {
		more = append(more, blankout.Block{Name: validate.BlockReservoir, Data: sample})
	}
	pause := time.Since(began)

	l.saving, l.moved, l.soon, l.lastSave, l.saveAt = true, false, false, began, l.records+l.Config.SaveEvents
	s := &l.current.Save
	s.Pause, s.PauseSum, s.PauseMax = pause, s.PauseSum+pause, max(s.PauseMax, pause)
	go func() {
		began := time.Now()
		var r saveResult
		blocks, err := stateBlocks(snapshot, offsets, l.Fingerprint, more)
		if err == nil {
			r.name, r.size, err = l.Save(blocks)
		}
		r.err, r.took = err, time.Since(began)
		if err == nil && l.Commit != nil {
			// Part of stopping too, of which it may take no more than half.
			ctx, cancel := context.WithTimeout(context.Background(), min(5*time.Second, l.Config.ShutdownTimeout/2))
			defer cancel()
			r.commit = firstError(failpoint.Here("run.commit"), func() error { return l.Commit(ctx, offsets) })
		}
		l.saved <- r // one place, one save at a time: never blocks
	}()
}

func (l *loop) finishSave(r saveResult) {
	l.saving, l.unreported = false, true
	s := &l.current.Save
	s.Took, s.TookSum = r.took, s.TookSum+r.took
	if r.err != nil {
		// Learning goes on: the last checkpoint is sound, and the next attempt
		// comes when the next one is due.
		s.Failed++
		l.moved = true
		if l.base != nil {
			l.base.saved = false
		}
		l.saveTrouble = fmt.Sprintf("the last checkpoint could not be saved: %v", r.err)
		l.log.Error("a checkpoint could not be saved", "err", r.err)
		if final := (FinalError{}); errors.As(r.err, &final) {
			l.final = r.err
			l.end()
		}
		return
	}
	l.saveTrouble = ""
	s.Saved++
	s.Name, s.Bytes, s.At = r.name, r.size, time.Now()
	l.log.Info("checkpoint saved", "name", r.name, "bytes", r.size, "took", r.took, "pause", s.Pause)
	if r.commit != nil {
		s.CommitFailures++
		l.log.Warn("offsets are saved but not committed to the broker; only its lag displays are affected", "err", r.commit)
	}
}

// saveAtEnd waits for a save in flight and saves what has come since.
func (l *loop) saveAtEnd(deadline context.Context) error {
	var err error
	for tried := false; ; {
		switch {
		case l.saving:
			select {
			case r := <-l.saved:
				l.finishSave(r)
				err = r.err
			case <-deadline.Done():
				return fmt.Errorf("the last checkpoint was not written within %v; a restart continues from the one before", l.Config.ShutdownTimeout)
			}
		case l.final != nil:
			return l.final
		case l.Save == nil || !l.moved:
			return nil
		case tried:
			return fmt.Errorf("the last checkpoint could not be saved, a restart continues from the one before: %w", err)
		default:
			if err := l.suspectsAtEnd(deadline); err != nil {
				return fmt.Errorf("the last checkpoint was not written, a restart continues from the one before: %w", err)
			}
			tried = true
			l.beginSave()
		}
	}
}

// suspectsAtEnd makes a last attempt to bring the suspects to safety.
func (l *loop) suspectsAtEnd(deadline context.Context) error {
	if len(l.suspects) > 0 {
		return fmt.Errorf("%d suspects could not be handed on", len(l.suspects))
	}
	return l.flushSuspects(deadline)
}

// The blocks that Run adds to the Learner's.
const (
	blockOffsets     = "offsets"     // JSON of blankout.Offsets
	blockFingerprint = "fingerprint" // JSON of Runner.Fingerprint
)

// stateBlocks yields the blocks of a checkpoint. Equal states give equal blocks.
func stateBlocks(s *online.Snapshot, offsets blankout.Offsets, f online.Fingerprint, more []blankout.Block) (iter.Seq[blankout.Block], error) {
	where, err := json.Marshal(offsets)
	if err != nil {
		return nil, fmt.Errorf("encoding the offsets: %w", err)
	}
	settings, err := json.Marshal(f) // in the order of keys
	if err != nil {
		return nil, fmt.Errorf("encoding the fingerprint: %w", err)
	}
	state, err := s.EachBlock()
	if err != nil {
		return nil, err
	}
	if warnings := s.Warnings(f); len(warnings) > 0 {
		data, err := json.Marshal(warnings)
		if err != nil {
			return nil, fmt.Errorf("encoding the warnings: %w", err)
		}
		more = append(more, blankout.Block{Name: online.BlockWarnings, Data: data})
	}
	return func(yield func(blankout.Block) bool) {
		for _, b := range append([]blankout.Block{{Name: blockOffsets, Data: where}, {Name: blockFingerprint, Data: settings}}, more...) {
			if !yield(b) {
				return
			}
		}
		state(yield)
	}, nil
}

// Resume makes the Learner and its place in the stream from the blocks of a
// checkpoint. It fails with a *online.MismatchError if c, or f beside it (see
// Runner.Fingerprint), would give the weights another meaning.
func Resume(c online.Config, f online.Fingerprint, blocks []blankout.Block) (*online.Learner, blankout.Offsets, error) {
	var was online.Fingerprint
	if err := readJSON(blocks, blockFingerprint, &was); err != nil {
		return nil, nil, err
	}
	l, err := online.Restore(c, blocks)
	mismatch := (*online.MismatchError)(nil)
	if err != nil && !errors.As(err, &mismatch) {
		return nil, nil, err
	}
	if diff := f.Diff(was); len(diff) > 0 {
		if mismatch != nil {
			diff = append(diff, mismatch.Differences...)
		}
		mismatch = &online.MismatchError{Differences: diff}
	}
	if mismatch != nil {
		return nil, nil, mismatch
	}
	offsets, err := ReadOffsets(blocks)
	return l, offsets, err
}

// ReadFingerprint returns the Runner's Fingerprint of a checkpoint.
func ReadFingerprint(blocks []blankout.Block) (f online.Fingerprint, err error) {
	err = readJSON(blocks, blockFingerprint, &f)
	return f, err
}

// ReadOffsets returns where in the stream a checkpoint belongs.
func ReadOffsets(blocks []blankout.Block) (blankout.Offsets, error) {
	var offsets blankout.Offsets
	return offsets, readJSON(blocks, blockOffsets, &offsets)
}

func readJSON(blocks []blankout.Block, name string, to any) error {
	data, err := blankout.FindBlock(blocks, name)
	if err != nil {
		return fmt.Errorf("%w: this is not a checkpoint", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("block %s: %w", name, err)
	}
	return nil
}
