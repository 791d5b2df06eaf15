package stream

// This file writes records to a topic.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"blankout/internal/event"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ProducerConfig configures where and how records are written.
type ProducerConfig struct {
	ConnectConfig
	Topic       string  `toml:"topic"`
	Compression string  `toml:"compression"` // codec: none, gzip, snappy, lz4 or zstd
	BatchBytes  int     `toml:"batch_bytes"` // uncompressed size of the records in one request; by default brokers reject more than 1 MB
	Rate        float64 `toml:"rate"`        // largest number of records per second; 0 means no limit
	// Linger is the longest time that a record waits for other records while Rate limits the speed.
	Linger time.Duration `toml:"linger"`
	// DeliveryTimeout limits the retries for one batch.
	DeliveryTimeout  time.Duration `toml:"delivery_timeout"`
	CreateTopics     bool          `toml:"create_topics"`
	CreatePartitions int           `toml:"create_partitions"` // number of partitions of a created topic
	TopicSettings    []string      `toml:"-"`                 // settings of a created topic, for example cleanup.policy=compact
	// Shrink reduces a record that is too large for the topic, and returns false if it cannot. If Shrink is nil, such a
	// record is an error.
	Shrink func(*Message) bool `toml:"-"`

	// Progress is called after each acknowledged batch. It receives the number of records acknowledged so far, and the
	// bytes of their keys and values.
	Progress func(records, bytes uint64) `toml:"-"`
	Log      *slog.Logger                `toml:"-"` // nil disables the log
}

// DefaultProducerConfig returns the default settings.
func DefaultProducerConfig() ProducerConfig {
	return ProducerConfig{
		ConnectConfig:    DefaultConnectConfig(),
		Compression:      "none",
		BatchBytes:       900_000,
		Linger:           10 * time.Millisecond,
		DeliveryTimeout:  2 * time.Minute,
		CreatePartitions: 1,
	}
}

// Check returns an error for the first invalid setting.
func (c *ProducerConfig) Check() error {
	if _, err := c.codec(); err != nil {
		return err
	}
	switch {
	case c.Topic == "":
		return errors.New("topic: none given")
	case c.BatchBytes < 1:
		return fmt.Errorf("batch_bytes %d, want at least 1", c.BatchBytes)
	case !(c.Rate >= 0):
		return fmt.Errorf("rate %v, want a number of records a second, or 0", c.Rate)
	case c.DeliveryTimeout <= 0:
		return fmt.Errorf("delivery_timeout %v, want a positive time", c.DeliveryTimeout)
	case c.CreateTopics && c.CreatePartitions < 1:
		return fmt.Errorf("create_partitions %d, want at least 1", c.CreatePartitions)
	}
	return nil
}

func (c *ProducerConfig) codec() (int16, error) {
	for _, codec := range []compress.Compression{compress.Gzip, compress.Snappy, compress.Lz4, compress.Zstd} {
		if c.Compression == codec.String() {
			return int16(codec), nil
		}
	}
	if c.Compression != "none" {
		return 0, fmt.Errorf("compression %q, want none, gzip, snappy, lz4 or zstd", c.Compression)
	}
	return 0, nil
}

// Message is a record to write. Its bytes may be reused after Write.
type Message struct {
	Key, Value []byte // nil is a null value
	Time       int64  // milliseconds since the Unix epoch; 0 means now
	Headers    []Header
}

// Header is a named value of a record.
type Header = kmsg.Header

// Producer writes records to a topic in batches, acknowledged by all in-sync replicas. A Producer is idempotent: if a
// response is lost and a batch is sent again, brokers drop the second copy. So an acknowledged record is in the log
// once, unless the topic is deleted and recreated in the meantime. A Producer belongs to one goroutine and starts no
// goroutines.
type Producer struct {
	config     ProducerConfig
	cluster    *cluster
	codec      int16
	id         int64
	epoch      int16
	numbers    []int32 // partition numbers
	indices    []int   // indices of numbers
	partitions []outgoing
	keyless    int // current partition for records without a key
	most       int // batch_bytes, or less if the topic does not accept that size

	started time.Time // start time for Rate
	written uint64    // number of records written by Write
	records uint64    // number of acknowledged records
	bytes   uint64
}

