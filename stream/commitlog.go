package stream

// A commit log is a topic in which several writers keep one history that is equal for all readers. Partition 0 holds
// commits in a fixed order. The other partitions hold chunks, to which commits refer by partition and offset. A chunk
// is acknowledged before its commit is written. So every reader of the commit either finds the chunks or can be certain
// that they were deleted. No record expires. Trim deletes records that a snapshot has replaced (snapshots.go).

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/stream/record"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CommitLogConfig has the settings of a commit log.
type CommitLogConfig struct {
	ConnectConfig
	Topic string
	// Create creates the topic if it does not exist, with retention.ms = -1 and without unclean leader elections. If
	// the brokers keep three or more replicas, it also sets min.insync.replicas = 2.
	Create bool
	// Partitions is the number of partitions for chunks if the topic is created.
	Partitions int
	// DeliveryTimeout limits the retries for one record.
	DeliveryTimeout time.Duration
	Log             *slog.Logger // nil disables the log
}

// DefaultCommitLogConfig returns the default settings.
func DefaultCommitLogConfig() CommitLogConfig {
	return CommitLogConfig{ConnectConfig: DefaultConnectConfig(), Create: true, Partitions: 8, DeliveryTimeout: 2 * time.Minute}
}

// Place is the partition and offset of a record in a commit log.
type Place struct {
	Partition int32
	Offset    int64
}

// CommitLog writes to a commit log. A CommitLog belongs to one goroutine and starts no goroutines.
type CommitLog struct {
	config   CommitLogConfig
	producer *Producer
	id       string
	turn     int // partition for the next chunk
}

// TrimmedError reports that records of a commit log have been deleted, because a snapshot has their content.
type TrimmedError struct {
	Topic string
	Place
	Start int64 // start offset of the partition
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("%s/%d: offset %d was deleted, the log starts at %d: continue from the newest snapshot", e.Topic, e.Partition, e.Offset, e.Start)
}

// OpenCommitLog connects to the brokers, and creates the topic if allowed.
func OpenCommitLog(ctx context.Context, c CommitLogConfig) (*CommitLog, error) {
	if c.Partitions < 1 {
		return nil, event.KeyErrorf("partitions", "partitions %d, want at least 1 for chunks", c.Partitions)
	}
	config := DefaultProducerConfig()
	config.ConnectConfig, config.Topic, config.Log, config.DeliveryTimeout = c.ConnectConfig, c.Topic, c.Log, c.DeliveryTimeout
	config.CreateTopics, config.CreatePartitions, config.TwoCopies = c.Create, 1+c.Partitions, true
	config.TopicSettings = []string{"retention.ms=-1", "retention.bytes=-1", "unclean.leader.election.enable=false"}
	p, err := NewProducer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening the commit log: %w", err)
	}
	l := &CommitLog{config: c, producer: p}
	if len(p.numbers) < 2 {
		err = fmt.Errorf("topic %s has one partition but a commit log needs at least two: delete it, or choose another group name", c.Topic)
	}
	if err == nil {
		l.id, err = p.TopicID(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the commit log: %w", err), p.Close())
	}
	return l, nil
}

// ID returns the topic ID, or "" if the brokers have none.
func (l *CommitLog) ID() string { return l.id }

// AppendChunk writes a chunk and returns its place once the chunk is acknowledged. If AppendChunk returns an error, the
// chunk may still have been written. Such a chunk is harmless, because no commit refers to it.
func (l *CommitLog) AppendChunk(ctx context.Context, data []byte) (Place, error) {
	partition := int32(1 + l.turn%(len(l.producer.numbers)-1))
	l.turn++
	offset, err := l.producer.Append(ctx, partition, Message{Value: data})
	if err == nil && offset < 0 {
		err = errors.New("the brokers do not say at which offset")
	}
	if err != nil {
		return Place{}, fmt.Errorf("writing a chunk: %w", err)
	}
	return Place{partition, offset}, nil
}

