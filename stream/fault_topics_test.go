package stream

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// cutter is a listener whose connections end after a number of bytes of a response.
type cutter struct {
	net.Listener
	left *atomic.Int64 // bytes that still get through; at 0 the connection ends
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
	if left >= 0 || left+int64(len(p)) <= 0 { // all of it, or it is another's turn
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:left+int64(len(p))])
	c.l.cuts.Add(1)
	c.Conn.Close()
	return n, errors.New("cut")
}

// A connection that ends in the middle of a response, at any byte of it, costs no
// record and repeats none.
func TestCutResponses(t *testing.T) {
	noLeaks(t)
	var left, cuts atomic.Int64
	left.Store(1 << 40)
	b := startCluster(t, 1, 1, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return cutter{l, &left, &cuts}, err
	}))
	c := steady(t, b, 1000, func(*ConnectConfig) {}, func(round int) {
		left.Store(int64(1 + 7*round%300))
	})
	if s := c.Stats(); cuts.Load() < 20 || s.Retries["connection"] == 0 {
		t.Errorf("%d cuts, retries %v", cuts.Load(), s.Retries)
	}
	left.Store(1 << 40)
	c.Close()
}

// A topic that is deleted while it is read is told as failing and tried again;
// when it comes back with fewer records than were read, the reading ends and says
// why, or under a policy begins anew.
func TestDeletedTopic(t *testing.T) {
	noLeaks(t)
	for _, policy := range []string{"fail", "earliest"} {
		t.Run(policy, func(t *testing.T) {
			b := startBroker(t, map[string]int32{"t": 1})
			produce(t, b, "t", nil, numbered(100)...)
			c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd, c.OutOfRange, c.RequestTimeout = false, policy, time.Second })
			defer c.Close()
			if _, err := c.until(100); err != nil {
				t.Fatal(err)
			}
			if err := b.cluster.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); c.Stats().Partitions[0].Failing == ""; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("nothing is told: %+v", c.Stats())
				}
			}
			if err := b.cluster.CreateTopic("t", 1, nil); err != nil {
				t.Fatal(err)
			}
			produce(t, b, "t", nil, numbered(7)...)
			began := time.Now()
			records, err := c.until(7)
			var out *OffsetOutOfRangeError
			switch {
			case policy == "fail" && !(errors.As(err, &out) && out.Offset == 100 && out.End <= 7):
				t.Errorf("%d records, %v: %+v", len(records), err, records)
			case policy == "earliest" && (err != nil || len(records) != 7 || records[0].value != "value 0"):
				t.Errorf("%d records, %v: %+v", len(records), err, records)
			}
			t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
		})
	}
}

// A topic that does not exist yet ends a start, with what to do; one that is made
// a moment later, as by a producer that starts at the same time, is waited for.
func TestTopicCreatedLate(t *testing.T) {
	b := startBroker(t, map[string]int32{"other": 1})
	var missing *TopicMissingError
	if _, err := tryConsume(t, b, "t", nil, nil); !errors.As(err, &missing) || missing.Topic != "t" {
		t.Errorf("%v", err)
	}
	var making sync.WaitGroup
	defer making.Wait()
	making.Go(func() {
		time.Sleep(20 * time.Millisecond)
		if err := b.cluster.CreateTopic("t", 2, nil); err != nil {
			t.Error(err)
		}
	})
	c, err := tryConsume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd = false })
	if err != nil {
		t.Fatal(err)
	}
	making.Wait()
	produce(t, b, "t", nil, numbered(10)...)
	if records, err := c.until(10); err != nil || len(records) != 10 {
		t.Errorf("%d records, %v: %+v", len(records), err, records)
	}
}

// Timestamps that jump back and forth, and far away, change neither the order nor
// the number of records.
func TestClockJumps(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	messages := numbered(50)
	for i := range messages {
		messages[i].Time = []int64{1_700_000_000_000, 1, 4_000_000_000_000, 1_700_000_000_001, 1_600_000_000_000}[i%5]
	}
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 300 }, messages...)
	records := consume(t, b, "t", nil, nil).all()
	if len(records) != len(messages) {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if r.offset != int64(i) || r.time != messages[i].Time {
			t.Errorf("record %d: %+v, want time %d", i, r, messages[i].Time)
		}
	}
	// From a time on: the first record at or after it, and everything behind that.
	later := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.Start = "timestamp:2023-11-14T22:13:20Z" }).all()
	if len(later) != len(messages) {
		t.Errorf("%d records from a time on", len(later))
	}
}
