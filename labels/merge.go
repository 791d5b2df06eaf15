package labels

// This file puts the records of several partitions into one order.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"blankout"
	"blankout/record"
)

// Merge is the Source of the records of partitions of events and labels, in the order in
// which they came by the time of their logs: the earliest of the partitions' next records
// is the next of all. It therefore waits until every partition has shown its next record
// or has ended. Of equal times events come before labels, then the order is that of
// topic, partition and offset. Within a partition time does not go back: a record that
// says it is older than the one before counts as being as old as that.
//
// Events and labels are decoded in this order too, so that fields and classes get their
// numbers from the logs alone. What it fills states in Batch.Labels what it holds, and in
// Example.Arrival when a record came.
type Merge struct {
	schema *blankout.Schema
	lanes  []*lane
}

// Lane is a partition, or a file, that a Merge reads.
type Lane struct {
	Topic     string // or the file's name
	Partition int32
	Labels    bool // else events
	// Next fills a Batch with further records of the partition, which Defer's decoder has
	// passed on. See blankout.Source.
	Next func(context.Context, *blankout.Batch) error
	// Decoder makes an event of a record, or the Key, Label and Weight of a label.
	Decoder record.Decoder
}

type lane struct {
	Lane
	batch blankout.Batch
	at    int // of batch
	ended bool
	clock int64 // of the record before the one at hand
}

// time returns when the record at hand came.
func (l *lane) time() int64 { return max(l.clock, l.batch.Examples[l.at].Time) }

// batchExamples bounds a Batch.
const batchExamples = 512

