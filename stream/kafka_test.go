package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/goleak"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream/record"
)

// startBroker starts an embedded broker with the given topics. The end of the test closes it.
func startBroker(t testing.TB, topics map[string]int32) *Embedded {
	t.Helper()
	b := must.Get(StartEmbedded(EmbeddedConfig{Topics: topics}))(t)
	t.Cleanup(b.Close)
	return b
}

// textDecoder keeps the key of a record, and stores its value as the only class name of the Example. It refuses the
// value "bad".
type textDecoder struct{ values []string }

func (d *textDecoder) Decode(_ context.Context, r record.Record, e *event.Example) error {
	e.Label, e.Weight, e.Key, e.Time, e.Offset, e.Refused = len(d.values), 1, r.Key, r.Time, r.Offset, nil
	d.values = append(d.values, string(r.Value))
	if string(r.Value) == "bad" {
		e.Refused = &event.Refusal{Reason: event.ReasonSyntax, Detail: "bad", Value: r.Value}
	}
	return nil
}

// testConsumer is a Consumer with a textDecoder.
type testConsumer struct {
	*Consumer
	*textDecoder
	t        testing.TB
	position map[string]int64 // next offset by topic/partition
}

func consume(t testing.TB, b *Embedded, topic string, from event.Offsets, edit func(*ConsumerConfig)) *testConsumer {
	t.Helper()
	return must.Get(tryConsume(t, b, topic, from, edit))(t)
}

func tryConsume(t testing.TB, b *Embedded, topic string, from event.Offsets, edit func(*ConsumerConfig)) (*testConsumer, error) {
	t.Helper()
	config := DefaultConsumerConfig()
	config.Brokers, config.Topics, config.Log = b.Brokers(), []string{topic}, streamtest.Log(t)
	config.MaxWait = 50 * time.Millisecond
	config.UntilEnd = true
	if edit != nil {
		edit(&config)
	}
	d := &textDecoder{}
	c, err := NewConsumer(t.Context(), config, d, event.NewSchema(8, nil, 2), from)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return &testConsumer{c, d, t, map[string]int64{}}, nil
}

// got is a record as Next returned it.
type got struct {
	topic     string
	partition int32
	offset    int64
	key       string
	value     string
	time      int64
	refused   *event.Refusal
}

// until reads until there are n records or the stream ends. It checks all guarantees of Next on the way.
func (c *testConsumer) until(n int) ([]got, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	var out []got
	var b event.Batch
	for len(out) < n {
		if err := c.Next(ctx, &b); err != nil {
			return out, err
		}
		name := fmt.Sprintf("%s/%d", b.Topic, b.Partition)
		next, started := c.position[name]
		if !started {
			if len(b.Examples) > 0 {
				c.t.Errorf("%s: first batch has %d examples", name, len(b.Examples))
			}
			next = b.Next
		}
		if b.Reset {
			next = b.Next
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			if e.Offset < next || e.Offset >= b.Next {
				c.t.Errorf("%s: offset %d in a batch from %d to %d", name, e.Offset, next, b.Next)
			}
			next = e.Offset + 1
			g := got{topic: b.Topic, partition: b.Partition, offset: e.Offset, key: string(e.Key), time: e.Time, refused: e.Refused}
			if e.Refused == nil {
				g.value = c.values[e.Label]
			}
			out = append(out, g)
		}
		if b.Next < next || b.HighWater < 0 {
			c.t.Errorf("%s: next %d after %d, high water %d", name, b.Next, next, b.HighWater)
		}
		c.position[name] = b.Next
	}
	return out, nil
}

// all reads to the end.
func (c *testConsumer) all() []got {
	c.t.Helper()
	out, err := c.until(1 << 30)
	if err != io.EOF {
		c.t.Fatalf("after %d records: %v", len(out), err)
	}
	return out
}

func values(records []got) []string {
	return must.Map(records, func(r got) string { return r.value })
}

