package labels

// This file joins events and labels of complete logs into one stream.

import (
	"context"
	"errors"
	"fmt"
	"io"

	"blankout/internal/event"
)

// Joined is a Source of the events of a Merge with their labels, for reading existing logs. It returns each event once,
// in the order of arrival, with the last label that arrived within its wait. An event without a label gets
// Config.TimeoutLabel, or none. An event whose wait is not over at the end of the logs is omitted and stays pending.
// Refused records are returned too.
//
// A Runner does not use this type, because it learns an event as soon as the first label arrives.
type Joined struct {
	merge  *Merge
	join   *Join
	topic  string // topic of events
	schema *event.Schema
	in     event.Batch
	queue  []settled
	ended  bool
}

type settled struct {
	event.Example
	topic     string
	partition int32
}

// NewJoined returns a Source of the records of a Merge, for a newly opened Join. Its events belong to the given topic
// or file. Nothing else may use merge and join.
func NewJoined(merge *Merge, join *Join, topic string) *Joined {
	join.settles = true // the Join returns no event before its wait is over
	return &Joined{merge: merge, join: join, topic: topic, schema: merge.schema}
}

// Next fills b with the next events of one partition. b owns them.
func (s *Joined) Next(ctx context.Context, b *event.Batch) error {
	for len(s.queue) == 0 {
		if s.ended {
			return io.EOF
		}
		if err := s.Records(ctx, &s.in); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	first := &s.queue[0]
	*b = event.Batch{Topic: first.topic, Partition: first.partition, Examples: b.Examples[:0], Schema: s.schema.View()}
	n := 0
	for n < len(s.queue) && n < batchExamples && s.queue[n].topic == b.Topic && s.queue[n].partition == b.Partition {
		b.Examples = append(b.Examples, s.queue[n].Example)
		b.Next = max(b.Next, s.queue[n].Offset+1)
		n++
	}
	s.queue = s.queue[n:]
	return nil
}

// Records fills b with the next records of events or labels in the order of the Merge, for callers that count records.
// After each call of Records, call Settled for the events that these records have matched or expired. Records returns
// io.EOF after the last record, and Settled may then have more events.
func (s *Joined) Records(ctx context.Context, b *event.Batch) error {
	err := s.merge.Next(ctx, b)
	if errors.Is(err, io.EOF) {
		s.ended, s.join.over = true, true
		if err := s.expire(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for i := range b.Examples {
		if err := s.accept(b, &b.Examples[i]); err != nil {
			return err
		}
	}
	return nil
}

// Settled calls f for each event that was matched or has expired since the last call. f owns these events.
func (s *Joined) Settled(f func(partition int32, e *event.Example) error) error {
	for i := range s.queue {
		if err := f(s.queue[i].partition, &s.queue[i].Example); err != nil {
			return err
		}
	}
	s.queue = s.queue[:0]
	return nil
}

// accept processes a record in a Batch of the Merge.
func (s *Joined) accept(b *event.Batch, e *event.Example) error {
	if err := s.join.Flush(); err != nil {
		return err
	}
	s.join.Advance(b.Topic, b.Partition, e)
	if err := s.expire(); err != nil {
		return err
	}
	if e.Refused != nil {
		refused := *e.Refused // add the log, because the record itself does not have it
		refused.Detail = fmt.Sprintf("%s: record %d: %s", b.Topic, e.Offset+1, refused.Detail)
		s.queue = append(s.queue, settled{Example: event.Example{Label: event.Unlabeled, Offset: e.Offset, Refused: &refused}, topic: b.Topic, partition: b.Partition})
		return nil
	}
	var err error
	if b.Labels {
		_, _, err = s.join.Label(e)
	} else {
		_, _, err = s.join.Event(e, b.Partition, nil)
	}
	if err != nil {
		return fmt.Errorf("%s: record %d: %w", b.Topic, e.Offset+1, err)
	}
	return nil
}

// expire adds the events whose wait is over.
func (s *Joined) expire() error {
	for {
		w, err := s.join.Expired()
		if w == nil || err != nil {
			return err
		}
		e := *w.Example
		s.join.SetDefault(&e, s.schema)
		s.queue = append(s.queue, settled{e, s.topic, w.Partition})
	}
}