// outgoing has the records that wait to be written to a partition.
type outgoing struct {
	batch    batchWriter
	rest     []Message // records after batch, because the topic does not accept all at once
	bytes    uint64    // size of batch
	since    time.Time // time when the first record of batch was added
	sequence int32
	packed   []byte // encoded batch after the first attempt, else nil
	last     int64  // offset of the first record of the last acknowledged batch, -1 if unknown
}

// NewProducer connects to the brokers, finds the topic's partitions and requests a producer ID.
func NewProducer(ctx context.Context, config ProducerConfig) (*Producer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	k, err := connect(ctx, config.ConnectConfig, []string{config.Topic}, config.Log)
	if err != nil {
		return nil, err
	}
	p := &Producer{config: config, cluster: k, id: -1, epoch: -1, most: config.BatchBytes}
	p.codec, _ = config.codec()
	partitions, err := k.ensureTopic(ctx, config.Topic, config.CreateTopics, config.CreatePartitions, config.TopicSettings...)
	if err == nil {
		// A new partition may not have a leader yet: wait until it responds.
		_, err = k.offsets(ctx, config.Topic, partitions, kafka.LastOffset, false)
	}
	if err == nil {
		err = p.identify(ctx)
	}
	if err != nil {
		k.close()
		return nil, err
	}
	for i := range partitions {
		p.indices = append(p.indices, i)
	}
	p.numbers, p.partitions = partitions, make([]outgoing, len(partitions))
	return p, nil
}

// identify requests a producer ID without a transaction. kafka-go's own call cannot do this, because it looks for the
// coordinator of the transaction "".
func (p *Producer) identify(ctx context.Context) error {
	err := p.cluster.retry(ctx, "asking for a producer id", func() error {
		x := &call{request: kmsg.NewPtrInitProducerIDRequest()}
		if _, err := p.cluster.roundTrip(ctx, p.cluster.timeout, x); err != nil {
			return err // x may still be written by another goroutine
		}
		r := x.response.(*kmsg.InitProducerIDResponse)
		if r.ErrorCode != 0 {
			return kafka.Error(r.ErrorCode)
		}
		p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		return nil
	})
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		p.cluster.log.Warn("no permission for idempotent writes: a batch whose acknowledgement is lost may be written twice", "err", err)
		return nil
	}
	return err
}

// Write adds a record. Kafka's default partitioner (murmur2) selects its partition by its key. Records without a key
// are written to the partitions in turn, one batch each. A full batch is sent with the next record, and Flush sends the
// rest. If Write returns an error, m was not added, but all earlier records are kept: call Write or Flush again.
func (p *Producer) Write(ctx context.Context, m Message) error {
	i := p.keyless
	if m.Key != nil {
		i = kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: m.Key}, p.indices...)
	}
	return p.write(ctx, i, m)
}

// WriteTo adds a record to a partition.
func (p *Producer) WriteTo(ctx context.Context, partition int32, m Message) error {
	i := slices.Index(p.numbers, partition)
	if i < 0 {
		return fmt.Errorf("topic %s has no partition %d", p.config.Topic, partition)
	}
	return p.write(ctx, i, m)
}

func (p *Producer) write(ctx context.Context, i int, m Message) error {
	out := &p.partitions[i]
	if out.packed != nil || out.batch.NumRecords > 0 && len(out.batch.Records)+m.size() > p.most {
		if err := p.send(ctx, i); err != nil {
			return err
		}
	}
	if err := p.pace(ctx); err != nil {
		return err
	}
	now := time.Now()
	if out.batch.NumRecords == 0 {
		out.since = now
	}
	if m.Time == 0 {
		m.Time = now.UnixMilli()
	}
	out.add(m)
	p.written++
	return nil
}

// size returns the approximate size of m in a batch.
func (m *Message) size() int {
	size := len(m.Key) + len(m.Value) + 32
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value) + 8
	}
	return size
}

func (out *outgoing) add(m Message) {
	out.batch.add(out.batch.NumRecords, m)
	out.bytes += uint64(len(m.Key) + len(m.Value))
}

