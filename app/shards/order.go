package shards

// This file puts the records of a shard's partitions into one order.

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// Partition is a partition that an Ordered reads.
type Partition struct {
	Topic  string
	Number int32
	// Next fills a Batch with further undecoded records of the partition (labels.Deferred). See event.Source.
	Next      func(context.Context, *event.Batch) error
	Unlabeled bool // its events have no labels
	// Decoder decodes a record. The decoders of all partitions extend the same Schema.
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
	// partitions are sorted by topic and number.
	partitions []*partition
}

// defaultIdle is how long a partition at the end of its log holds up the others. It is longer than a producer usually
// takes to write.
const defaultIdle = 5 * time.Second

type partition struct {
	Partition
	batch   event.Batch
	index   int // current record in batch
	ended   bool
	skipped bool // see Ordered
	// idle is for how long its log has had no further record, as far as Ordered has waited for any partition.
	idle time.Duration
}

func (p *partition) has() bool { return p.index < len(p.batch.Examples) }

// time returns the timestamp of the current record.
func (p *partition) time() int64 { return p.batch.Examples[p.index].Time }

// NewOrdered returns the Source of the partitions. Their decoders extend the Schema.
func NewOrdered(schema *event.Schema, partitions []Partition) *Ordered {
	o := &Ordered{Idle: defaultIdle, schema: schema}
	for _, p := range partitions {
		o.partitions = append(o.partitions, &partition{Partition: p})
	}
	slices.SortFunc(o.partitions, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
	return o
}

// mostExamples is the largest number of examples in a Batch.
const mostExamples = 512

// pollEvery is how long Next waits for each of the skipped partitions when no other partition has a record.
const pollEvery = 10 * time.Millisecond

// Next fills b with the next records, all of one partition.
func (o *Ordered) Next(ctx context.Context, b *event.Batch) error {
	for {
		var first *partition
		open := false
		for _, p := range o.partitions {
			if !p.has() && !p.ended {
				passed, err := o.refill(ctx, p)
				switch {
				case err != nil:
					return err
				case passed:
					o.begin(p, b)
					return nil
				}
			}
			open = open || !p.ended
			if p.has() && (first == nil || p.time() < first.time()) { // at equal times the first partition is first
				first = p
			}
		}
		switch {
		case first != nil:
			return o.fill(ctx, first, b)
		case !open:
			return io.EOF
		}
		for _, p := range o.partitions { // all partitions are skipped or have ended
			if passed, err := o.poll(ctx, p, pollEvery); err != nil {
				return err
			} else if passed {
				o.begin(p, b)
				return nil
			} else if p.has() {
				break
			}
		}
	}
}

// refill reads a partition's next records. It waits for them unless the partition is skipped or becomes skipped. passed
// reports that the partition has a batch without records.
func (o *Ordered) refill(ctx context.Context, p *partition) (passed bool, err error) {
	if p.skipped {
		return o.poll(ctx, p, 0)
	}
	for !p.has() && !p.ended && !passed {
		wait := min(o.Idle, 100*time.Millisecond)
		if passed, err = o.poll(ctx, p, wait); err != nil {
			return false, err
		}
		for _, q := range o.partitions { // so that partitions that end together are waited for together
			if q.idle += wait; !q.AtEnd() {
				q.idle = 0
			}
		}
		if p.idle >= o.Idle && !p.has() && !passed {
			p.skipped = true
			return false, nil
		}
	}
	return passed, nil
}

// poll reads a partition's next records, if they arrive within the given time.
func (o *Ordered) poll(ctx context.Context, p *partition, wait time.Duration) (passed bool, err error) {
	if p.ended {
		return false, nil
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p.index, p.batch.Examples = 0, p.batch.Examples[:0]
	if err = p.Next(waiting, &p.batch); err != nil {
		p.batch.Examples, p.ended = p.batch.Examples[:0], errors.Is(err, io.EOF)
		if p.ended || ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return false, nil
		}
		return false, err
	}
	if p.has() {
		p.skipped, p.idle = false, 0
	}
	return !p.has(), nil
}

// begin makes b an empty Batch of a partition.
func (o *Ordered) begin(p *partition, b *event.Batch) {
	examples := b.Examples[:0]
	*b = p.batch
	b.Examples, b.Schema = examples, o.schema.View()
	p.batch.Reset = false // only the first part of a fetch changes the position
}

// fill adds records of a partition as long as they precede the next records of the other partitions.
func (o *Ordered) fill(ctx context.Context, p *partition, b *event.Batch) error {
	o.begin(p, b)
	for last := o.last(p); p.has() && len(b.Examples) < mostExamples && (len(b.Examples) == 0 || p.time() <= last); {
		e := b.Extend()
		if err := labels.Undefer(ctx, p.Decoder, &p.batch.Examples[p.index], e, p.Unlabeled); err != nil {
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				return err
			}
			break // the next call returns the error
		}
		b.Next = e.Offset + 1
		p.index++
	}
	if !p.has() {
		b.Next = p.batch.Next
	}
	b.Schema = o.schema.View()
	return nil
}

// last returns the largest time at which a record of p precedes the next records of the other partitions.
func (o *Ordered) last(p *partition) int64 {
	last, tie := int64(math.MaxInt64), int64(1) // at equal times, the partitions before p are first
	for _, other := range o.partitions {
		switch {
		case other == p:
			tie = 0
		case other.has():
			last = min(last, other.time()-tie)
		}
	}
	return last
}
