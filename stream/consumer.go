// Package stream reads and writes records. It consumes Kafka topics, reads files, produces to topics and stores refused
// records.
//
// A source ([File], [Consumer]) fills an event.Batch through a record.Decoder, which implements a format. A record that
// cannot be used is not an error. It becomes an Example with Refused set.
package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/stream/record"

	"github.com/segmentio/kafka-go"
)

// ConsumerConfig selects what to read from a Kafka cluster and where to start: the section [kafka] of the
// configuration. config/blankout.toml explains each key. The comments here only add what a program needs.
type ConsumerConfig struct {
	ConnectConfig
	Topics          []string `toml:"topics"`
	UnlabeledTopics []string `toml:"unlabeled_topics"`
	Partitions      []int32  `toml:"partitions"` // partitions of every topic; empty means all, including new ones
	// Only lists the partitions to read, by topic. If Only is not nil, Partitions is ignored.
	Only []TopicPartition `toml:"-"`
	// Start is where to start reading a partition without a stored offset: "earliest", "latest", "timestamp:" with an
	// RFC 3339 time, or "offset:" with a number. Partitions that are added to a topic later are read from their
	// beginning.
	Start string `toml:"start"`
	// OutOfRange is the policy for a stored offset that is no longer in the log. It also applies to all partitions of a
	// topic that was deleted and recreated since its offsets were stored.
	OutOfRange string `toml:"out_of_range"`
	// CheckTopicID compares the topic ID with the ID in the stored Position.
	CheckTopicID bool          `toml:"check_topic_id"`
	MaxBytes     int32         `toml:"-"` // size of a fetch
	MaxWait      time.Duration `toml:"-"` // time to wait for new records in one fetch
	Prefetch     int           `toml:"-"` // number of fetches of a partition that may wait to be read
	BatchRecords int           `toml:"-"` // largest number of records in a Batch
	// DedupWindow is the number of offsets in which repeated records are detected. 0 disables deduplication.
	DedupWindow      int64 `toml:"dedup_window"`
	CreateTopics     bool  `toml:"create_topics"`
	CreatePartitions int   `toml:"-"` // number of partitions of a created topic
	// UntilEnd makes the Consumer stop at the end that each partition has when the Consumer is created. The end is the
	// last stable offset.
	UntilEnd bool `toml:"-"`
	// Before is an offset at which every partition stops, unless UntilEnd stops it earlier. 0 means no limit. Before
	// requires UntilEnd.
	Before int64 `toml:"-"`

	Log *slog.Logger `toml:"-"` // nil disables the log
}

// DefaultConsumerConfig returns the default settings: read everything, and fail rather than lose a record.
func DefaultConsumerConfig() ConsumerConfig {
	return ConsumerConfig{
		ConnectConfig:    DefaultConnectConfig(),
		Start:            "earliest",
		OutOfRange:       "fail",
		CheckTopicID:     true,
		MaxBytes:         1 << 20,
		MaxWait:          500 * time.Millisecond,
		Prefetch:         2,
		BatchRecords:     int(failpoint.Number("kafka.batch_records", 512)),
		CreatePartitions: 1,
	}
}

// Check returns an error for the first invalid setting.
func (c *ConsumerConfig) Check() error {
	if err := c.ConnectConfig.check(); err != nil {
		return err
	}
	if _, _, err := c.startAt(); err != nil {
		return err
	}
	switch {
	case len(c.Topics) == 0:
		return event.KeyErrorf("topics", "topics: empty: name at least one")
	case slices.Contains(c.Topics, ""):
		return event.KeyErrorf("topics", "topics: an empty name")
	case slices.Contains(c.UnlabeledTopics, ""):
		return event.KeyErrorf("unlabeled_topics", "unlabeled_topics: an empty name")
	case slices.ContainsFunc(c.UnlabeledTopics, func(t string) bool { return slices.Contains(c.Topics, t) }):
		return event.KeyErrorf("unlabeled_topics", "unlabeled_topics %q: one of them is also in topics %q", c.UnlabeledTopics, c.Topics)
	case c.OutOfRange != "fail" && c.OutOfRange != "earliest" && c.OutOfRange != "latest":
		return event.KeyErrorf("out_of_range", "out_of_range %q, want fail, earliest or latest", c.OutOfRange)
	case c.Before < 0 || c.Before > 0 && !c.UntilEnd:
		return event.KeyErrorf("before", "before offset %d: want a positive number, with until_end", c.Before)
	case c.DedupWindow < 0:
		return event.KeyErrorf("dedup_window", "dedup_window %d, want a number of offsets, or 0", c.DedupWindow)
	}
	return nil
}