func produce(t testing.TB, b *Embedded, topic string, edit func(*ProducerConfig), messages ...Message) {
	t.Helper()
	config := DefaultProducerConfig()
	config.Brokers, config.Topic, config.Log = b.Brokers(), topic, streamtest.Log(t)
	if edit != nil {
		edit(&config)
	}
	p := must.Get(NewProducer(t.Context(), config))(t)
	for _, m := range messages {
		must.Do(t, p.Write(t.Context(), m))
	}
	must.Do(t, p.Flush(t.Context()))
	must.Equal(t, p.records, uint64(len(messages)), "acknowledged records")
	must.Do(t, p.Close())
}

func numbered(n int) []Message {
	return must.List(n, func(i int) Message {
		return Message{Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Appendf(nil, "value %d", i), Time: 1_700_000_000_000 + int64(i)}
	})
}

func TestProduceConsume(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			b := startBroker(t, map[string]int32{"t": 3})
			want := numbered(2000)
			produce(t, b, "t", func(c *ProducerConfig) { c.Compression, c.BatchBytes = codec, 5000 }, want...)
			c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.MaxBytes, c.BatchRecords = 20000, 100 })
			records := c.all()
			must.Require(t, len(records) == len(want), "%d records, want %d", len(records), len(want))
			seen := map[string]bool{}
			partition := map[string]int32{} // partition by key
			last := map[string]int64{}
			for _, r := range records {
				p, ok := partition[r.key]
				must.True(t, !ok || p == r.partition, "key %s in partitions %d and %d", r.key, p, r.partition)
				partition[r.key] = r.partition
				must.True(t, r.time > last[r.key], "key %s: time %d after %d", r.key, r.time, last[r.key])
				last[r.key] = r.time
				seen[r.value] = true
			}
			must.Equal(t, len(seen), len(want), "different values")
			stats := c.Stats()
			must.True(t, len(stats.Partitions) == 3, "stats %+v", stats)
			for _, p := range stats.Partitions {
				must.True(t, p.Lag == 0 && p.Next == p.HighWater, "stats %+v", p)
			}
			c.Close()
		})
	}
}

func TestConsumeFrom(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startBroker(t, map[string]int32{"t": 1})
	produce(t, b, "t", nil, numbered(10)...)
	tests := []struct {
		name  string
		start string
		from  int64 // stored offset; -1 for none
		want  int   // expected number of records
		err   bool
	}{
		{"earliest", "earliest", -1, 10, false},
		{"latest", "latest", -1, 0, false},
		{"time", "timestamp:2023-11-14T22:13:20.004Z", -1, 6, false},
		{"time after the last", "timestamp:2030-01-01T00:00:00Z", -1, 0, false},
		{"stored", "earliest", 3, 7, false},
		{"stored before latest", "latest", 3, 7, false},
		{"stored at the end", "earliest", 10, 0, false},
		{"past the end", "earliest", 11, 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var from event.Offsets
			if test.from >= 0 {
				from.At("t", 0, test.from)
			}
			c, err := tryConsume(t, b, "t", from, func(c *ConsumerConfig) { c.Start, c.RequestTimeout = test.start, time.Second/4 })
			if test.err {
				var out *OffsetOutOfRangeError
				must.Require(t, errors.As(err, &out) && out.Offset == test.from && out.Start == 0 && out.End == 10, "error %v", err)
				return
			}
			must.Do(t, err)
			must.Equal(t, len(c.all()), test.want, "records")
			must.Equal(t, c.position["t/0"], 10, "positions", c.position)
			c.Close()
		})
	}
}

