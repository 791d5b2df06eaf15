package stream

// This file reads undecoded records from topics.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"blankout/internal/event"
	"blankout/stream/record"

	"github.com/segmentio/kafka-go"
)

// Reader is a Consumer of undecoded records. A Reader is for callers that forward records, or that store something
// other than events in a topic.
type Reader struct {
	*Consumer
	raw   raw
	batch event.Batch
}

// NewReader starts reading as NewConsumer does.
func NewReader(ctx context.Context, config ConsumerConfig, from event.Offsets) (*Reader, error) {
	r := &Reader{}
	var err error
	if r.Consumer, err = NewConsumer(ctx, config, &r.raw, event.NewSchema(1, nil, 2), from); err != nil {
		return nil, err
	}
	return r, nil
}

// RawBatch has records of one partition, in offset order. The records are valid until the next call of the Reader.
type RawBatch struct {
	event.Batch // without Examples and Schema
	Records     []record.Record
	// Refused has the batches, or parts of batches, that cannot be split into records. Each is an Example with the
	// offset and the cause. The records in these batches are lost.
	Refused []event.Example
}

// Next returns the next records, as Consumer.Next does.
func (r *Reader) Next(ctx context.Context) (RawBatch, error) {
	r.raw.records, r.raw.bytes = r.raw.records[:0], r.raw.bytes[:0]
	b := &r.batch
	if err := r.Consumer.Next(ctx, b); err != nil {
		return RawBatch{}, err
	}
	out := RawBatch{Batch: *b, Records: r.raw.records}
	out.Examples, out.Schema = nil, nil
	for i := range b.Examples {
		if b.Examples[i].Refused != nil {
			out.Refused = append(out.Refused, b.Examples[i])
		}
	}
	return out, nil
}

// raw is a record.Decoder that stores copies of the records.
type raw struct {
	records []record.Record
	bytes   []byte // memory of keys and values; append-only until reset
}

func (d *raw) Decode(_ context.Context, r record.Record, e *event.Example) error {
	*e = event.Example{Features: e.Features, Label: event.Unlabeled, Weight: 1, Offset: r.Offset, Time: r.Time}
	r.Key, r.Value, r.Headers = d.keep(r.Key), d.keep(r.Value), d.keep(r.Headers)
	d.records = append(d.records, r)
	return nil
}

func (d *raw) keep(b []byte) []byte {
	if b == nil {
		return nil // null, which differs from an empty value
	}
	at := len(d.bytes)
	d.bytes = append(d.bytes, b...)
	return d.bytes[at:len(d.bytes):len(d.bytes)]
}

// Committed returns the offsets that Consumer.Commit has stored in the brokers for a group. It omits partitions without
// a stored offset.
func Committed(ctx context.Context, c ConnectConfig, group string, topics []string, log *slog.Logger) (event.Offsets, error) {
	k, err := connect(ctx, c, topics, log)
	if err != nil {
		return nil, err
	}
	defer k.close()
	var offsets event.Offsets
	for _, topic := range topics {
		partitions, err := k.partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		request := &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{}}
		for _, p := range partitions {
			request.Topics[topic] = append(request.Topics[topic], int(p))
		}
		err = k.retry(ctx, "asking for the offsets of group "+group, func() error {
			r, err := k.client.OffsetFetch(ctx, request)
			if err != nil {
				return err
			}
			if errors.Is(r.Error, kafka.GroupIdNotFound) {
				return nil // there is no stored offset
			}
			if r.Error != nil {
				return r.Error
			}
			for _, p := range r.Topics[topic] {
				if p.Error != nil {
					return fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error)
				}
				if p.CommittedOffset >= 0 {
					offsets.At(topic, int32(p.Partition), p.CommittedOffset).Next = p.CommittedOffset
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return offsets, nil
}
