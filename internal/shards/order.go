package shards

// This file puts the records of a shard's partitions into one order.

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/stream/record"
)

// Lane is a partition that an Ordered reads.
type Lane struct {
	Topic     string
	Partition int32
	// Next fills a Batch with further undecoded records of the partition (labels.Deferred). See event.Source.
	Next      func(context.Context, *event.Batch) error
	Unlabeled bool // its events have no labels
	// Decoder decodes a record. The decoders of all lanes extend the same Schema.
	Decoder record.Decoder
	// AtEnd reports whether all records of the partition's log were delivered, as far as the brokers have said. A
	// partition whose brokers do not respond is not at its end.
	AtEnd func() bool
}

// Ordered is a Source of several partitions. Its records are in the order of (timestamp, topic, partition, offset),
// except that the records of a partition stay in the order of their offsets: each partition has a next record, and the
// earliest of these is taken. The next records depend only on the offsets that were learned, so a learner that continues
// from a checkpoint takes the same order as one that was never stopped.
//
// Records are taken only while every partition has a next one. A partition whose log has had no further record for the
// time Idle is skipped until it has one. If that record is earlier than others that were taken meanwhile, it is late, and
// a repeated run may take it earlier.
//
// Records are decoded in this order too, so that columns and classes depend only on the logs.
type Ordered struct {
	Idle   time.Duration
	schema *event.Schema
	lanes  []*lane
}

// defaultIdle is how long a partition at the end of its log holds up the others. It is longer than a producer usually
// takes to write.
const defaultIdle = 5 * time.Second

type lane struct {
	Lane
	batch  event.Batch
	index  int // current record in batch
	ended  bool
	silent bool // the lane is skipped
}

func (l *lane) has() bool { return l.index < len(l.batch.Examples) }

// time returns the timestamp of the current record.
func (l *lane) time() int64 { return l.batch.Examples[l.index].Time }

// NewOrdered returns the Source of the lanes. The lanes' decoders extend the Schema.
func NewOrdered(schema *event.Schema, lanes []Lane) *Ordered {
	o := &Ordered{Idle: defaultIdle, schema: schema}
	for _, l := range lanes {
		o.lanes = append(o.lanes, &lane{Lane: l})
	}
	slices.SortFunc(o.lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return o
}

// mostExamples is the largest number of examples in a Batch.
const mostExamples = 512

// pollEvery is how long Next waits for each of the skipped lanes when no other lane has a record.
const pollEvery = 10 * time.Millisecond

// Next fills b with the next records, all of one partition.
func (o *Ordered) Next(ctx context.Context, b *event.Batch) error {
	for {
		var first *lane
		open := false
		for _, l := range o.lanes {
			if !l.has() && !l.ended {
				passed, err := o.refill(ctx, l)
				switch {
				case err != nil:
					return err
				case passed:
					o.begin(l, b)
					return nil
				}
			}
			open = open || !l.ended
			if l.has() && (first == nil || l.time() < first.time()) { // at equal times the first lane is first
				first = l
			}
		}
		switch {
		case first != nil:
			return o.fill(ctx, first, b)
		case !open:
			return io.EOF
		}
		for _, l := range o.lanes { // all lanes are skipped or have ended
			if passed, err := o.poll(ctx, l, pollEvery); err != nil {
				return err
			} else if passed {
				o.begin(l, b)
				return nil
			} else if l.has() {
				break
			}
		}
	}
}

// refill reads a lane's next records. It waits for them unless the lane is skipped or becomes skipped. passed reports
// that the lane has a batch without records.
func (o *Ordered) refill(ctx context.Context, l *lane) (passed bool, err error) {
	if l.silent {
		return o.poll(ctx, l, 0)
	}
	for idle := time.Duration(0); !l.has() && !l.ended && !passed; {
		wait := min(o.Idle, 100*time.Millisecond)
		if passed, err = o.poll(ctx, l, wait); err != nil {
			return false, err
		}
		if idle += wait; !l.AtEnd() {
			idle = 0
		}
		if idle >= o.Idle && !l.has() && !passed {
			l.silent = true
			return false, nil
		}
	}
	return passed, nil
}

// poll reads a lane's next records, if they arrive within the given time.
func (o *Ordered) poll(ctx context.Context, l *lane, wait time.Duration) (passed bool, err error) {
	if l.ended {
		return false, nil
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l.index, l.batch.Examples = 0, l.batch.Examples[:0]
	err = l.Next(waiting, &l.batch)
	switch {
	case errors.Is(err, io.EOF):
		l.ended, l.batch.Examples = true, l.batch.Examples[:0]
		return false, nil
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		l.batch.Examples = l.batch.Examples[:0]
		return false, nil
	case err != nil:
		l.batch.Examples = l.batch.Examples[:0]
		return false, err
	}
	l.silent = l.silent && !l.has()
	return !l.has(), nil
}

// begin makes b an empty Batch of a lane.
func (o *Ordered) begin(l *lane, b *event.Batch) {
	examples := b.Examples[:0]
	*b = l.batch
	b.Examples, b.Schema = examples, o.schema.View()
	l.batch.Reset = false // only the first part of a fetch changes the position
}

// fill adds records of a lane as long as they precede the records of the other lanes.
func (o *Ordered) fill(ctx context.Context, l *lane, b *event.Batch) error {
	o.begin(l, b)
	for l.has() && len(b.Examples) < mostExamples && (len(b.Examples) == 0 || o.isFirst(l)) {
		b.Examples = slices.Grow(b.Examples, 1)[:len(b.Examples)+1]
		e := &b.Examples[len(b.Examples)-1]
		if err := decode(ctx, l, &l.batch.Examples[l.index], e); err != nil {
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				return err
			}
			break // the next call returns the error
		}
		b.Next = e.Offset + 1
		l.index++
	}
	if !l.has() {
		b.Next = l.batch.Next
	}
	b.Schema = o.schema.View()
	return nil
}

func (o *Ordered) isFirst(l *lane) bool {
	behind := false // lanes after l precede it only if they are earlier
	for _, other := range o.lanes {
		switch {
		case other == l:
			behind = true
		case other.has() && (other.time() < l.time() || !behind && other.time() == l.time()):
			return false
		}
	}
	return true
}

// decode decodes an undecoded record.
func decode(ctx context.Context, l *lane, from, e *event.Example) error {
	key, value := e.Key[:0], e.Value[:0]
	if from.Refused != nil {
		*e = event.Example{Features: e.Features, Label: event.Unlabeled, Offset: from.Offset, Time: from.Time, Refused: from.Refused}
		e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
		e.Key, e.Fingerprint = append(key, from.Key...), from.Fingerprint
		return nil
	}
	r := record.Record{Key: from.Key, Value: from.Value, Offset: from.Offset, Time: from.Time, Unlabeled: l.Unlabeled}
	if err := l.Decoder.Decode(ctx, r, e); err != nil {
		return err
	}
	e.Key = append(key, e.Key...)
	if e.Value != nil {
		e.Value = append(value, e.Value...)
	}
	if e.Refused != nil {
		e.Refused.Value = slices.Clone(e.Refused.Value)
	}
	e.Fingerprint = from.Fingerprint
	return nil
}
