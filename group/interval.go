package group

// This file holds an interval of learning: from where the fold has come to, until its commit.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"blankout"
	"blankout/stream"
)

// begin makes the work equal to the fold and begins an interval.
func (l *life) begin() error {
	began := time.Now()
	fold := l.replica.fold
	t := fold.Learner().Metrics().Events
	learning := max(1, l.turn.Members-l.turn.Standby)
	peers := learning
	if l.first() && l.cold() {
		peers = 1
	}
	l.size = min(max(uint64(l.Config.Share*float64(t))/uint64(learning), l.Config.IntervalMin), l.Config.IntervalEvents)
	if err := l.work.Follow(fold.Learner(), l.changed, peers, l.size); err != nil {
		return err
	}
	l.work.SetSchema(l.schema)
	l.changed, l.spans, l.events, l.began = l.changed[:0], nil, 0, time.Time{}
	l.base, l.chain = fold.Base()
	l.known = len(fold.Learner().Schema().Fields)
	l.current.Rebase += time.Since(began).Seconds()
	return nil
}

// learn counts in the next batch of events, if one comes soon.
func (l *life) learn(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	b := &l.batch
	switch err := l.source.Next(wait, b); {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && errors.Is(err, wait.Err()):
		return nil
	default:
		return fmt.Errorf("reading events: %w", l.trimmedError(err))
	}
	if b.Reset {
		return fmt.Errorf("%s/%d: the offset to go on at is out of range, and a group goes on at no other: restore the records, or begin another group", b.Topic, b.Partition)
	}
	s := l.span(b)
	if s == nil {
		return nil
	}
	if l.began.IsZero() {
		l.began = time.Now()
	}
	l.intake.Learner = l.work
	n, _, err := l.intake.Admit(ctx, b)
	if err != nil {
		return err
	}
	if err := l.intake.Learn(ctx, b, n, s); err != nil {
		return err
	}
	if err := l.intake.HandOn(ctx, b); err != nil {
		return err
	}
	s.To = b.Next
	l.at[stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}] = b.Next
	l.events += uint64(len(b.Examples))
	return nil
}

// span returns the interval's span of a batch's partition, nil for a Batch that only says
// where the partition is gone on from.
func (l *life) span(b *blankout.Batch) *Span {
	for i := range l.spans {
		if s := &l.spans[i]; s.Topic == b.Topic && s.Partition == b.Partition {
			return s
		}
	}
	p := stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}
	from, known := l.at[p]
	if !known || b.Next == from {
		l.at[p] = b.Next
		return nil
	}
	l.spans = append(l.spans, Span{Topic: b.Topic, TopicID: b.TopicID, Partition: b.Partition, From: from, To: from})
	return &l.spans[len(l.spans)-1]
}

// publish commits the interval, waits for what the fold says of it, and begins the next.
func (l *life) publish(ctx context.Context) error {
	if l.events == 0 || l.source == nil {
		return nil
	}
	if err := l.intake.Flush(ctx); err != nil {
		return err
	}
	began := time.Now()
	l.committing = began
	defer func() { l.committing = time.Time{} }()
	d := l.work.Cut(l.Config.Precision)
	c := &Commit{
		Fingerprint: l.replica.fold.Fingerprint(), Member: l.id, Seq: l.seq, Base: l.base, Chain: l.chain,
		Spans: slices.DeleteFunc(l.spans, func(s Span) bool { return s.From == s.To }), Kind: d.Kind, Events: d.Events,
	}
	if fields := l.work.Schema().Fields; len(fields) > l.known {
		c.Fields = slices.Clone(fields[l.known:])
	}
	l.seq++
	chunks, refs := EncodeChunks(l.id, c.Seq, d)
	c.Chunks = refs
	for i, data := range chunks {
		var at stream.Place
		err := l.await(func() (err error) {
			at, err = l.ledger.AppendChunk(ctx, data)
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
		if offset, err = l.ledger.AppendCommit(ctx, c.Encode()); err == nil && offset < 0 {
			var end int64
			end, err = l.ledger.End(ctx)
			offset = end - 1
		}
		return err
	})
	if err != nil {
		return err
	}
	l.current.Committed++
	refused, events := l.current.Refused, l.events
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
		l.current.Again += events
		l.spans, l.events = nil, 0
		return l.reopen(ctx) // from where the fold has come to
	}
	if !l.follows() {
		return l.reopen(ctx)
	}
	return l.begin()
}

// await returns what call returns, which writes to the ledger. Meanwhile the status is
// published as ever.
func (l *life) await(call func() error) error {
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

// follows tells whether the fields that the source's decoder numbers are still those of
// the fold: another member may have met others first.
func (l *life) follows() bool {
	fold := l.replica.fold.Learner().Schema().Fields
	mine := l.schema.Fields
	if len(fold) > len(mine) {
		return false
	}
	for i := range fold {
		if fold[i].Name != mine[i].Name {
			return false
		}
	}
	return true
}

// drop forgets the interval.
func (l *life) drop() {
	l.current.Again += l.events
	l.events, l.spans = 0, nil
}