// wanted returns the partitions of a topic to read. some is false if all partitions are read.
func (c *ConsumerConfig) wanted(topic string) (partitions []int32, some bool) {
	if c.Only == nil {
		return c.Partitions, len(c.Partitions) > 0
	}
	for _, p := range c.Only {
		if p.Topic == topic {
			partitions = append(partitions, p.Partition)
		}
	}
	return partitions, true
}

// allTopics returns the sorted topics, including the topics of unlabeled events.
func (c *ConsumerConfig) allTopics() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Topics, c.UnlabeledTopics))))
}

// startAt returns Start as a ListOffsets timestamp, and as an offset. offset is -1 unless Start is one.
func (c *ConsumerConfig) startAt() (at, offset int64, err error) {
	switch c.Start {
	case "earliest":
		return kafka.FirstOffset, -1, nil
	case "latest":
		return kafka.LastOffset, -1, nil
	}
	if text, ok := strings.CutPrefix(c.Start, "timestamp:"); ok {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, -1, event.KeyErrorf("start", "start %q: %w", c.Start, err)
		}
		return t.UnixMilli(), -1, nil
	}
	text, ok := strings.CutPrefix(c.Start, "offset:")
	if offset, err = strconv.ParseInt(text, 10, 64); !ok || err != nil || offset < 0 {
		return 0, -1, event.KeyErrorf("start", "start %q, want earliest, latest, timestamp:2006-01-02T15:04:05Z or offset:N", c.Start)
	}
	return kafka.FirstOffset, offset, nil
}

// Consumer is a Source of events from Kafka topics. It runs one goroutine for each partition, and another goroutine
// that looks for new partitions. Close ends all goroutines.
//
// A Consumer delivers every record of a partition once and in offset order, from the stored offset on. It skips gaps
// left by compaction, transaction markers, and aborted records (under read_committed). It retries forever when leaders
// move or brokers restart, hang or drop connections. Retries are logged and counted in Stats. Next returns an error
// that retries cannot fix: an *OffsetOutOfRangeError or *TopicRecreatedError (under the policy "fail"), a
// *CorruptBatchError, or a missing permission.
type Consumer struct {
	config  ConsumerConfig
	topics  []string          // sorted, including topics of unlabeled events
	ids     map[string]string // IDs of the topics at the start
	cluster *cluster
	schema  *event.Schema
	log     *slog.Logger

	cancel  context.CancelFunc
	running sync.WaitGroup
	filled  chan *fetched // results of all fetchers, in order of arrival, which is fair

	mu       sync.Mutex
	fetchers []*fetcher // sorted by topic and partition
	retries  map[string]uint64

	fetches, records atomic.Uint64

	// The caller of Next owns the fields below.
	decoding decoding
	active   int // number of partitions that have not reached their end (UntilEnd)
	ended    error
}