// TestConsumeBetween checks that reading between two offsets ends at the second offset, whatever follows in the topic.
// The offset may be anywhere in a record batch.
func TestConsumeBetween(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 2})
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 500 }, numbered(200)...)
	held := map[int32][]string{}
	for _, r := range consume(t, b, "t", nil, nil).all() {
		held[r.partition] = append(held[r.partition], r.value)
	}
	for _, test := range []struct {
		name       string
		partitions []int32
		start      string
		before     int64
		from, to   map[int32]int
	}{
		{"both ends", nil, "offset:5", 17, map[int32]int{0: 5, 1: 5}, map[int32]int{0: 17, 1: 17}},
		{"one partition", []int32{1}, "offset:0", 3, map[int32]int{1: 0}, map[int32]int{1: 3}},
		{"no more than there is", nil, "earliest", 1000, map[int32]int{}, map[int32]int{0: len(held[0]), 1: len(held[1])}},
		{"nothing", nil, "offset:9", 4, map[int32]int{}, map[int32]int{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.Partitions, c.Start, c.Before = test.partitions, test.start, test.before })
			got := map[int32][]string{}
			for _, r := range c.all() {
				got[r.partition] = append(got[r.partition], r.value)
			}
			for p := range int32(2) {
				must.EqualSlices(t, got[p], held[p][test.from[p]:test.to[p]], "partition", p)
			}
			c.Close()
		})
	}
	var out *OffsetOutOfRangeError
	_, err := tryConsume(t, b, "t", nil, func(c *ConsumerConfig) { c.Start = "offset:201" })
	must.True(t, errors.As(err, &out) && out.Offset == 201, "a start beyond the end: %v", err)
}

func TestConsumeTail(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 2})
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd = false })
	for i := range 5 {
		produce(t, b, "t", nil, numbered(20)...)
		records, err := c.until(20)
		must.Require(t, err == nil && len(records) == 20, "round %d: %d records, %v", i, len(records), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var batch event.Batch
	must.ErrorIs(t, c.Next(ctx, &batch), context.DeadlineExceeded, "Next at the end")
}

func TestConsumerErrors(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startBroker(t, map[string]int32{"t": 2})
	tests := []struct {
		name string
		edit func(*ConsumerConfig)
		want string
	}{
		{"no such topic", func(c *ConsumerConfig) { c.Topics = []string{"other"} }, `topic "other" does not exist`},
		{"no such partition", func(c *ConsumerConfig) { c.Partitions = []int32{0, 7} }, "topic t has no partition 7"},
		{"no broker", func(c *ConsumerConfig) { c.Brokers, c.RequestTimeout = []string{"127.0.0.1:1"}, 100*time.Millisecond }, "connection refused"},
		{"no port", func(c *ConsumerConfig) { c.Brokers = []string{"localhost"} }, "want host:port"},
		{"policy", func(c *ConsumerConfig) { c.OutOfRange = "skip" }, "out_of_range"},
		{"start", func(c *ConsumerConfig) { c.Start = "timestamp:yesterday" }, "start"},
		{"no password", func(c *ConsumerConfig) { c.SASL.Mechanism, c.SASL.Username = "PLAIN", "a" }, "BLANKOUT_KAFKA_PASSWORD"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := tryConsume(t, b, "t", nil, test.edit)
			must.ErrorContains(t, err, test.want)
		})
	}
}

func TestCreateTopics(t *testing.T) {
	b := startBroker(t, nil)
	c := consume(t, b, "new", nil, func(c *ConsumerConfig) { c.CreateTopics, c.CreatePartitions, c.UntilEnd = true, 3, false })
	produce(t, b, "new", nil, numbered(50)...)
	records, err := c.until(50)
	must.True(t, err == nil && len(records) == 50 && len(c.Stats().Partitions) == 3, "%d records, %v, %+v", len(records), err, c.Stats())
}

func TestTwoTopics(t *testing.T) {
	b := startBroker(t, map[string]int32{"a": 1, "b": 2})
	produce(t, b, "a", nil, numbered(5)...)
	produce(t, b, "b", nil, numbered(9)...)
	c := consume(t, b, "a", nil, func(c *ConsumerConfig) { c.Topics = []string{"b", "a"} })
	count := map[string]int{}
	for _, r := range c.all() {
		count[r.topic]++
	}
	must.EqualMaps(t, count, map[string]int{"a": 5, "b": 9})
	must.EqualSlices(t, slices.Sorted(maps.Keys(c.position)), []string{"a/0", "b/0", "b/1"})
}

