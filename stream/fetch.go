package stream

// This file reads one partition. A fetcher requests record batches from the leader and passes them on. A fetcher
// continues after all temporary failures of a cluster. Fetch requests use kafka-go's raw path: kafka-go routes and
// connects. The response is read into a buffer of the fetcher and decoded in place, five times as fast as with
// kafka-go's Reader.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/twmb/franz-go/pkg/kbin"
)

// maxResponse is the largest fetch response. A broker sends at least one whole batch of any size, so maxResponse is
// also the largest batch that can be read.
const maxResponse = 256 << 20

// fetchExchange is one fetch request and its response, for one partition. It implements protocol.RawExchanger. The
// connection owns body until RoundTrip returns. If RoundTrip returns the context's error, the connection owns body
// forever.
type fetchExchange struct {
	request fetch.Request
	version int16
	body    []byte
}

func (x *fetchExchange) set(topic string, partition int32, offset int64, maxBytes int32, wait time.Duration) {
	x.request = fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(wait.Milliseconds()),
		MinBytes:       1,
		MaxBytes:       maxBytes,
		SessionEpoch:   -1, // no fetch session is used
		IsolationLevel: int8(kafka.ReadCommitted),
		Topics: []fetch.RequestTopic{{
			Topic: topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          partition,
				CurrentLeaderEpoch: -1,
				FetchOffset:        offset,
				LogStartOffset:     -1,
				PartitionMaxBytes:  maxBytes,
			}},
		}},
	}
}

func (x *fetchExchange) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (x *fetchExchange) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return x.request.Broker(c)
}

// Required stores the version negotiated with the broker.
func (x *fetchExchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[protocol.Fetch]
	return true
}

func (x *fetchExchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if x.version < 4 {
		return nil, fmt.Errorf("the broker's fetch version is %d, 4 (Kafka 0.11) is the oldest that can be used", x.version)
	}
	if err := protocol.WriteRequest(rw, x.version, 1, "blankout", &x.request); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > maxResponse {
		return nil, fmt.Errorf("fetch response of %d bytes", n)
	}
	// A broker may send, or claim to send, one batch that is larger than requested. Beyond twice the requested size,
	// memory grows only with the received bytes.
	for read := 0; ; {
		end := min(n, max(2*int(x.request.MaxBytes)+1<<16, 2*read))
		if cap(x.body) < end {
			x.body = append(make([]byte, 0, end+end/4), x.body[:read]...)
		}
		x.body = x.body[:end]
		if _, err := io.ReadFull(rw, x.body[read:]); err != nil || end == n {
			return x, err
		}
		read = end
	}
}

// fetchResponse is a parsed response. records and aborted borrow its bytes.
type fetchResponse struct {
	code      kafka.Error
	highWater int64
	aborted   []abortedTransaction
	records   []byte
}

// abortedTransaction marks aborted records: the records of a producer from offset first up to its next abort marker.
type abortedTransaction struct{ producer, first int64 }

var errResponse = errors.New("fetch response that ends too early")

// parse parses the response in x.body, which must contain a single partition.
func (x *fetchExchange) parse(r *fetchResponse) error {
	c := kbin.Reader{Src: x.body} // a length beyond the end makes it fail, and allocates nothing
	c.Int32()                     // correlation ID
	c.Int32()                     // throttle time
	if x.version >= 7 {
		r.code = kafka.Error(c.Int16())
		c.Int32() // session ID
		if r.code != 0 && c.Ok() {
			return nil
		}
	}
	if topics := c.Int32(); topics != 1 && c.Ok() {
		return fmt.Errorf("fetch response about %d topics, asked for one", topics)
	}
	topic := c.String()
	if partitions := c.Int32(); partitions != 1 && c.Ok() {
		return fmt.Errorf("fetch response about %d partitions, asked for one", partitions)
	}
	partition := c.Int32()
	r.code = kafka.Error(c.Int16())
	r.highWater = c.Int64()
	c.Int64() // last stable offset
	if x.version >= 5 {
		c.Int64() // log start offset
	}
	r.aborted = r.aborted[:0]
	for n := c.Int32(); n > 0 && c.Ok(); n-- {
		r.aborted = append(r.aborted, abortedTransaction{c.Int64(), c.Int64()})
	}
	if x.version >= 11 {
		c.Int32() // preferred replica
	}
	r.records = c.Span(max(int(c.Int32()), 0))
	if !c.Ok() {
		return errResponse
	}
	if want := x.request.Topics[0]; topic != want.Topic || partition != want.Partitions[0].Partition {
		return fmt.Errorf("fetch response about %s/%d, asked for %s/%d", topic, partition, want.Topic, want.Partitions[0].Partition)
	}
	return nil
}