// NewConsumer connects, finds the partitions of the topics and starts reading. A partition starts at its Position in
// from if there is one, otherwise at config.Start. decoder must use schema, and runs on the goroutine that calls Next.
func NewConsumer(ctx context.Context, config ConsumerConfig, decoder record.Decoder, schema *event.Schema, from event.Offsets) (*Consumer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	topics := config.allTopics()
	k, err := connect(ctx, config.ConnectConfig, topics, config.Log)
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		config:   config,
		topics:   topics,
		cluster:  k,
		schema:   schema,
		log:      k.log,
		filled:   make(chan *fetched, 1024), // if more partitions are ready, they wait
		retries:  map[string]uint64{},
		ids:      map[string]string{},
		decoding: decoding{decoder: decoder, most: config.BatchRecords, log: k.log, unpack: unpacker{limit: maxUnpacked}},
	}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for _, topic := range topics {
		fetchers, err := c.start(ctx, topic, from)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.fetchers = append(c.fetchers, fetchers...)
	}
	for _, p := range from {
		if _, ok := c.find(p.Topic, p.Partition); !ok {
			c.log.Warn("a saved offset is not used, because its partition is not read", "topic", p.Topic, "partition", p.Partition, "offset", p.Next)
		}
	}
	c.active = len(c.fetchers)
	for _, f := range c.fetchers {
		c.running.Go(func() { f.run(running) })
	}
	if !config.UntilEnd {
		c.running.Go(func() { c.watch(running) })
	}
	return c, nil
}

// start creates the fetchers for the partitions of a topic, each at its first offset.
func (c *Consumer) start(ctx context.Context, topic string, from event.Offsets) ([]*fetcher, error) {
	k := c.cluster
	partitions, err := k.ensureTopic(ctx, topic, c.config.CreateTopics, c.config.CreatePartitions)
	if err != nil {
		return nil, err
	}
	if wanted, some := c.config.wanted(topic); some {
		for _, p := range wanted {
			if !slices.Contains(partitions, p) {
				return nil, fmt.Errorf("topic %s has no partition %d, only %v", topic, p, partitions)
			}
		}
		if partitions = slices.Compact(slices.Sorted(slices.Values(wanted))); len(partitions) == 0 {
			return nil, nil
		}
	}
	starts, ends, err := k.bounds(ctx, topic, partitions)
	if err != nil {
		return nil, err
	}
	stops := ends
	if c.config.UntilEnd {
		if stops, err = k.offsets(ctx, topic, partitions, kafka.LastOffset, true); err != nil {
			return nil, err
		}
	}
	id, err := k.topicID(ctx, topic)
	if err != nil {
		return nil, err
	}
	c.ids[topic] = id
	at, first, _ := c.config.startAt()
	var times map[int32]int64
	if at >= 0 {
		if times, err = k.offsets(ctx, topic, partitions, at, false); err != nil {
			return nil, err
		}
	}
	// A topic that was read before may have new partitions. New partitions are read from their beginning, because
	// "latest" would lose records.
	begun := slices.ContainsFunc(from, func(p event.Position) bool { return p.Topic == topic })
	var fetchers []*fetcher
	for _, p := range partitions {
		next := starts[p]
		stored, ok := from.Lookup(topic, p)
		anew := ok && c.recreated(stored.TopicID, id)
		switch {
		case anew:
			was := &TopicRecreatedError{Topic: topic, Partition: p, Offset: stored.Next, Was: stored.TopicID, Is: id}
			if next, err = c.move(starts[p], ends[p], was); err != nil {
				return nil, err
			}
		case ok:
			if ends[p], err = c.certainEnd(ctx, topic, p, stored.Next, ends[p]); err != nil {
				return nil, err
			}
			if next, err = c.inRange(topic, p, stored.Next, starts[p], ends[p]); err != nil {
				return nil, err
			}
		case begun:
		case first >= 0:
			if next, err = c.inRange(topic, p, first, starts[p], ends[p]); err != nil {
				return nil, err
			}
		case at == kafka.FirstOffset:
		case at == kafka.LastOffset:
			next = ends[p]
		default:
			if next = times[p]; next < 0 {
				next = ends[p]
			}
		}
		end := int64(-1)
		if c.config.UntilEnd {
			end = stops[p]
		}
		if c.config.Before > 0 {
			end = min(end, c.config.Before)
		}
		f := c.newFetcher(topic, id, p, next, end, ends[p])
		f.moved = anew || ok && next != stored.Next
		if ok && !f.moved {
			f.next = max(next-c.config.DedupWindow, stored.First, starts[p])
		}
		fetchers = append(fetchers, f)
	}
	return fetchers, nil
}

