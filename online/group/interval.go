package group

// This file lets a member learn during an interval, from the group's state to a commit.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/internal/run"
	"blankout/online/deltas"
	"blankout/stream"
)

// work is the learning state of a member. It starts from the group's state at each interval.
type work struct {
	intake  run.Intake // its Learner equals the group's state when an interval starts
	source  stream.Opened
	schema  *event.Schema // the source's decoder adds fields to it
	batch   event.Batch
	next    map[stream.TopicPartition]int64 // next offset of the source
	changed []uint32                        // columns that differ from the group's model for other reasons than the interval
	seq     uint64
	interval
}

// interval describes what the member has learned since it last started from the group's state.
type interval struct {
	spans  []Span
	began  time.Time
	size   uint64 // planned number of events
	events uint64 // number of events so far
	// The group's state at the start of the interval: Fold.Base, the chain hash, and the number of fields.
	base   int64
	chain  uint64
	fields int
}

// begin resets the work to the group's state and starts an interval.
func (l *running) begin() error {
	began := time.Now()
	t := l.replica.fold.Learner().Report().Events
	learning := max(1, l.turn.Members-l.turn.Standby)
	peers := learning
	if l.first() && l.cold() {
		peers = 1
	}
	size := min(max(uint64(intervalFraction*float64(t))/uint64(learning), l.Config.IntervalMin), intervalMost)
	if err := l.work.begin(l.replica.fold, peers, size); err != nil {
		return err
	}
	l.current.Sync += time.Since(began).Seconds()
	return nil
}

func (w *work) begin(f *Fold, peers int, size uint64) error {
	if err := w.intake.Learner.Follow(f.Learner(), w.changed, peers, size); err != nil {
		return err
	}
	w.intake.Learner.SetSchema(w.schema)
	w.changed = w.changed[:0]
	w.interval = interval{size: size, fields: len(f.Learner().Schema().Fields)}
	w.base, w.chain = f.Base()
	return nil
}

// close stops reading. The interval can still be committed.
func (w *work) close() {
	if w.source != nil {
		w.source.Close()
		w.source = nil
	}
}

// learn learns the next batch of events, unless no batch arrives in time.
func (l *running) learn(ctx context.Context) error {
	w, b := &l.work, &l.work.batch
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	switch err := w.source.Next(wait, b); {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && errors.Is(err, wait.Err()):
		return nil
	default:
		return fmt.Errorf("reading events: %w", l.trimmedError(err))
	}
	if b.Reset {
		return fmt.Errorf("%s/%d: the next offset is out of range, and a group cannot skip it: restore the records, or start a new group", b.Topic, b.Partition)
	}
	s := w.span(b)
	if s == nil {
		return nil
	}
	if w.began.IsZero() {
		w.began = time.Now()
	}
	n, _, err := w.intake.Admit(ctx, b)
	if err != nil {
		return err
	}
	if err := w.intake.Learn(ctx, b, n, s); err != nil {
		return err
	}
	s.To = b.Next
	w.next[stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}] = b.Next
	w.events += uint64(len(b.Examples))
	return nil
}

// span returns the interval's span for the partition of a batch. It returns nil if the batch contains only the start
// offset of a partition.
func (w *work) span(b *event.Batch) *Span {
	for i := range w.spans {
		if s := &w.spans[i]; s.Topic == b.Topic && s.Partition == b.Partition {
			return s
		}
	}
	p := stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}
	from, found := w.next[p]
	if !found || b.Next == from {
		w.next[p] = b.Next
		return nil
	}
	w.spans = append(w.spans, Span{Topic: b.Topic, TopicID: b.TopicID, Partition: b.Partition, From: from, To: from})
	return &w.spans[len(w.spans)-1]
}

// cut ends the interval. It returns the Commit, without the refs of its chunks, and the Delta.
func (w *work) cut(precision int) (*Commit, *deltas.Delta) {
	d := w.intake.Learner.Cut(precision)
	c := &Commit{
		Seq: w.seq, Base: w.base, Chain: w.chain, Kind: d.Kind, Events: d.Events,
		Spans: slices.DeleteFunc(w.spans, func(s Span) bool { return s.From == s.To }),
	}
	if fields := w.intake.Learner.Schema().Fields; len(fields) > w.fields {
		c.Fields = slices.Clone(fields[w.fields:])
	}
	w.seq++
	return c, d
}

// publish commits the interval, waits until it is applied or rejected, and starts the next interval.
func (l *running) publish(ctx context.Context) error {
	if l.work.events == 0 || l.work.source == nil {
		return nil
	}
	began := time.Now()
	l.committing = began
	defer func() { l.committing = time.Time{} }()
	c, d := l.work.cut(precision)
	c.Fingerprint, c.Member, c.Architecture = l.replica.fold.Fingerprint(), l.id, l.machine.architecture
	chunks, refs := EncodeChunks(l.id, c.Seq, d)
	c.Chunks = refs
	for i, data := range chunks {
		var at stream.Place
		err := l.await(func() (err error) {
			at, err = l.commitLog.AppendChunk(ctx, data)
			return err
		})
		if err != nil {
			return err
		}
		refs[i].Partition, refs[i].Offset = at.Partition, at.Offset
		l.current.DeltaBytes += uint64(len(data))
	}
	l.current.DeltaRows += uint64(len(d.Columns))
	var offset int64
	err := l.await(func() (err error) {
		if offset, err = l.commitLog.AppendCommit(ctx, c.Encode()); err == nil && offset < 0 {
			var end int64
			end, err = l.commitLog.End(ctx)
			offset = end - 1
		}
		return err
	})
	if err != nil {
		return err
	}
	l.current.Committed++
	refused, events := l.current.Refused, l.work.events
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for l.replica.read <= offset {
		select {
		case <-tick.C:
			l.report("")
		case <-ctx.Done():
			return ctx.Err()
		case take := <-l.jobs:
			take()
		case e := <-l.entries.next:
			if err := l.applyOrReload(ctx, e); err != nil {
				return err
			}
		}
	}
	l.current.Commit += time.Since(began).Seconds()
	if l.current.Refused != refused {
		l.current.Reprocessed += events
		l.work.interval = interval{}
		return l.reopen(ctx) // start again from the group's state
	}
	if !l.work.follows(l.replica.fold) {
		return l.reopen(ctx)
	}
	return l.begin()
}

// await returns the result of call, which writes to the commit log. await publishes the status as usual while call
// runs.
func (l *running) await(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			l.report("")
		}
	}
}

// follows reports whether the group's fields are in the same order as the fields of this member's decoder. The order
// differs if another member has found other fields first.
func (w *work) follows(f *Fold) bool {
	fold, mine := f.Learner().Schema().Fields, w.schema.Fields
	return len(fold) <= len(mine) && slices.EqualFunc(fold, mine[:len(fold)], func(a, b event.Field) bool { return a.Name == b.Name })
}

// drop discards the interval.
func (l *running) drop() {
	l.current.Reprocessed += l.work.events
	l.work.interval = interval{}
}