// fetched is the result of a fetch: consecutive batches of records, or only a new position of the partition. It returns
// to the free list of its fetcher once it has been read.
type fetched struct {
	from      *fetcher
	exchange  *fetchExchange // owns the bytes that batches borrow
	response  fetchResponse
	batches   []recordBatch // batches to deliver, in offset order
	topicID   string        // ID of the topic, "" if unknown
	first     int64         // earlier records were not requested
	wanted    int64         // earlier records are not delivered
	next      int64
	highWater int64
	reset     bool // next may be before earlier positions
	last      bool // the requested end of the partition has been reached
	err       error
}

// OffsetOutOfRangeError reports that the next offset is not in the log. Records were deleted before they were read, or
// the topic was recreated.
type OffsetOutOfRangeError struct {
	Topic      string
	Partition  int32
	Offset     int64 // the requested offset
	Start, End int64 // the log has the offsets Start <= offset < End
}

func (e *OffsetOutOfRangeError) Error() string {
	what := fmt.Sprintf("the log has lost %d records before it", e.Start-e.Offset)
	if e.Offset > e.End {
		what = "the topic was truncated or created again"
	}
	return fmt.Sprintf("%s/%d: offset %d is out of range, the log holds %d to %d: %s; set kafka.out_of_range to earliest or latest to continue there, or restart with --reset",
		e.Topic, e.Partition, e.Offset, e.Start, e.End, what)
}

// CorruptBatchError reports that a broker repeatedly sends an invalid record batch.
type CorruptBatchError struct {
	Topic     string
	Partition int32
	Offset    int64 // the batch begins at or after this offset
	Err       error
}

func (e *CorruptBatchError) Error() string {
	return fmt.Sprintf("%s/%d: at offset %d: %v; check the broker's disk, or delete the records up to the next good batch (kafka-delete-records) and set out_of_range = \"earliest\"",
		e.Topic, e.Partition, e.Offset, e.Err)
}

func (e *CorruptBatchError) Unwrap() error { return e.Err }

// corruptTries is the number of times that a corrupt batch is fetched. Bytes may be damaged in transit, but a damaged
// file stays damaged.
const corruptTries = 3

// fetcher reads one partition, in its own goroutine.
type fetcher struct {
	consumer  *Consumer
	unlabeled bool // labels are ignored
	topic     string
	topicID   string // ID of the topic that next refers to, "" if unknown
	partition int32
	next      int64 // next offset to fetch
	wanted    int64 // first offset to deliver; earlier records are only checked for repetitions
	end       int64 // offset where reading ends; -1 means never
	maxBytes  int32
	moved     bool          // the policy has changed the stored offset
	free      chan *fetched // unused buffers

	repeated *repeated // owned by the caller of Next; nil disables deduplication

	// Other goroutines read and set the fields below.
	delivered atomic.Int64 // offset after the last record that Next has returned
	highWater atomic.Int64
	suspect   atomic.Bool            // requests a check whether the topic is still the same
	failing   atomic.Pointer[string] // cause of the current retries; nil without retries
}

// run fetches until ctx ends, the end is reached or an error is final. It first passes on the start position, which can
// then be stored even if there are no records.
func (f *fetcher) run(ctx context.Context) {
	for first := true; ; first = false {
		var buf *fetched
		select {
		case buf = <-f.free:
		case <-ctx.Done():
			return
		}
		if first {
			buf.topicID, buf.next, buf.wanted, buf.highWater, buf.reset = f.topicID, f.next, f.wanted, f.highWater.Load(), f.moved
		} else {
			buf.err = f.fill(ctx, buf)
		}
		final := buf.last || buf.err != nil
		select {
		case f.consumer.filled <- buf:
		case <-ctx.Done():
			return
		}
		if final {
			return
		}
	}
}