func (c *Consumer) newFetcher(topic, id string, partition int32, next, end, highWater int64) *fetcher {
	f := &fetcher{consumer: c, unlabeled: slices.Contains(c.config.UnlabeledTopics, topic), topic: topic, topicID: id, partition: partition, next: next, wanted: next, end: end, maxBytes: c.config.MaxBytes}
	if c.config.DedupWindow > 0 {
		f.repeated = &repeated{window: c.config.DedupWindow}
	}
	f.free = make(chan *fetched, c.config.Prefetch)
	for range c.config.Prefetch {
		f.free <- &fetched{from: f}
	}
	f.delivered.Store(next)
	f.highWater.Store(highWater)
	return f
}

// certainEnd returns the true end of a partition; end is the end that a broker has reported. A broker that was paused
// may still respond as the leader of a partition that another broker now leads. Such a broker may report an end that is
// too early. next is the offset after the last record that was read. If end is before next, certainEnd repeats the
// request until RequestTimeout has passed.
func (c *Consumer) certainEnd(ctx context.Context, topic string, partition int32, next, end int64) (int64, error) {
	began := time.Now()
	for attempt := 1; end < next && time.Since(began) < c.config.RequestTimeout; attempt++ {
		epoch := c.cluster.now()
		c.retried("end-before-offset")
		if !backoff(ctx, attempt) {
			return 0, ctx.Err()
		}
		c.cluster.forget(epoch)
		ends, err := c.cluster.offsets(ctx, topic, []int32{partition}, kafka.LastOffset, false)
		if err != nil {
			return 0, err
		}
		end = ends[partition]
	}
	return end, nil
}

// inRange applies the policy for an offset that is not in the log. It returns the offset where reading continues.
func (c *Consumer) inRange(topic string, partition int32, next, start, end int64) (int64, error) {
	if start <= next && next <= end {
		return next, nil
	}
	return c.move(start, end, &OffsetOutOfRangeError{Topic: topic, Partition: partition, Offset: next, Start: start, End: end})
}

// move returns the offset where reading continues by the policy. Under "fail" it returns err.
func (c *Consumer) move(start, end int64, err error) (int64, error) {
	to := start
	switch c.config.OutOfRange {
	case "latest":
		to = end
	case "earliest":
	default:
		return 0, err
	}
	c.log.Error("continuing at another offset", "policy", c.config.OutOfRange, "to", to, "log_start", start, "log_end", end, "err", err)
	c.retried("offset-reset")
	return to, nil
}

// recreated reports whether two IDs of a topic show that it was recreated. An old broker reports no ID, which counts as
// equal.
func (c *Consumer) recreated(was, is string) bool {
	return c.config.CheckTopicID && was != "" && is != "" && was != is
}

func (c *Consumer) retried(cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retries[cause]++
}

func (c *Consumer) find(topic string, partition int32) (int, bool) {
	return slices.BinarySearchFunc(c.fetchers, nil, func(f, _ *fetcher) int {
		return cmp.Or(strings.Compare(f.topic, topic), cmp.Compare(f.partition, partition))
	})
}

