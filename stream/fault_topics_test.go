package stream

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cutter is a listener that ends a connection after a given number of response bytes.
type cutter struct {
	net.Listener
	left *atomic.Int64 // number of bytes until the connection ends
	cuts *atomic.Int64
}

func (l cutter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return cutConn{conn, l}, err
}

type cutConn struct {
	net.Conn
	l cutter
}

func (c cutConn) Write(p []byte) (int, error) {
	left := c.l.left.Add(-int64(len(p)))
	if left >= 0 || left+int64(len(p)) <= 0 { // within the limit, or another connection was already cut
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:left+int64(len(p))])
	c.l.cuts.Add(1)
	c.Conn.Close()
	return n, errors.New("cut")
}

// TestCutResponses checks that a connection that ends in the middle of a response, at any byte, neither loses nor
// repeats a record.
func TestCutResponses(t *testing.T) {
	t.Parallel() // mostly waiting
	var left, cuts atomic.Int64
	left.Store(1 << 40)
	b := startCluster(t, 1, 1, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return cutter{l, &left, &cuts}, err
	}))
	c := steady(t, b, 1000, func(*ConnectConfig) {}, func(round int) {
		left.Store(int64(1 + 7*round%300))
	})
	s := c.Stats()
	must.True(t, cuts.Load() >= 20 && s.Retries["connection"] != 0, "%d cuts, retries %v", cuts.Load(), s.Retries)
	left.Store(1 << 40)
	c.Close()
}

// TestDeletedTopic checks that a topic that is deleted while it is read is reported as failing, and that reading is
// retried. If the topic is recreated, with any number of records, it counts as another topic. Reading must then stop
// with an error, or restart by the policy.
func TestDeletedTopic(t *testing.T) {
	t.Parallel() // mostly waiting
	for policy, first := range map[string]int{"fail": -1, "earliest": 0, "latest": 0} {
		for _, records := range []int{7, 150} {
			t.Run(fmt.Sprint(policy, records), func(t *testing.T) {
				b := startBroker(t, map[string]int32{"t": 1})
				produce(t, b, "t", nil, numbered(100)...)
				c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd, c.OutOfRange, c.RequestTimeout = false, policy, time.Second })
				defer c.Close()
				must.Get(c.until(100))(t)
				must.Do(t, b.cluster.DeleteTopic("t"))
				streamtest.Eventually(t, time.Minute, func() bool { return c.Stats().Partitions[0].Failing != "" }, "Failing")
				must.Do(t, b.cluster.CreateTopic("t", 1, nil))
				if policy == "latest" { // records written before the new topic is detected are skipped
					for c.Stats().Partitions[0].Failing != "" {
						time.Sleep(10 * time.Millisecond)
					}
				}
				produce(t, b, "t", nil, numbered(records)...)
				began := time.Now()
				got, err := c.until(7)
				var anew *TopicRecreatedError
				switch {
				case policy == "fail" && !(errors.As(err, &anew) && anew.Topic == "t" && anew.Offset == 100 && len(anew.Was) == 22 && len(anew.Is) == 22 && anew.Was != anew.Is):
					t.Errorf("%d records, %v: %+v", len(got), err, got)
				case policy != "fail" && (err != nil || len(got) < 7 || got[0].value != fmt.Sprint("value ", first)):
					t.Errorf("%d records, %v: %+v", len(got), err, got)
				}
				t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
			})
		}
	}
}