// fill fetches until buf has a result to pass on.
func (f *fetcher) fill(ctx context.Context, buf *fetched) error {
	buf.topicID, buf.batches, buf.wanted, buf.reset, buf.last = f.topicID, buf.batches[:0], f.wanted, false, false
	corrupt := 0
	for attempt := 1; ; {
		if f.end >= 0 && f.next >= f.end {
			buf.next, buf.highWater, buf.last = f.next, f.highWater.Load(), true
			return nil
		}
		epoch := f.consumer.cluster.now()
		err := f.fetch(ctx, buf)
		if err == nil && (f.suspect.Load() || attempt > 1) { // after a failure the topic may have been recreated
			err = f.sameTopic(ctx)
		}
		var code kafka.Error
		var damaged *CorruptBatchError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			var moved bool
			if moved, err = f.scan(buf); err != nil {
				errors.As(err, &damaged)
				if corrupt++; corrupt >= corruptTries {
					return err
				}
				break
			}
			if attempt > 1 {
				f.consumer.log.Info("fetching again", "topic", f.topic, "partition", f.partition, "attempts", attempt)
			}
			attempt, corrupt = 1, 0
			f.failing.Store(nil)
			if moved {
				return nil
			}
			continue // no records arrived within MaxWait
		case errors.Is(err, kafka.OffsetOutOfRange) && f.next < f.wanted:
			f.next = f.wanted // only records for deduplication are no longer in the log
			continue
		case errors.Is(err, kafka.OffsetOutOfRange), is[*TopicRecreatedError](err):
			moved, err := f.outOfRange(ctx)
			if err != nil {
				return err
			}
			if moved {
				f.wanted = f.next
				buf.topicID, buf.next, buf.wanted, buf.highWater, buf.reset = f.topicID, f.next, f.wanted, f.highWater.Load(), true
				f.failing.Store(nil)
				return nil
			}
			f.consumer.retried("offset-out-of-range")
			if !backoff(ctx, attempt) { // the start of the log changed during the request
				return ctx.Err()
			}
			attempt++
			continue
		}
		cause := f.consumer.cluster.cause(ctx, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if damaged == nil && permanent(cause) {
			return fmt.Errorf("fetching %s/%d at offset %d: %w", f.topic, f.partition, f.next, explain(cause, false))
		}
		label := "connection"
		var network net.Error
		switch {
		case damaged != nil:
			label = "corrupt-batch"
		case errors.As(cause, &code):
			label = cmp.Or(retryLabels[code], "broker-error")
		case errors.As(cause, &network) && network.Timeout():
			label = "timeout"
		}
		f.consumer.retried(label)
		f.failing.Store(&label)
		if logged(attempt) {
			f.consumer.log.Warn("fetching failed, trying again", "topic", f.topic, "partition", f.partition,
				"offset", f.next, "attempt", attempt, "cause", label, "err", explain(cause, false))
		}
		f.consumer.cluster.forget(epoch)
		if !backoff(ctx, attempt) {
			return ctx.Err()
		}
		attempt++
	}
}

// retryLabels has the causes under which broker errors are counted as retries. Other errors are broker-error.
var retryLabels = map[kafka.Error]string{
	kafka.UnknownTopicOrPartition: "unknown-partition",
	kafka.LeaderNotAvailable:      "no-leader",
	kafka.NotLeaderForPartition:   "not-leader",
	kafka.FencedLeaderEpoch:       "not-leader",
	kafka.UnknownLeaderEpoch:      "not-leader",
}

// fetch sends one request and parses the response into buf.
func (f *fetcher) fetch(ctx context.Context, buf *fetched) error {
	c := f.consumer
	if buf.exchange == nil {
		buf.exchange = new(fetchExchange)
	}
	x := buf.exchange
	if cap(x.body) > 2*int(f.maxBytes)+1<<16 {
		x.body = nil // do not keep memory that was allocated for a large batch
	}
	x.set(f.topic, f.partition, f.next, f.maxBytes, c.config.MaxWait)
	if _, err := c.cluster.roundTrip(ctx, c.config.MaxWait+c.config.RequestTimeout, x); err != nil {
		// The connection may still write into the buffer of the exchange after the context was canceled. Never use that
		// buffer again.
		buf.exchange = nil
		return err
	}
	c.fetches.Add(1)
	if err := x.parse(&buf.response); err != nil {
		return fmt.Errorf("fetching %s/%d at offset %d: %w", f.topic, f.partition, f.next, err)
	}
	if buf.response.code != 0 {
		return buf.response.code
	}
	return nil
}