// watch starts reading partitions that are added to the topics. If the ID of a topic changes, the fetchers of the topic
// check whether it was recreated. watch requests the ends of the partitions while Next is not called.
func (c *Consumer) watch(ctx context.Context) {
	tick := time.Tick(c.config.MetadataInterval)
	known, records := maps.Clone(c.ids), uint64(0)
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		if before := records; c.records.Load() == before {
			c.findEnds(ctx)
		}
		records = c.records.Load()
		ids, err := c.cluster.topicIDs(ctx, c.topics)
		if err != nil {
			continue // the fetchers get and report the same error
		}
		c.mu.Lock()
		for _, f := range c.fetchers {
			if is := ids[f.topic]; is != "" && is != known[f.topic] {
				f.suspect.Store(true)
			}
		}
		c.mu.Unlock()
		maps.Copy(known, ids)
		for _, topic := range c.topics {
			if _, some := c.config.wanted(topic); some {
				break // no other partitions are wanted
			}
			m, err := c.cluster.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			if err != nil || len(m.Topics) != 1 {
				continue // the fetchers get and report the same error
			}
			var added []int32
			c.mu.Lock()
			for _, p := range m.Topics[0].Partitions {
				if _, ok := c.find(topic, int32(p.ID)); !ok {
					added = append(added, int32(p.ID))
				}
			}
			c.mu.Unlock()
			if len(added) == 0 {
				continue
			}
			starts, err := c.cluster.offsets(ctx, topic, added, kafka.FirstOffset, false)
			if err != nil {
				continue // retry at the next tick
			}
			for _, p := range added {
				c.log.Info("new partition", "topic", topic, "partition", p, "offset", starts[p])
				f := c.newFetcher(topic, ids[topic], p, starts[p], -1, starts[p])
				c.mu.Lock()
				i, _ := c.find(topic, p)
				c.fetchers = slices.Insert(c.fetchers, i, f)
				c.mu.Unlock()
				c.running.Go(func() { f.run(ctx) })
			}
		}
	}
}

// findEnds requests the ends of the partitions. A fetcher gets them with its fetches, but does not fetch while Next is
// not called.
func (c *Consumer) findEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.MetadataInterval)
	defer cancel()
	c.mu.Lock()
	fetchers := slices.Clone(c.fetchers)
	c.mu.Unlock()
	partitions := map[string][]int32{}
	for _, f := range fetchers {
		partitions[f.topic] = append(partitions[f.topic], f.partition)
	}
	for topic, numbers := range partitions {
		ends, err := c.cluster.offsets(ctx, topic, numbers, kafka.LastOffset, false)
		if err != nil {
			continue // retry at the next tick
		}
		for _, f := range fetchers {
			if end, ok := ends[f.partition]; ok && f.topic == topic && end > f.highWater.Load() {
				f.highWater.Store(end)
			}
		}
	}
}