// TestRecreatedTopic checks that a recreated topic is detected even if nothing is fetched, because records wait to be
// read or no consumer runs.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startBroker(t, map[string]int32{"t": 1})
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 300 }, numbered(100)...)
	behind := consume(t, b, "t", nil, func(c *ConsumerConfig) {
		c.UntilEnd, c.Prefetch, c.MaxBytes, c.MetadataInterval = false, 1, 300, 100*time.Millisecond
	})
	var from event.Offsets
	var batch event.Batch
	whole := consume(t, b, "t", nil, nil)
	for err := error(nil); err == nil; err = whole.Next(t.Context(), &batch) {
		p := from.At("t", 0, 0)
		p.Next, p.TopicID = batch.Next, batch.TopicID
	}
	must.Require(t, from[0].Next == 100 && len(from[0].TopicID) == 22, "%+v", from)
	must.Do(t, errors.Join(b.cluster.DeleteTopic("t"), b.cluster.CreateTopic("t", 1, nil)))
	produce(t, b, "t", nil, numbered(150)...)

	var anew *TopicRecreatedError
	_, err := tryConsume(t, b, "t", from, nil)
	must.True(t, errors.As(err, &anew) && anew.Offset == 100 && anew.Was == from[0].TopicID, "%v", err)
	for policy, n := range map[string]int{"earliest": 150, "latest": 0} {
		got := consume(t, b, "t", from, func(c *ConsumerConfig) { c.OutOfRange = policy }).all()
		must.True(t, len(got) == n, "%s: %d records", policy, len(got))
	}
	unchecked := func(c *ConsumerConfig) { c.CheckTopicID = false }
	must.Equal(t, len(consume(t, b, "t", from, unchecked).all()), 50, "records without a check")
	old := from.Clone() // offsets of a program that stored no IDs
	old[0].TopicID = ""
	must.Equal(t, len(consume(t, b, "t", old, nil).all()), 50, "records without an id")

	time.Sleep(300 * time.Millisecond) // time for several metadata requests
	got, err := behind.until(100)
	must.True(t, errors.As(err, &anew) && len(got) <= 20, "%d records, %v", len(got), err)
}

// TestNoTopicIDs checks brokers before Kafka 2.8, which have no topic IDs. Topics are then identified by name alone.
func TestNoTopicIDs(t *testing.T) {
	b := must.Get(StartEmbedded(EmbeddedConfig{Topics: map[string]int32{"t": 1}}))(t)
	defer b.Close()
	b.cluster.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		response := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		for key, last := range map[int16]int16{0: 8, 1: 11, 2: 5, 3: 8, 18: 0} {
			response.ApiKeys = append(response.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: last})
		}
		return response, nil, true
	})
	produce(t, b, "t", nil, numbered(10)...)
	must.Equal(t, len(consume(t, b, "t", event.Offsets{{Topic: "t", Next: 3, TopicID: "griTZtIoWYRHZHic5o9I9A"}}, nil).all()), 7, "records")
}

// TestTopicCreatedLate checks that a missing topic is an error with advice. If the topic is created a moment later, as
// by a producer that starts at the same time, the start must wait for it.
func TestTopicCreatedLate(t *testing.T) {
	b := startBroker(t, map[string]int32{"other": 1})
	var missing *TopicMissingError
	_, err := tryConsume(t, b, "t", nil, nil)
	must.True(t, errors.As(err, &missing) && missing.Topic == "t", "%v", err)
	var making sync.WaitGroup
	defer making.Wait()
	making.Go(func() {
		time.Sleep(20 * time.Millisecond)
		err := b.cluster.CreateTopic("t", 2, nil)
		must.True(t, err == nil, "%v", err)
	})
	c := must.Get(tryConsume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd = false }))(t)
	making.Wait()
	produce(t, b, "t", nil, numbered(10)...)
	must.Equal(t, len(must.Get(c.until(10))(t)), 10, "records")
}

// TestClockJumps checks that timestamps that jump back and forth, even very far, change neither the order nor the
// number of records.
func TestClockJumps(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	messages := numbered(50)
	for i := range messages {
		messages[i].Time = []int64{1_700_000_000_000, 1, 4_000_000_000_000, 1_700_000_000_001, 1_600_000_000_000}[i%5]
	}
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 300 }, messages...)
	records := consume(t, b, "t", nil, nil).all()
	must.Require(t, len(records) == len(messages), "%d records", len(records))
	for i, r := range records {
		must.True(t, r.offset == int64(i) && r.time == messages[i].Time, "record %d: %+v, want time %d", i, r, messages[i].Time)
	}
	// Reading from a time on starts at the first record at or after that time, and includes all later offsets.
	later := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.Start = "timestamp:2023-11-14T22:13:20Z" }).all()
	must.Equal(t, len(later), len(messages), "records from a time on")
}
