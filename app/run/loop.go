package run

// This file defines the loop that learns and starts jobs.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/health"
)

// loop is the state of one call of Run. It belongs to the goroutine that called Run.
type loop struct {
	*Runner
	Validator *validate.Validator // initially the Runner's; later the validator of the leader

	log       *slog.Logger
	current   Status
	highWater map[partition]int64
	before    uint64 // number of records before Run started
	records   uint64 // number of records since Run started
	fast      bool   // the latest events took less than slowEvent each

	reported   time.Time
	unreported bool
	first      online.Alarms // alarms when Run started
	logged     online.Alarms
	warned     map[string]warned
	warnNext   uint64 // number of records at which the Warnings are computed again

	ahead    *ahead
	finished chan func() // results of jobs, as functions to call
	end      func()      // ends the run like the caller's context

	intake    intake
	saver     saver
	publisher publisher
	validator validator
}

func newLoop(r *Runner) *loop {
	now := time.Now()
	l := &loop{
		Runner: r, Validator: r.Validator, log: cmp.Or(r.Log, slog.New(slog.DiscardHandler)), highWater: map[partition]int64{}, warned: map[string]warned{},
		current: Status{Started: now},
		first:   r.Learner.Alarms(math.MaxUint64), finished: make(chan func(), 2), // capacity for the result of every job
	}
	l.intake = intake{Runner: r, log: l.log, retry: l.retry}
	l.logged = l.first
	for _, reading := range r.Learner.Schema().Readings {
		if reading.Final() {
			l.warned[readingKey+reading.Name] = warned{}
		}
	}
	for _, p := range r.Offsets {
		l.before += p.Records
	}
	l.saver = saver{status: r.Saved, job: job{finished: l.finished}, log: l.log, runner: r, last: now, next: r.Config.SaveEvents}
	l.publisher = publisher{config: &r.Config}
	l.validator.job.finished = l.finished
	return l
}

// job is work on a separate goroutine, one task at a time.
type job struct {
	finished chan<- func()
	cancel   context.CancelFunc // cancels the current task; nil without a task
}

func (j *job) running() bool { return j.cancel != nil }

// begin starts work on a goroutine. The loop's goroutine calls take with the result. The channel has capacity for every
// job, so sending never blocks.
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

// reportInterval is the largest age of a Status while the run makes progress.
const reportInterval = 200 * time.Millisecond