// TestUnlabeledTopic checks that the labels in an unlabeled topic are ignored: they are neither classes nor refused.
// Its partitions must have their own positions and continue from them.
func TestUnlabeledTopic(t *testing.T) {
	b := startBroker(t, map[string]int32{"told": 1, "untold": 2})
	for i := range 30 {
		produce(t, b, "told", nil, Message{Value: fmt.Appendf(nil, `{"label":%q,"x":%d,"a":1}`, []string{"good", "bad"}[i%2], i)})
		produce(t, b, "untold", nil, Message{Value: fmt.Appendf(nil, `{"label":"stranger %d","x":%d,"b":2}`, i, i)})
	}
	config := DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UnlabeledTopics, config.UntilEnd = b.Brokers(), []string{"told"}, []string{"untold"}, true
	config.MaxWait, config.BatchRecords = 50*time.Millisecond, 7
	recordConfig := record.DefaultConfig()
	schema := recordConfig.Schema()
	var offsets event.Offsets
	counted := map[string]int{}
	for stop := 20; ; stop = 1000 { // interrupt reading once
		decoder, err := record.NewDecoder(recordConfig, schema)
		must.Do(t, err)
		c := must.Get(NewConsumer(t.Context(), config, decoder, schema, offsets))(t)
		var batch event.Batch
		n := 0
		for n < stop {
			if err = c.Next(t.Context(), &batch); err != nil {
				break
			}
			p := offsets.At(batch.Topic, batch.Partition, batch.Next)
			for i := range batch.Examples {
				e := &batch.Examples[i]
				must.True(t, e.Refused == nil && (e.Label == event.Unlabeled) == (batch.Topic == "untold") && e.Features.Len() == 2, "%s: %+v", batch.Topic, e)
				must.Do(t, p.Advance(e.Offset, e.Fingerprint))
				counted[batch.Topic]++
				n++
			}
		}
		c.Close()
		if err == io.EOF {
			break
		}
		must.Do(t, err)
	}
	must.True(t, counted["told"] == 30 && counted["untold"] == 30 && len(offsets) == 3, "%v, %+v", counted, offsets)
	must.Equal(t, fmt.Sprint(schema.Classes), "[good bad]", "classes")
	config.UnlabeledTopics = []string{"told"}
	must.ErrorContains(t, config.Check(), "unlabeled_topics")
}

// TestMain fails if a test leaves goroutines running. It waits 20 times as long as goleak does by default, because a TLS
// connection of the test broker ends some time after the broker.
func TestMain(m *testing.M) {
	code := longtest.Waiting(m, 8).Run()
	leaked := goleak.Find()
	for i := 0; leaked != nil && i < 20; i++ {
		leaked = goleak.Find()
	}
	if code == 0 && leaked != nil {
		fmt.Fprintln(os.Stderr, leaked)
		code = 1
	}
	os.Exit(code)
}

// TestLagWhileNothingIsRead checks that the lag of a consumer is updated while its records are not read.
func TestLagWhileNothingIsRead(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 700 }, numbered(3000)...)
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) {
		c.MaxBytes, c.UntilEnd, c.MetadataInterval = 5000, false, 20*time.Millisecond
	})
	defer c.Close()
	// Wait until the fetcher waits for its records to be read.
	for fetches := uint64(0); fetches == 0 || c.fetches.Load() != fetches; time.Sleep(100 * time.Millisecond) {
		fetches = c.fetches.Load()
	}
	produce(t, b, "t", nil, numbered(100)...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c.Stats().Partitions[0].HighWater != 3100 {
		must.Require(t, ctx.Err() == nil, "the end is not found")
		time.Sleep(5 * time.Millisecond)
	}
	p := c.Stats().Partitions[0]
	must.True(t, p.Lag == 3100, "%+v", p)
}

// keyed returns n messages. Some keys repeat, sometimes at exactly the distance of the window or one offset more. It
// also returns the offsets of the messages that are repeated within the window, found by a simple search.
func keyed(n int, window int64) (messages []Message, repeats []int64) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		key := fmt.Appendf(nil, "k%d", r.IntN(3*n/2))
		switch {
		case i%10 == 9:
			key = nil // an event without a key is never repeated
		case i >= int(window) && (i%100 == 0 || i%100 == 34):
			key = messages[i-int(window)].Key
		case i > int(window) && i%100 == 53:
			key = messages[i-int(window)-1].Key
		}
		for j := max(0, i-int(window)); j < i && key != nil; j++ {
			if string(messages[j].Key) == string(key) {
				repeats = append(repeats, int64(i))
				break
			}
		}
		messages = append(messages, Message{Key: key, Value: fmt.Appendf(nil, "%d", i)})
	}
	return messages, repeats
}