// NewMerge returns the Source of the lanes, whose decoders add to the Schema. The clocks
// are those of Join.Clocks.
func NewMerge(schema *blankout.Schema, lanes []Lane, clocks []Clock) *Merge {
	m := &Merge{schema: schema}
	for _, l := range lanes {
		clock := int64(math.MinInt64)
		if i, ok := slices.BinarySearchFunc(clocks, Clock{Topic: l.Topic, Partition: l.Partition}, compareClock); ok {
			clock = clocks[i].Time
		}
		m.lanes = append(m.lanes, &lane{Lane: l, clock: clock})
	}
	slices.SortStableFunc(m.lanes, func(a, b *lane) int {
		of := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(of[a.Labels], of[b.Labels]), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return m
}

// Next fills b with the next records, all of one partition.
func (m *Merge) Next(ctx context.Context, b *blankout.Batch) error {
	var first *lane
	for _, l := range m.lanes {
		for !l.ended && l.at == len(l.batch.Examples) {
			err := l.Next(ctx, &l.batch)
			if errors.Is(err, io.EOF) {
				l.ended, l.at, l.batch.Examples = true, 0, l.batch.Examples[:0]
				break
			}
			if err != nil {
				return err
			}
			if l.at = 0; len(l.batch.Examples) == 0 { // it only says where the partition is
				m.begin(l, b)
				b.Next, b.Reset = l.batch.Next, l.batch.Reset
				return nil
			}
		}
		if !l.ended && (first == nil || l.time() < first.time()) { // of equal times the lane that is first in order
			first = l
		}
	}
	if first == nil {
		return io.EOF
	}
	return m.fill(ctx, first, b)
}

func (m *Merge) begin(l *lane, b *blankout.Batch) {
	from := &l.batch
	*b = blankout.Batch{Topic: from.Topic, TopicID: from.TopicID, Partition: from.Partition, Examples: b.Examples[:0], HighWater: from.HighWater, Labels: l.Labels, Schema: m.schema.View()}
}

// fill takes records of a lane for as long as they come before those of the others.
func (m *Merge) fill(ctx context.Context, l *lane, b *blankout.Batch) error {
	m.begin(l, b)
	for len(b.Examples) < batchExamples && l.at < len(l.batch.Examples) {
		if len(b.Examples) > 0 && !m.isFirst(l) {
			break
		}
		from := &l.batch.Examples[l.at]
		b.Examples = slices.Grow(b.Examples, 1)[:len(b.Examples)+1]
		e := &b.Examples[len(b.Examples)-1]
		if err := m.decode(ctx, l, from, e); err != nil {
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				return err
			}
			break
		}
		l.clock = l.time()
		e.Arrival = l.clock
		l.at++
		b.Next = e.Offset + 1
	}
	if l.at == len(l.batch.Examples) {
		b.Next = max(b.Next, l.batch.Next)
	}
	b.Schema = m.schema.View()
	return nil
}

func (m *Merge) isFirst(l *lane) bool {
	behind := false // lanes after l go first only if they are earlier
	for _, other := range m.lanes {
		switch {
		case other == l:
			behind = true
		case other.ended:
		case other.time() < l.time(), !behind && other.time() == l.time():
			return false
		}
	}
	return true
}

// decode makes an event or a label of a record that has waited for its turn.
func (m *Merge) decode(ctx context.Context, l *lane, from, e *blankout.Example) error {
	key, value := e.Key[:0], e.Value[:0]
	if from.Refused != nil {
		*e = blankout.Example{Features: e.Features, Label: blankout.Unlabelled, Offset: from.Offset, Time: from.Time, Refused: from.Refused}
		e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
		e.Key = append(key, from.Key...)
	} else {
		r := record.Record{Key: from.Key, Value: from.Value, Offset: from.Offset, Time: from.Time}
		if err := l.Decoder.Decode(ctx, r, e); err != nil {
			return err
		}
		e.Key = append(key, e.Key...)
		if e.Value != nil {
			e.Value = append(value, e.Value...)
		}
		if e.Refused == nil {
			m.check(l, from, e)
		}
		if e.Refused != nil {
			e.Refused.Value = slices.Clone(e.Refused.Value)
		}
	}
	e.Fingerprint = from.Fingerprint
	return nil
}

// maxID is the longest id.
const maxID = 1024

// check refuses an event or a label that cannot be joined.
func (m *Merge) check(l *lane, from, e *blankout.Example) {
	refuse := func(reason blankout.Reason, detail string) {
		*e = blankout.Example{Label: blankout.Unlabelled, Key: e.Key, Offset: e.Offset, Time: e.Time,
			Refused: &blankout.Refusal{Reason: reason, Detail: detail, Value: from.Value}}
	}
	switch {
	case len(e.Key) == 0:
		refuse(blankout.ReasonID, "there is no id to join events and labels by: name the field that holds it with record.id and labels.id (--id)")
	case len(e.Key) > maxID:
		refuse(blankout.ReasonID, fmt.Sprintf("an id of %d bytes: the most is %d", len(e.Key), maxID))
	case l.Labels && e.Label == blankout.Unlabelled:
		refuse(blankout.ReasonLabel, "there is no label in the record of a label")
	}
}

// Deferred is a record.Decoder that leaves records as they are, for a Lane.
type Deferred struct {
	// Clock tells the time of a record that its log does not tell, as in a file. Nil
	// leaves the log's.
	Clock record.Decoder
	probe blankout.Example
}

// Decode passes r on.
func (d *Deferred) Decode(ctx context.Context, r record.Record, e *blankout.Example) error {
	*e = blankout.Example{Features: e.Features, Label: blankout.Unlabelled, Offset: r.Offset, Time: r.Time, Key: r.Key, Value: r.Value}
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	if r.Cut {
		e.Value, e.Refused = nil, &blankout.Refusal{Reason: blankout.ReasonOversize, Detail: "a line of more than max_bytes; its rest is skipped", Value: r.Value}
		return nil
	}
	if d.Clock == nil {
		return nil
	}
	if err := d.Clock.Decode(ctx, r, &d.probe); err != nil {
		return err
	}
	if d.probe.Refused == nil { // else it will be refused in its turn
		e.Time = d.probe.Time
	}
	return nil
}

// LabelDecoder decodes the records of labels: Key, Label and Weight of an Example.
// Their classes are those of a Schema of events.
type LabelDecoder struct {
	record.Decoder
	own, events *blankout.Schema
}

// NewLabelDecoder returns a LabelDecoder whose decoder is made by of, for a Schema of its own.
func NewLabelDecoder(of func(*blankout.Schema) (record.Decoder, error), events *blankout.Schema) (*LabelDecoder, error) {
	own := blankout.NewSchema(1, nil, events.MaxClasses)
	decoder, err := of(own)
	if err != nil {
		return nil, err
	}
	return &LabelDecoder{decoder, own, events}, nil
}

// Decode decodes a label.
func (d *LabelDecoder) Decode(ctx context.Context, r record.Record, e *blankout.Example) error {
	d.own.Classes = d.events.Classes
	if err := d.Decoder.Decode(ctx, r, e); err != nil {
		return err
	}
	d.events.Classes = d.own.Classes
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing = nil, nil
	return nil
}

// LabelRecord returns how the records of labels are read: as those of events, but that
// they hold nothing beside id, label, weight and time.
func (c *Config) LabelRecord(events record.Config) record.Config {
	r := events
	r.Label, r.ID, r.Weight = cmp.Or(c.Label, events.Label), cmp.Or(c.ID, events.ID), c.Weight
	r.Drop, r.Categorical, r.Text, r.Ngrams, r.Groups, r.GroupEvery, r.Crosses = nil, nil, nil, 1, nil, 0, nil
	r.Unlabelled, r.Known, r.MaxNames, r.MaxFields = false, false, 0, 1
	return r
}