// AppendCommit writes a commit and returns its offset once the commit is acknowledged. The offset is -1 if the brokers
// do not report it. If AppendCommit returns an error, the commit may still have been written, or may be written later.
func (l *CommitLog) AppendCommit(ctx context.Context, data []byte) (offset int64, err error) {
	if offset, err = l.producer.Append(ctx, 0, Message{Value: data}); err != nil {
		return -1, fmt.Errorf("writing a commit: %w", err)
	}
	return offset, nil
}

// Partitions returns the number of partitions, including the partition of the commits.
func (l *CommitLog) Partitions() int { return len(l.producer.numbers) }

// End returns the offset after the last commit.
func (l *CommitLog) End(ctx context.Context) (int64, error) {
	ends, err := l.producer.cluster.offsets(ctx, l.config.Topic, []int32{0}, kafka.LastOffset, false)
	return ends[0], err
}

// Trim deletes the records before the given offset of each partition. before is indexed by partition number; an offset
// of 0 or less deletes nothing. Deleted records cannot be restored.
func (l *CommitLog) Trim(ctx context.Context, before []int64) error {
	k := l.producer.cluster
	for partition, offset := range before {
		if offset <= 0 {
			continue
		}
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = int32(partition), offset
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic, t.Partitions = l.config.Topic, append(t.Partitions, p)
		doing := fmt.Sprintf("deleting the records of %s/%d before offset %d", l.config.Topic, partition, offset)
		trying, cancel := context.WithTimeout(ctx, l.config.DeliveryTimeout)
		err := k.retry(trying, doing, func() error {
			request := kmsg.NewPtrDeleteRecordsRequest()
			request.Version, request.TimeoutMillis, request.Topics = 1, int32(k.timeout.Milliseconds()), append(request.Topics, t)
			x := &leaderCall{call{request: request}, l.config.Topic, int32(partition)}
			ctx, cancel := context.WithTimeout(trying, k.timeout)
			defer cancel()
			if _, err := k.transport.RoundTrip(ctx, k.addr, x); err != nil {
				return err
			}
			for _, topic := range x.response.(*kmsg.DeleteRecordsResponse).Topics {
				for _, p := range topic.Partitions {
					if p.ErrorCode != 0 {
						return kafka.Error(p.ErrorCode)
					}
				}
			}
			return nil
		})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// LogRange returns the offsets of the records in a partition: start <= offset < end.
func LogRange(ctx context.Context, c ConnectConfig, topic string, partition int32, log *slog.Logger) (start, end int64, err error) {
	k, err := connect(ctx, c, []string{topic}, log)
	if err != nil {
		return 0, 0, err
	}
	defer k.close()
	numbers, err := k.partitions(ctx, topic)
	if err == nil && !slices.Contains(numbers, partition) {
		err = fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	if err != nil {
		return 0, 0, err
	}
	one := []int32{partition}
	starts, err := k.offsets(ctx, topic, one, kafka.FirstOffset, false)
	if err != nil {
		return 0, 0, err
	}
	ends, err := k.offsets(ctx, topic, one, kafka.LastOffset, false)
	return starts[partition], ends[partition], err
}

// Close closes the connections. A record whose write has failed is discarded.
func (l *CommitLog) Close() error {
	_ = l.producer.Close() // the error concerns that record, and was reported
	return nil
}

// CommitLogReader reads the commits of a commit log in order, and chunks by their places. It belongs to one goroutine.
// Close ends the goroutines of its Reader.
type CommitLogReader struct {
	config   CommitLogConfig
	topic    string
	id       string
	reader   *Reader
	wait     time.Duration
	unpack   unpacker
	readOnly bool // writes no marker records

	partitions []int32 // partitions known so far
}

// ReadCommitLog reads a commit log from offset from on. id is the CommitLog.ID when that offset was stored, or "" if
// unknown. If toEnd is true, the reader stops at the current end of the commit log. The error is a *TrimmedError if
// some of the requested commits have been deleted.
func ReadCommitLog(ctx context.Context, c CommitLogConfig, id string, from int64, toEnd bool) (*CommitLogReader, error) {
	config := DefaultConsumerConfig()
	config.ConnectConfig, config.Topics, config.Partitions, config.Log = c.ConnectConfig, []string{c.Topic}, []int32{0}, c.Log
	config.UntilEnd, config.MaxWait = toEnd, 100*time.Millisecond
	var at event.Offsets
	at.At(c.Topic, 0, from).TopicID = id
	r, err := NewReader(ctx, config, at)
	if err != nil {
		return nil, trimmed(err)
	}
	return &CommitLogReader{config: c, readOnly: toEnd, topic: c.Topic, id: r.ids[c.Topic], reader: r, wait: c.RequestTimeout, unpack: unpacker{limit: maxUnpacked}}, nil
}

// trimmed converts an error about an offset before the start of the log to a *TrimmedError.
func trimmed(err error) error {
	var out *OffsetOutOfRangeError
	if errors.As(err, &out) && out.Offset < out.Start {
		return &TrimmedError{out.Topic, Place{out.Partition, out.Offset}, out.Start}
	}
	return err
}

// Next returns the next commits, and waits for them as Reader.Next does. The first call returns no commits. The error
// is a *TrimmedError if the commits have been deleted, or io.EOF at the end of a reader with toEnd.
func (r *CommitLogReader) Next(ctx context.Context) ([]record.Record, error) {
	b, err := r.reader.Next(ctx)
	if err != nil {
		return nil, trimmed(err)
	}
	if len(b.Refused) > 0 {
		e := &b.Refused[0]
		return nil, fmt.Errorf("%s/%d offset %d: a commit cannot be read: %s", r.topic, b.Partition, e.Offset, e.Refused.Detail)
	}
	return b.Records, nil
}

// ID returns the ID of the topic, or "" if the brokers have none.
func (r *CommitLogReader) ID() string { return r.id }

// Lag returns the number of commits that Next has not returned yet.
func (r *CommitLogReader) Lag() int64 {
	lag := int64(0)
	for _, p := range r.reader.Stats().Partitions {
		lag += p.Lag
	}
	return lag
}

// Failing returns the reason why the commit log cannot be read, or "" if it can be read.
func (r *CommitLogReader) Failing() string {
	s := r.reader.Stats()
	return s.Failing()
}

// Chunk returns the record at a place; the caller owns it. It returns nil if no such record exists or will ever exist.
// Chunk retries until the result is certain, or until ctx ends. The error is a *TrimmedError for places before the
// start of the log.
//
// A broker that was paused may still respond as the leader of a partition that another broker now leads. Such a broker
// may report an end that is too early. So Chunk writes an empty record to the partition before it returns nil for a
// place beyond the end. A broker that is no longer the leader does not acknowledge this record. A reader with toEnd
// writes nothing. Instead, such a reader repeats the request until RequestTimeout has passed.
func (r *CommitLogReader) Chunk(ctx context.Context, at Place) (data []byte, err error) {
	k := r.reader.cluster
	if at.Offset < 0 || at.Partition < 1 {
		return nil, nil
	}
	if !slices.Contains(r.partitions, at.Partition) {
		k.forget(k.now())
		if r.partitions, err = k.partitions(ctx, r.topic); err != nil {
			return nil, err
		}
		if !slices.Contains(r.partitions, at.Partition) {
			return nil, nil
		}
	}
	var missing *TrimmedError
	seems := &past{began: time.Now(), end: -1}
	err = k.retry(ctx, fmt.Sprintf("reading %s/%d at offset %d", r.topic, at.Partition, at.Offset), func() error {
		if data, err = r.chunk(ctx, at, seems); errors.As(err, &missing) {
			return nil
		}
		return err
	})
	if missing != nil {
		return nil, missing
	}
	return data, err
}

// past is the state of a search for a place that seems to be beyond the end of its partition.
type past struct {
	began time.Time
	end   int64 // certain end of the partition, or -1 if unknown
}

func (r *CommitLogReader) chunk(ctx context.Context, at Place, seems *past) ([]byte, error) {
	k := r.reader.cluster
	x := &fetchExchange{}
	x.set(r.topic, at.Partition, at.Offset, 2<<20, 0, false)
	asking, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	if _, err := k.transport.RoundTrip(asking, k.addr, x); err != nil {
		return nil, err
	}
	var f fetchResponse
	if err := x.parse(&f); err != nil {
		return nil, err
	}
	if f.code == kafka.OffsetOutOfRange {
		return nil, r.outside(ctx, at, seems)
	}
	if f.code != 0 {
		return nil, f.code
	}
	for rest := f.records; len(rest) > 0; {
		var batch recordBatch
		var err error
		if batch, rest, err = parseBatch(rest); err != nil {
			return nil, fmt.Errorf("%s/%d at offset %d: %w", r.topic, at.Partition, at.Offset, err)
		}
		if batch.next <= at.Offset {
			continue
		}
		if batch.base > at.Offset || batch.control() {
			return nil, nil
		}
		records, err := r.unpack.unpack(batch.codec(), batch.records)
		if err != nil {
			return nil, nil // no other reader can decompress it either
		}
		one := recordReader{rest: records, left: batch.count}
		var raw rawRecord
		for {
			ok, err := one.next(&raw)
			if err != nil || !ok {
				return nil, nil
			}
			if batch.base+int64(raw.offsetDelta) == at.Offset {
				if batch.codec() == 0 && raw.value != nil {
					return slices.Clip(raw.value), nil // memory of a response that has no other reader
				}
				return append([]byte{}, raw.value...), nil
			}
		}
	}
	if f.highWater > at.Offset {
		return nil, fmt.Errorf("%s/%d: no answer about offset %d, though the partition ends at %d", r.topic, at.Partition, at.Offset, f.highWater)
	}
	return nil, r.outside(ctx, at, seems)
}

// outside handles a place without a record. A record before the start of the log was deleted, and a record after the
// end does not exist. If the record has appeared in the meantime, it is requested again.
func (r *CommitLogReader) outside(ctx context.Context, at Place, seems *past) error {
	k, one := r.reader.cluster, []int32{at.Partition}
	starts, err := k.offsets(ctx, r.topic, one, kafka.FirstOffset, false)
	if err != nil {
		return err
	}
	ends, err := k.offsets(ctx, r.topic, one, kafka.LastOffset, false)
	switch {
	case err != nil:
		return err
	case at.Offset < starts[at.Partition]:
		return &TrimmedError{r.topic, at, starts[at.Partition]}
	case at.Offset < ends[at.Partition]:
		return kafka.OffsetNotAvailable // a temporary error
	case r.readOnly && time.Since(seems.began) >= r.wait:
		return nil
	case !r.readOnly && seems.end < 0:
		if seems.end, err = r.mark(ctx, at.Partition); err != nil {
			return err
		}
	}
	if seems.end >= 0 && at.Offset >= seems.end {
		return nil
	}
	return kafka.OffsetNotAvailable
}

// mark writes an empty record to a partition and returns its offset, or -1 if unknown. All records acknowledged earlier
// have smaller offsets.
func (r *CommitLogReader) mark(ctx context.Context, partition int32) (offset int64, err error) {
	c := DefaultProducerConfig()
	c.ConnectConfig, c.Topic, c.Log, c.DeliveryTimeout = r.config.ConnectConfig, r.topic, r.config.Log, r.config.DeliveryTimeout
	p, err := NewProducer(ctx, c)
	if err != nil {
		return -1, err
	}
	offset, err = p.Append(ctx, partition, Message{})
	_ = p.Close() // the error concerns that record, and was reported
	return offset, err
}

// Close stops reading.
func (r *CommitLogReader) Close() error {
	if r.unpack.zstd != nil {
		r.unpack.zstd.Close()
	}
	return r.reader.Close()
}