// learn processes batches until the events end, or the run is stopped. It returns nil in both cases, and an error for a
// failure.
func (l *loop) learn(ctx context.Context) error {
	tick := time.NewTicker(reportInterval) // saves and reports become due even without events
	defer tick.Stop()
	var err error
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
			err = l.batch(ctx, b)
			l.ahead.free <- b.Batch // never blocks, because the channel has capacity for all Batches
		}
		if err == nil && ctx.Err() == nil { // a FinalError may have ended the run, and select takes any case that is ready
			l.runDueJobs()
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

// runDueJobs publishes, saves, validates and reports if each is due.
func (l *loop) runDueJobs() {
	now := time.Now()
	if l.publisher.due(l.records, now) {
		l.publish()
	}
	if l.saver.due(l.records, now) {
		l.beginSave()
	}
	l.promoteAsked()
	l.validateIfDue()
	if l.unreported && now.Sub(l.reported) >= reportInterval {
		l.warn(false)
		l.report("")
	}
}

// stopEvery is the number of events between checks whether the run is to stop, if an event takes longer than slowEvent.
const stopEvery, slowEvent = 64, time.Millisecond

// batch processes a batch. It processes the batch in parts if an automatic promotion is due within it, or if events take
// long. It returns ctx.Err() if ctx ends between two parts.
func (l *loop) batch(ctx context.Context, b filledBatch) error {
	for rest, done := *b.Batch, 0; ctx.Err() == nil; {
		part, began := rest, time.Now()
		n := l.untilWindow(len(rest.Examples))
		if most := l.Config.MaxEvents; most > 0 && uint64(n) > most-l.records {
			n = int(most - l.records)
		}
		if !l.fast {
			n = min(n, stopEvery)
		}
		if n < len(rest.Examples) {
			part.Examples, part.Next = rest.Examples[:n], rest.Examples[n-1].Offset+1
			rest.Examples, rest.Reset = rest.Examples[n:], false
		} else {
			rest.Examples = nil
		}
		if err := l.part(ctx, &part, b.own, done); err != nil {
			return err
		}
		done += len(part.Examples)
		if len(part.Examples) > 0 {
			l.fast = time.Since(began) < slowEvent*time.Duration(len(part.Examples))
		}
		l.promoteBetter()
		if most := l.Config.MaxEvents; most > 0 && l.records >= most {
			return errEnough
		}
		if len(rest.Examples) == 0 {
			return nil
		}
	}
	return ctx.Err()
}

// part processes a batch or a part of it. from is the part's index in the learners' own columns.
func (l *loop) part(ctx context.Context, b *event.Batch, own []columns, from int) error {
	var views []event.Batch
	if l.Challengers != nil {
		for i := range l.Challengers.All {
			views = append(views, l.Challengers.seen(i, b, own, from))
		}
		b = &views[l.Challengers.Leader]
	}
	n, failed, err := l.intake.admit(ctx, b)
	if err != nil {
		return err
	}
	before, found := l.Offsets.Lookup(b.Topic, b.Partition)
	position := l.position(b, found)
	err = l.learnPart(ctx, b, n, position, views)
	if err != nil {
		if failed := (*RefusedError)(nil); errors.As(err, &failed) {
			l.saver.moved = l.saver.moved || !found || *position != before // false if the position equals the saved position
		}
		l.saver.final = cmp.Or(l.intake.broken, l.saver.final)
		return err
	}
	if l.records == 0 && n > 0 {
		l.log.Info("the first records have arrived", "topic", b.Topic, "partition", b.Partition, "offset", b.Examples[0].Offset)
	}
	l.records += uint64(n)
	alarms := l.Learner.Alarms(l.logged.Changes)
	l.reportDrift(b, alarms.Drift)
	l.reportHealth(b, &alarms)
	l.logged = alarms
	if n == len(b.Examples) {
		position.Next = max(position.Next, b.Next)
	}
	l.highWater[partition{b.Topic, b.Partition}] = b.HighWater
	l.unreported = true
	l.publisher.news = l.publisher.news || n > 0
	l.saver.moved = l.saver.moved || !found || *position != before
	if l.records >= l.warnNext {
		l.warnNext = l.records + max(warnEvery, l.records/warnEvery)
		l.warn(false)
		l.sayReadings(false)
	}
	if failed != nil {
		return failed
	}
	return nil
}

// position returns the position of a batch's partition before the batch. found is true if that position was saved
// before.
func (l *loop) position(b *event.Batch, found bool) *event.Position {
	start := b.Next
	if len(b.Examples) > 0 {
		start = b.Examples[0].Offset
	}
	position := l.Offsets.At(b.Topic, b.Partition, start)
	if found && b.Reset {
		l.log.Warn("the position in a partition was changed by kafka.out_of_range",
			"topic", b.Topic, "partition", b.Partition, "from", position.Next, "to", start)
		position.Next = start
		if position.TopicID != b.TopicID {
			position.First = start // earlier records are no longer available
		}
	}
	position.TopicID = cmp.Or(b.TopicID, position.TopicID)
	return position
}

// retry calls try until it succeeds or ctx ends. In the meantime nothing is learned, and the run is not ready.
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
			case take := <-l.finished:
				take()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// reportDrift logs an alarm of the drift detector.
func (l *loop) reportDrift(b *event.Batch, d health.Drift) {
	if d.Alarms == l.logged.Drift.Alarms {
		return
	}
	l.log.Warn("the stream drifts: the loss of events has risen", "alarms", d.Alarms, "event", d.Event,
		"log_loss_before", d.Before, "log_loss_after", d.After, "topic", b.Topic, "partition", b.Partition, "before_offset", b.Next,
		"on_drift", l.Learner.Config().OnDrift)
}

// loggedAlarms is the largest number of field alarms that are logged per part of a batch.
const loggedAlarms = 10

// reportHealth logs the field alarms that a part of a batch has raised and ended. Only new alarms are logged at WARN,
// because an earlier run has logged earlier alarms.
func (l *loop) reportHealth(b *event.Batch, alarms *online.Alarms) {
	n := alarms.Changes - l.logged.Changes
	for _, a := range alarms.Latest[:min(len(alarms.Latest), loggedAlarms)] {
		log := l.log.Info
		if a.State == "raised" {
			log = l.log.Warn
		}
		log(a.Text, "alarm", a.Kind, "field", a.Field, "state", a.State, "event", a.Event, "topic", b.Topic, "partition", b.Partition, "before_offset", b.Next)
	}
	if n > loggedAlarms {
		l.log.Warn("more alarms about fields at the same time: see GET /v1/features or the page", "more", n-loggedAlarms)
	}
}

// warnEvery is the smallest number of records between two looks for Warnings, which take longer than learning an event.
// Later a look follows when records have grown by a fraction of 1/warnEvery, and with each report.
const warnEvery = 64

// warned is the state of the log messages about one kind of Warning.
type warned struct {
	on      bool   // the Warning is current
	records uint64 // number of records when the Warning was last logged
}

// warn logs new Warnings. A Warning that ends and returns is logged again only if the number of records has doubled.
func (l *loop) warn(final bool) {
	l.current.Warnings = l.Learner.Warnings(l.Fingerprint, final)
	for kind, w := range l.warned {
		w.on = slices.ContainsFunc(l.current.Warnings, func(x health.Warning) bool { return x.Kind == kind })
		l.warned[kind] = w
	}
	for _, x := range l.current.Warnings {
		w, before := l.warned[x.Kind]
		if !w.on && (!before || l.records >= 2*w.records) {
			w.records = l.records
			l.log.Warn(x.Text, "warning", x.Kind)
		}
		w.on = true
		l.warned[x.Kind] = w
	}
}

// readingKey begins the keys of Readings in loop.warned.
const readingKey = "reading of "

// sayReadings logs once that a field is read as text or as a time: when this is final, or when the run ends.
func (l *loop) sayReadings(end bool) {
	for _, reading := range l.Learner.Schema().Readings {
		key := readingKey + reading.Name
		if _, said := l.warned[key]; !said && (end || reading.Final()) && reading.Advice() != "" {
			l.warned[key] = warned{}
			l.log.Info(reading.Advice())
		}
	}
}

// report publishes the Status. notReady is the value of Status.NotReady.
func (l *loop) report(notReady string) {
	s := l.current
	s.Counts = l.intake.copied()
	s.NotReady = cmp.Or(notReady, l.saver.lastError)
	s.Save = l.saver.status
	s.Partitions = make([]PartitionStatus, len(l.Offsets))
	for i, p := range l.Offsets {
		high, ok := l.highWater[partition{p.Topic, p.Partition}]
		if !ok {
			high = -1
		}
		s.Partitions[i] = PartitionStatus{p, high}
	}
	if l.Labels != nil {
		at := l.Labels.State()
		s.Labels, s.AtLearning = new(l.Labels.Counts()), measure.Classes{Weight: at.Weight, Wrong: at.Wrong, LogLoss: at.LogLoss}
	}
	s.Learner = l.Learner.Report()
	s.Challengers = l.challengerStatus(&s.Learner)
	s.FieldAlarms = s.Learner.Health.Raised - l.first.Fields
	s.DriftAlarms = s.Learner.Drift.Alarms - l.first.Drift.Alarms
	l.reported, l.unreported = time.Now(), false
	l.status.Store(&s)
	if l.Observe != nil {
		l.Observe(&s)
	}
}

// publisher determines when readers get a new model. Copying models may take at most a twentieth of the time.
type publisher struct {
	config *Config
	count  uint64 // number of published models
	news   bool   // records were counted since the latest publication
	next   uint64 // number of records at which the next publication is due
	last   time.Time
	cost   time.Duration
}

func (p *publisher) due(records uint64, now time.Time) bool {
	c := p.config
	due := c.PublishEvents > 0 && records >= p.next || c.PublishInterval > 0 && now.Sub(p.last) >= c.PublishInterval
	return due && p.news && now.Sub(p.last) >= 20*p.cost
}

// publish publishes a new model.
func (l *loop) publish() {
	if l.unread {
		return
	}
	p, began := &l.publisher, time.Now()
	published := &Published{Linear: l.Learner.Snapshot().Model(), Version: l.FirstVersion + p.count, Offsets: l.Offsets.Clone(), At: began}
	l.Challengers.publish(published)
	l.published.Store(published)
	p.count++
	p.last, p.cost, p.next, p.news = began, time.Since(began), l.records+p.config.PublishEvents, false
}