// Next fills b with the next records of one partition, at most config.BatchRecords. Next waits for the first record if
// necessary. Partitions take turns, one fetch each. b shares no memory with the Consumer, so a caller with several
// Batches may read ahead while it learns.
//
// The first Batch of every partition has no examples; it only has the partition's start position. Under UntilEnd, Next
// returns io.EOF after the last record. If ctx ends first, Next returns the error of ctx, and no record is lost. Any
// other error is final and is returned again.
func (c *Consumer) Next(ctx context.Context, b *event.Batch) error {
	d := &c.decoding
	for d.current == nil {
		if c.ended != nil {
			return c.ended
		}
		if c.config.UntilEnd && c.active == 0 {
			c.ended = io.EOF
			continue
		}
		select {
		case d.current = <-c.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := d.current.err; err != nil {
			c.ended, d.current = err, nil
			continue
		}
		if d.current.last {
			c.active--
		}
		d.index, d.open = 0, false
	}
	cur := d.current
	f := cur.from
	b.Topic, b.TopicID, b.Partition, b.HighWater, b.Reset = f.topic, cur.topicID, f.partition, cur.highWater, cur.reset
	b.Examples = b.Examples[:0]
	if cur.reset && f.repeated != nil {
		f.repeated = &repeated{window: f.repeated.window} // earlier records are in another log
	}
	next, err := d.read(ctx, b, cur)
	if err != nil && len(b.Examples) == 0 {
		return err
	}
	b.Next = max(next, cur.wanted)
	b.Schema = c.schema.View()
	c.records.Add(uint64(len(b.Examples)))
	f.delivered.Store(b.Next)
	if d.index == len(cur.batches) {
		d.current = nil
		f.free <- cur // has capacity, because cur came from this channel
	}
	return nil
}

// ConsumerStats counts the work of a Consumer since its creation.
type ConsumerStats struct {
	// Retries counts retries by cause: connection, timeout, not-leader, no-leader, unknown-partition, broker-error,
	// corrupt-batch, offset-out-of-range, end-before-offset, and offset-reset (a policy was applied).
	Retries    map[string]uint64
	Partitions []PartitionStats // sorted by topic and partition
}

// PartitionStats is the state of one partition.
type PartitionStats struct {
	Topic     string
	Partition int32
	Next      int64 // offset after the last record returned by Next
	HighWater int64 // end of the partition
	Lag       int64 // HighWater - Next, at least 0
	// Failing is the cause of the current retries, as in Retries. Failing is "" while the partition can be read.
	Failing string
}

// Failing returns a message about a partition that cannot be read: its name, the cause, and the number of other such
// partitions. It returns "" if all partitions can be read.
func (s *ConsumerStats) Failing() string {
	failing, first := 0, ""
	for _, p := range s.Partitions {
		if p.Failing != "" {
			if failing++; failing == 1 {
				first = fmt.Sprintf("%s/%d cannot be read (%s)", p.Topic, p.Partition, p.Failing)
			}
		}
	}
	if failing > 1 {
		first += fmt.Sprintf(" and %d more partitions", failing-1)
	}
	return first
}

// Stats returns the counters. Any goroutine may call it.
func (c *Consumer) Stats() ConsumerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ConsumerStats{Retries: maps.Clone(c.retries)}
	for _, f := range c.fetchers {
		p := PartitionStats{Topic: f.topic, Partition: f.partition, Next: f.delivered.Load(), HighWater: f.highWater.Load()}
		p.Lag = max(p.HighWater-p.Next, 0)
		if failing := f.failing.Load(); failing != nil {
			p.Failing = *failing
		}
		s.Partitions = append(s.Partitions, p)
	}
	return s
}

// Commit stores offsets in the brokers under a consumer group, so that tools can display the lag. The Consumer itself
// never reads these offsets.
func (c *Consumer) Commit(ctx context.Context, group string, offsets event.Offsets) error {
	if len(offsets) == 0 {
		return nil
	}
	topics := map[string][]kafka.OffsetCommit{}
	for _, p := range offsets {
		topics[p.Topic] = append(topics[p.Topic], kafka.OffsetCommit{Partition: int(p.Partition), Offset: p.Next})
	}
	// The first commit makes a new cluster create the offsets topic and elect its coordinator, so retry.
	for attempt := 1; ; attempt++ {
		err := c.commit(ctx, group, topics)
		code, _ := errors.AsType[kafka.Error](err)
		if !slices.Contains([]kafka.Error{kafka.NotCoordinatorForGroup, kafka.GroupCoordinatorNotAvailable, kafka.GroupLoadInProgress}, code) || !backoff(ctx, attempt) {
			return err
		}
	}
}

func (c *Consumer) commit(ctx context.Context, group string, topics map[string][]kafka.OffsetCommit) error {
	r, err := c.cluster.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: topics})
	if err != nil {
		return fmt.Errorf("committing offsets of group %s: %w", group, c.cluster.cause(ctx, err))
	}
	for topic, partitions := range r.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return fmt.Errorf("committing offset of group %s for %s/%d: %w", group, topic, p.Partition, p.Error)
			}
		}
	}
	return nil
}

// Close stops reading and waits for all goroutines. Next must not be running.
func (c *Consumer) Close() error {
	c.cancel()
	c.cluster.close()
	c.running.Wait()
	c.decoding.close()
	c.ended = cmp.Or(c.ended, errors.New("the consumer is closed"))
	return nil
}