// TestRepeated checks which events are detected as repeated. The result must not depend on where a Consumer starts, or
// whether it went back.
func TestRepeated(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	const n, window = 2000, 300
	messages, want := keyed(n, window)
	must.Require(t, len(want) >= 100, "only %d repeats", len(want))
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 700 }, messages...)
	read := func(c *testConsumer, from int64) (repeats []int64, first, next int64, err error) {
		first, next = -1, from
		for {
			var batch event.Batch
			if err := c.Next(t.Context(), &batch); err != nil {
				return repeats, first, next, err
			}
			must.Require(t, batch.Next >= from, "next %d before the start %d", batch.Next, from)
			for _, e := range batch.Examples {
				must.Require(t, e.Offset == next, "offset %d, want %d", e.Offset, next)
				next++
				if first < 0 {
					first = e.Offset
				}
				if e.Refused != nil {
					must.Require(t, e.Refused.Reason == event.ReasonRepeated && len(e.Key) != 0 && e.Features.Len() <= 0 && e.Label == event.Unlabeled && e.Weight == 0 && e.Fingerprint != 0, "%+v", e)
					repeats = append(repeats, e.Offset)
				}
			}
		}
	}
	for _, start := range []int64{0, 1, 299, 300, 301, 1234, n - 1, n} {
		var from event.Offsets
		if start > 0 {
			from.At("t", 0, 0).Next = start
		}
		c := consume(t, b, "t", from, func(c *ConsumerConfig) { c.DedupWindow, c.BatchRecords = window, 37 })
		got, _, next, _ := read(c, start)
		i, _ := slices.BinarySearch(want, start)
		must.True(t, slices.Equal(got, want[i:]) && next == n, "from %d: %d repeats up to %d, want %d", start, len(got), next, len(want[i:]))
		c.Close()
	}
	// Every record is returned without dedup_window.
	must.Equal(t, n, len(consume(t, b, "t", nil, nil).all()), "records")
	// The part of the window that is no longer in the log is not needed.
	client := streamtest.Client(t, b.Brokers())
	to := kadm.Offsets{}
	to.AddOffset("t", 0, 1200, -1)
	must.Get(kadm.NewClient(client).DeleteRecords(t.Context(), to))(t)
	var from event.Offsets
	from.At("t", 0, 0).Next = 1234
	got, first, _, _ := read(consume(t, b, "t", from, func(c *ConsumerConfig) { c.DedupWindow = window }), 1234)
	must.True(t, first == 1234 && len(got) != 0 && slices.Equal(got[len(got)-1:], want[len(want)-1:]), "with a log that starts at 1200: from %d: %v", first, got)
}

// TestRepeatedAtTheEdge checks that an event is repeated if its key appeared exactly one window earlier, but not if it
// appeared one offset before that.
func TestRepeatedAtTheEdge(t *testing.T) {
	for _, window := range []int64{3, 1000, 5000} {
		r := repeated{window: window}
		r.of([]byte("edge"), 0)
		r.of([]byte("beyond"), 1)
		for i := int64(2); i < window; i++ {
			r.of(fmt.Appendf(nil, "%d", i), i)
		}
		must.Equal(t, r.of([]byte("edge"), window), 0, "the place in window", window)
		must.Equal(t, r.of([]byte("beyond"), 2+window), -1, "the place of one beyond window", window)
		must.Equal(t, r.of([]byte("edge"), 2*window), window, "the latest place")
	}
}

// TestRepeatedMemory checks that the window limits the memory.
func TestRepeatedMemory(t *testing.T) {
	r := repeated{window: 1000}
	for i := range int64(100_000) {
		r.of(fmt.Appendf(nil, "%d", i), i)
	}
	must.True(t, len(r.last) <= 1001 && len(r.queue) <= 4100 && cap(r.queue) <= 10_000, "%d keys, %d of %d in the queue", len(r.last), len(r.queue), cap(r.queue))
}