// refill moves the next batch from rest. The batch has at least one record; more records are added while the size does
// not exceed most bytes.
func (out *outgoing) refill(most int) {
	out.batch.reset()
	out.packed, out.bytes = nil, 0
	n := 0
	for n < len(out.rest) && (n == 0 || len(out.batch.Records)+out.rest[n].size() <= most) {
		out.add(out.rest[n])
		n++
	}
	clear(out.rest[:n])
	out.rest = out.rest[n:]
}

// pace waits until Rate allows the next record. pace sends records that would otherwise wait longer than Linger.
func (p *Producer) pace(ctx context.Context) error {
	if p.config.Rate == 0 {
		return nil
	}
	if p.started.IsZero() {
		p.started = time.Now()
	}
	due := p.started.Add(time.Duration(float64(p.written) / p.config.Rate * float64(time.Second)))
	if time.Until(due) <= 0 {
		return nil
	}
	for i := range p.partitions {
		out := &p.partitions[i]
		if out.batch.NumRecords > 0 && due.Sub(out.since) > p.config.Linger {
			if err := p.send(ctx, i); err != nil {
				return err
			}
		}
	}
	return Sleep(ctx, time.Until(due))
}

// Partitions returns the numbers of the topic's partitions.
func (p *Producer) Partitions() []int32 { return slices.Clone(p.numbers) }

// AppendAll writes records to a partition immediately, after the waiting records. It returns the offset of the first
// record, or -1 if the brokers do not report it. If AppendAll returns an error, some records may still have been
// written, or may be written later.
func (p *Producer) AppendAll(ctx context.Context, partition int32, messages []Message) (offset int64, err error) {
	i := slices.Index(p.numbers, partition)
	if i < 0 {
		return -1, fmt.Errorf("topic %s has no partition %d", p.config.Topic, partition)
	}
	out := &p.partitions[i]
	if out.batch.NumRecords > 0 {
		if err := p.send(ctx, i); err != nil {
			return -1, err
		}
	}
	offset = -1
	for sent := false; len(messages) > 0; sent = true {
		for n := 0; len(messages) > 0 && (n == 0 || len(out.batch.Records)+messages[0].size() <= p.most); n++ {
			if err := p.write(ctx, i, messages[0]); err != nil {
				return -1, err
			}
			messages = messages[1:]
		}
		if err := p.send(ctx, i); err != nil {
			return -1, err
		}
		if !sent {
			offset = out.last
		}
	}
	return offset, nil
}

// Tail calls do for each of the last records of each partition that has the given header, with its value. The value is
// valid until do returns.
func (p *Producer) Tail(ctx context.Context, records int64, header string, do func(partition int32, offset, time int64, value []byte)) error {
	topic := p.config.Topic
	starts, ends, err := p.cluster.bounds(ctx, topic, p.numbers)
	if err != nil {
		return err
	}
	var from event.Offsets
	for _, n := range p.numbers {
		at := max(starts[n], ends[n]-records)
		from = append(from, event.Position{Topic: topic, Partition: n, Next: at, First: at})
	}
	c := DefaultConsumerConfig()
	c.ConnectConfig, c.Topics, c.Log = p.config.ConnectConfig, []string{topic}, p.config.Log
	c.UntilEnd, c.OutOfRange, c.DedupWindow = true, "earliest", 0
	r, err := NewReader(ctx, c, from)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, x := range b.Records {
			headers, err := parseHeaders(x.Headers)
			for _, h := range headers {
				if err == nil && h.Key == header {
					do(b.Partition, x.Offset, x.Time, h.Value)
				}
			}
		}
	}
}