// scan checks the headers of the fetched batches, selects the batches to deliver and advances the position. It reports
// whether the position has changed. The error is a *CorruptBatchError for the batch at the position.
func (f *fetcher) scan(buf *fetched) (moved bool, err error) {
	r := &buf.response
	f.highWater.Store(r.highWater)
	buf.first, buf.highWater = f.next, r.highWater
	aborted := r.aborted // aborted transactions, sorted by first offset
	var aborting []int64 // producers whose records are skipped as aborted
	next, partial := f.next, false
	for rest := r.records; len(rest) > 0; {
		var batch recordBatch
		var err error
		batch, rest, err = parseBatch(rest)
		if err == errPartialBatch {
			if next == f.next { // not even one batch fits
				if f.maxBytes >= maxResponse/2 {
					return false, f.corrupt(fmt.Errorf("record batch of more than %d bytes", f.maxBytes))
				}
				f.maxBytes *= 2
			}
			partial = true
			break // cut off by the broker; the next fetch has the rest
		}
		if err == nil && batch.FirstOffset < next && batch.next > next && next != f.next {
			err = fmt.Errorf("record batch [%d, %d) begins before the end of the one before it, %d", batch.FirstOffset, batch.next, next)
		}
		if err != nil {
			if len(buf.batches) > 0 || next > f.next {
				break // pass on the valid part; the next fetch gets the error again
			}
			return false, f.corrupt(err)
		}
		if batch.next <= next {
			continue // completely before the requested offset
		}
		if f.end >= 0 && batch.FirstOffset >= f.end {
			next = f.end // a gap extends to the end
			break
		}
		next = batch.next
		if batch.ProducerID >= 0 {
			for len(aborted) > 0 && aborted[0].first < batch.next {
				aborting = append(aborting, aborted[0].producer)
				aborted = aborted[1:]
			}
		}
		if batch.control() {
			if batch.aborts() {
				aborting = slices.DeleteFunc(aborting, func(id int64) bool { return id == batch.ProducerID })
			}
			continue
		}
		if batch.transactional() && slices.Contains(aborting, batch.ProducerID) || batch.NumRecords == 0 {
			continue
		}
		buf.batches = append(buf.batches, batch)
	}
	if f.end >= 0 && next > f.end {
		next = f.end
	}
	if next == f.next && len(r.records) > 0 && !partial {
		return false, f.corrupt(errors.New("the response holds only batches that end before it"))
	}
	if moved = next > f.next; moved {
		f.maxBytes = f.consumer.config.MaxBytes // undo the increase for a large batch
	}
	f.next, buf.next = next, next
	buf.last = f.end >= 0 && next >= f.end
	return moved, nil
}

func (f *fetcher) corrupt(err error) error {
	return &CorruptBatchError{Topic: f.topic, Partition: f.partition, Offset: f.next, Err: err}
}

// sameTopic returns a *TopicRecreatedError if the topic has been recreated since it was read.
func (f *fetcher) sameTopic(ctx context.Context) error {
	f.suspect.Store(false)
	ids, err := f.consumer.cluster.topicIDs(ctx, []string{f.topic})
	if err != nil {
		f.suspect.Store(true)
		return err
	}
	return f.sameID(ids[f.topic])
}

func (f *fetcher) sameID(is string) error {
	if !f.consumer.recreated(f.topicID, is) {
		return nil
	}
	return &TopicRecreatedError{Topic: f.topic, Partition: f.partition, Offset: f.next, Was: f.topicID, Is: is}
}

// outOfRange requests the start and end of the log, checks that the topic is the same, and applies the policy. It
// returns false if the offset is now in the log.
func (f *fetcher) outOfRange(ctx context.Context) (moved bool, err error) {
	c := f.consumer
	starts, ends, err := c.cluster.bounds(ctx, f.topic, []int32{f.partition})
	if err != nil {
		return false, err
	}
	id, err := c.cluster.topicID(ctx, f.topic)
	if err != nil {
		return false, err
	}
	start, end := starts[f.partition], ends[f.partition]
	anew := f.sameID(id)
	var next int64
	if anew != nil {
		next, err = c.move(start, end, anew)
	} else if end, err = c.certainEnd(ctx, f.topic, f.partition, f.next, end); err == nil {
		next, err = c.inRange(f.topic, f.partition, f.next, start, end)
	}
	if err != nil || anew == nil && next == f.next {
		return false, err
	}
	f.topicID, f.next = id, next
	f.highWater.Store(end)
	return true, nil
}