// Flush sends all added records and returns once they are acknowledged.
func (p *Producer) Flush(ctx context.Context) error {
	for i := range p.partitions {
		if p.partitions[i].batch.NumRecords > 0 {
			if err := p.send(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends the batch of a partition until it is acknowledged. If the batch is too large for the topic, send splits
// it, and shrinks single records.
func (p *Producer) send(ctx context.Context, i int) error {
	out := &p.partitions[i]
	for {
		err := p.sendBatch(ctx, i)
		if errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge) {
			if !p.divide(out) {
				return fmt.Errorf("%w: the record takes %d bytes; raise max.message.bytes of topic %s", err, len(out.packed)-4, p.config.Topic)
			}
			continue
		}
		if err != nil {
			return err
		}
		if len(out.rest) == 0 {
			return nil
		}
		out.refill(p.most)
	}
}

// divide reduces a batch that is too large for the topic. It halves the number of records, or calls Shrink for a single
// record.
func (p *Producer) divide(out *outgoing) bool {
	messages := out.batch.messages()
	if len(messages) > 1 {
		p.most = min(p.most, len(out.batch.Records)/2)
	} else if p.config.Shrink == nil || !p.config.Shrink(&messages[0]) {
		return false
	}
	out.rest = append(messages, out.rest...)
	out.refill(p.most)
	return true
}

// sendBatch sends a batch. The brokers may have lost the state of this producer, because the topic was recreated or its
// log truncated. Then sendBatch continues with a new producer ID.
func (p *Producer) sendBatch(ctx context.Context, i int) error {
	err := p.try(ctx, i)
	if p.id < 0 || !errors.Is(err, kafka.OutOfOrderSequenceNumber) && !errors.Is(err, kafka.UnknownProducerId) {
		return err
	}
	p.cluster.log.Warn("the log was replaced; writing continues with a new producer id", "topic", p.config.Topic, "partition", p.numbers[i], "err", err)
	if err := p.identify(ctx); err != nil {
		return err
	}
	for i := range p.partitions {
		p.partitions[i].sequence, p.partitions[i].packed = 0, nil
	}
	return p.try(ctx, i)
}

// try sends a batch with the current producer ID. A repeated batch keeps its bytes and its sequence number, so that a
// broker recognizes it.
func (p *Producer) try(ctx context.Context, i int) error {
	out := &p.partitions[i]
	partition := p.numbers[i]
	if out.packed == nil {
		packed, err := out.batch.appendTo(make([]byte, 4, 4+batchHeader+len(out.batch.Records)), kmsg.RecordBatch{
			Attributes: p.codec, ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: out.sequence,
		})
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint32(packed, uint32(len(packed)-4))
		out.packed = packed
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.DeliveryTimeout)
	defer cancel()
	doing := fmt.Sprintf("writing %d records to %s/%d", out.batch.NumRecords, p.config.Topic, partition)
	err := p.cluster.retry(ctx, doing, func() error {
		r, err := p.cluster.client.RawProduce(ctx, &kafka.RawProduceRequest{
			Topic:        p.config.Topic,
			Partition:    int(partition),
			RequiredAcks: kafka.RequireAll,
			RawRecords:   protocol.RawRecordSet{Reader: bytes.NewReader(out.packed)},
		})
		if err != nil {
			return err
		}
		out.last = r.BaseOffset
		if errors.Is(r.Error, kafka.DuplicateSequenceNumber) {
			out.last = -1
			return nil
		}
		return r.Error
	})
	if err != nil {
		return err
	}
	p.records += uint64(out.batch.NumRecords)
	p.bytes += out.bytes
	if p.id >= 0 {
		out.sequence = int32((int64(out.sequence) + int64(out.batch.NumRecords)) & (1<<31 - 1))
	}
	out.batch.reset()
	// Do not reuse the memory: after a timeout a connection may still read it.
	out.packed, out.bytes = nil, 0
	if i == p.keyless {
		p.keyless = (p.keyless + 1) % len(p.partitions)
	}
	if p.config.Progress != nil {
		p.config.Progress(p.records, p.bytes)
	}
	return nil
}

// TopicID returns the topic ID, or "" if the brokers have none. A recreated topic has another ID. TopicID retries until
// there is a response or ctx ends.
func (p *Producer) TopicID(ctx context.Context) (string, error) {
	return p.cluster.topicID(ctx, p.config.Topic)
}

// Close closes the connections. It returns an error if some records were never acknowledged. Call Flush first.
func (p *Producer) Close() error {
	p.cluster.close()
	left := 0
	for i := range p.partitions {
		left += int(p.partitions[i].batch.NumRecords) + len(p.partitions[i].rest)
	}
	if left > 0 {
		return fmt.Errorf("%d records for topic %s were not written", left, p.config.Topic)
	}
	return nil
}
