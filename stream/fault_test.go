package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// fakeLog responds to fetches of t/0 with bytes that kfake would not send. A fetch at an offset gets the batches that
// end after it.
type fakeLog struct {
	start, end int64
	stable     int64 // last stable offset; 0 means end
	batches    [][]byte
	aborted    []abortedTransaction
	one        bool // send only one batch per response
	cut        int  // number of bytes missing at the end of every response with more than one batch
	fit        bool // cut every response at the requested size, even within its first batch

	mu      sync.Mutex
	damage  func(records []byte) []byte // called once, for the next response
	asked   func()                      // called before a request for the start or end of the log
	fetches int
}

func (l *fakeLog) serve(t *testing.T) *Embedded {
	b := startBroker(t, map[string]int32{"t": 1})
	b.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		return l.fetch(r.(*kmsg.FetchRequest)), nil, true
	})
	b.cluster.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked != nil {
			l.asked()
		}
		req := r.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Offset = l.end
		switch {
		case req.Topics[0].Partitions[0].Timestamp == kafka.FirstOffset:
			p.Offset = l.start
		case req.IsolationLevel == 1 && l.stable > 0:
			p.Offset = l.stable
		}
		resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
		return resp, nil, true
	})
	return b
}

func (l *fakeLog) fetch(req *kmsg.FetchRequest) kmsg.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetches++
	asked := req.Topics[0].Partitions[0]
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	p := kmsg.NewFetchResponseTopicPartition()
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = l.end, l.end, l.start
	if l.stable > 0 {
		p.LastStableOffset = l.stable
	}
	if asked.FetchOffset < l.start || asked.FetchOffset > l.end {
		p.ErrorCode = int16(kafka.OffsetOutOfRange)
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
	} else {
		n := 0
		for _, b := range l.batches {
			if batch, _, err := parseBatch(b); (err != nil || batch.next > asked.FetchOffset) && (n == 0 || !l.one) {
				p.RecordBatches = append(p.RecordBatches, b...)
				n++
			}
		}
		if n > 1 {
			p.RecordBatches = p.RecordBatches[:len(p.RecordBatches)-l.cut]
		}
		if l.fit {
			p.RecordBatches = p.RecordBatches[:min(len(p.RecordBatches), int(asked.PartitionMaxBytes))]
		}
		if l.damage != nil {
			p.RecordBatches, l.damage = l.damage(p.RecordBatches), nil
		}
		if req.IsolationLevel == 1 {
			for _, a := range l.aborted {
				p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.producer, FirstOffset: a.first})
			}
		}
	}
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: "t", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	return resp
}

func TestHandMadeResponses(t *testing.T) {
	plain := func(base int64, last int32, records ...testRecord) []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: base, ProducerID: -1}, last, records...)
	}
	with := func(producer int64, attributes int16, base int64, last int32, records ...testRecord) []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: base, ProducerID: producer, Attributes: attributes | flagTransactional}, last, records...)
	}
	abort := func(producer, offset int64) []byte {
		return with(producer, flagControl, offset, 0, testRecord{0, "\x00\x00\x00\x00", "marker"})
	}
	commit := func(producer, offset int64) []byte {
		return with(producer, flagControl, offset, 0, testRecord{0, "\x00\x00\x00\x01", "marker"})
	}
	tests := []struct {
		name string
		log  *fakeLog
		from int64
		want string // expected records as offset:value
	}{
		{name: "compacted tail", from: 0, want: "0:a 3:d 10:k", log: &fakeLog{end: 11, one: true, batches: [][]byte{
			plain(0, 9, testRecord{0, "", "a"}, testRecord{3, "", "d"}), plain(10, 0, testRecord{0, "", "k"})}}},
		{name: "compressed compacted tail", from: 0, want: "0:a 10:k", log: &fakeLog{end: 11, one: true, batches: [][]byte{
			makeBatch(t, kmsg.RecordBatch{Attributes: 4, ProducerID: -1}, 9, testRecord{0, "", "a"}), plain(10, 0, testRecord{0, "", "k"})}}},
		{name: "only an empty batch in a response", from: 0, want: "3:d", log: &fakeLog{end: 4, one: true, batches: [][]byte{
			makeBatch(t, kmsg.RecordBatch{ProducerID: 9}, 2), plain(3, 0, testRecord{0, "", "d"})}}},
		{name: "empty batch at the end", from: 0, want: "0:a", log: &fakeLog{end: 7, batches: [][]byte{
			plain(0, 0, testRecord{0, "", "a"}), makeBatch(t, kmsg.RecordBatch{FirstOffset: 1, ProducerID: 9}, 5)}}},
		{name: "batches gone", from: 2, want: "20:x 40:y", log: &fakeLog{end: 41, batches: [][]byte{
			plain(20, 0, testRecord{0, "", "x"}), plain(40, 0, testRecord{0, "", "y"})}}},
		{name: "records before the offset", from: 2, want: "2:c 3:d", log: &fakeLog{end: 4, batches: [][]byte{
			plain(0, 3, testRecord{0, "", "a"}, testRecord{1, "", "b"}, testRecord{2, "", "c"}, testRecord{3, "", "d"})}}},
		{name: "cut at the end", from: 0, want: "0:a 1:b 2:c", log: &fakeLog{end: 3, cut: 5, batches: [][]byte{
			plain(0, 0, testRecord{0, "", "a"}), plain(1, 0, testRecord{0, "", "b"}), plain(2, 0, testRecord{0, "", "c"})}}},
		{name: "cut in the header", from: 0, want: "0:a 1:b", log: &fakeLog{end: 2, cut: 60, batches: [][]byte{
			plain(0, 0, testRecord{0, "", "a"}), plain(1, 0, testRecord{0, "", "b"})}}},
		{name: "larger than max_bytes", from: 0, want: "0:" + strings.Repeat("a", 3000), log: &fakeLog{end: 1, fit: true, batches: [][]byte{
			plain(0, 0, testRecord{0, "", strings.Repeat("a", 3000)})}}},
		{name: "control batches", from: 0, want: "0:a 2:b", log: &fakeLog{end: 4, batches: [][]byte{
			with(5, 0, 0, 0, testRecord{0, "", "a"}), commit(5, 1), with(5, 0, 2, 0, testRecord{0, "", "b"}), commit(5, 3)}}},
		{name: "only a control batch in a response", from: 0, want: "0:a 2:b", log: &fakeLog{end: 3, one: true, batches: [][]byte{
			with(5, 0, 0, 0, testRecord{0, "", "a"}), commit(5, 1), plain(2, 0, testRecord{0, "", "b"})}}},
		{name: "aborted", from: 0, want: "2:other 5:kept", log: &fakeLog{end: 9,
			aborted: []abortedTransaction{{7, 0}, {7, 6}},
			batches: [][]byte{
				with(7, 0, 0, 1, testRecord{0, "", "gone"}, testRecord{1, "", "gone"}),
				with(8, 0, 2, 0, testRecord{0, "", "other"}), commit(8, 3), abort(7, 4),
				with(7, 0, 5, 0, testRecord{0, "", "kept"}),
				with(7, 0, 6, 0, testRecord{0, "", "gone"}), abort(7, 7), commit(8, 8)}}},
		{name: "aborted, interleaved", from: 0, want: "2:plain 4:after", log: &fakeLog{end: 7,
			aborted: []abortedTransaction{{7, 0}, {8, 1}},
			batches: [][]byte{
				with(7, 0, 0, 0, testRecord{0, "", "gone"}), with(8, 0, 1, 0, testRecord{0, "", "gone"}),
				plain(2, 0, testRecord{0, "", "plain"}), abort(7, 3), with(7, 0, 4, 0, testRecord{0, "", "after"}),
				with(8, 0, 5, 0, testRecord{0, "", "gone"}), abort(8, 6)}}},
		{name: "aborted, from the middle", from: 1, want: "3:kept", log: &fakeLog{end: 4,
			aborted: []abortedTransaction{{7, 0}},
			batches: [][]byte{
				with(7, 0, 0, 1, testRecord{0, "", "gone"}, testRecord{1, "", "gone"}), abort(7, 2), plain(3, 0, testRecord{0, "", "kept"})}}},
		{name: "until the last stable offset", from: 0, want: "0:a", log: &fakeLog{end: 3, stable: 1, batches: [][]byte{
			plain(0, 0, testRecord{0, "", "a"}), plain(1, 1, testRecord{0, "", "open"})}}},
		{name: "end in the middle of a batch", from: 0, want: "0:a 1:b", log: &fakeLog{end: 2, batches: [][]byte{
			plain(0, 3, testRecord{0, "", "a"}, testRecord{1, "", "b"}, testRecord{2, "", "c"})}}},
		{name: "end in a gap", from: 0, want: "0:a", log: &fakeLog{end: 5, batches: [][]byte{
			plain(0, 0, testRecord{0, "", "a"}), plain(9, 0, testRecord{0, "", "late"})}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := test.log.serve(t)
			from := streamtest.From("t", 0, test.from)
			c := consume(t, b, "t", from, func(c *ConsumerConfig) {
				c.MaxBytes, c.BatchRecords = 1000, 2
			})
			out := must.Map(c.all(), func(r got) string { return fmt.Sprintf("%d:%s", r.offset, r.value) })
			must.Equal(t, strings.Join(out, " "), test.want)
			end := must.Either(test.log.stable > 0, test.log.stable, test.log.end)
			must.Equal(t, c.position["t/0"], end, "position", c.position)
			n := len(test.log.batches)
			must.True(t, test.log.fetches <= n+4, "%d fetches for %d batches", test.log.fetches, n)
			r := c.Stats().Retries
			must.True(t, len(r) <= 0, "retries %v", r)
			c.Close()
		})
	}
}

func TestCorruptBatch(t *testing.T) {
	good := func(base int64, value string) []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: base, ProducerID: -1}, 0, testRecord{0, "", value})
	}
	flip := func(records []byte) []byte {
		records = slices.Clone(records)
		records[len(records)-1] ^= 1
		return records
	}
	magic := good(1, "b")
	magic[16] = 1
	tests := []struct {
		name    string
		batches [][]byte
		damage  func([]byte) []byte
		want    []string
		err     string // text of the CorruptBatchError at offset 1; "" for no error
		retries uint64
	}{
		{"damaged on the way", [][]byte{good(0, "a"), good(1, "b")}, flip, []string{"a", "b"}, "", 0},
		{"damaged alone on the way", [][]byte{good(0, "a")}, flip, []string{"a"}, "", 1},
		{"damaged in the log", [][]byte{good(0, "a"), flip(good(1, "b")), good(2, "c")}, nil, []string{"a"}, "checksum", 2},
		{"old format", [][]byte{good(0, "a"), magic}, nil, []string{"a"}, "format 1", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := &fakeLog{end: int64(len(test.batches)), batches: test.batches, damage: test.damage}
			c := consume(t, log.serve(t), "t", nil, nil)
			records, err := c.until(100)
			must.EqualSlices(t, values(records), test.want, "values")
			var corrupt *CorruptBatchError
			switch {
			case test.err == "" && err != io.EOF:
				t.Errorf("error %v", err)
			case test.err != "" && (!errors.As(err, &corrupt) || corrupt.Offset != 1 || !strings.Contains(err.Error(), test.err)):
				t.Errorf("error %v, want a CorruptBatchError at offset 1 with %q", err, test.err)
			}
			_, again := c.until(1)
			must.True(t, again == err, "the error after %v is %v", err, again)
			must.Equal(t, c.Stats().Retries["corrupt-batch"], test.retries, "retries")
			c.Close()
		})
	}
}

// TestStaleEnd checks a broker that is no longer the leader but still responds, and reports an end before the records
// that were read. The policy for offsets out of range must not be applied at once.
func TestStaleEnd(t *testing.T) {
	t.Parallel()                               // mostly waiting
	for _, late := range []bool{false, true} { // at the start, or while reading
		log := &fakeLog{start: 0, end: 9}
		for i := range int64(9) {
			log.batches = append(log.batches, makeBatch(t, kmsg.RecordBatch{FirstOffset: i, ProducerID: -1}, 0, testRecord{0, "", fmt.Sprint(i)}))
		}
		asked := 0
		log.asked = func() {
			if asked++; asked > 6 {
				log.end = 9
			}
		}
		b := log.serve(t)
		stale := func(records []byte) []byte { log.end = 4; return nil }
		if !late {
			log.end = 4
		}
		from := streamtest.From("t", 0, 7)
		c := must.Get(tryConsume(t, b, "t", from, func(c *ConsumerConfig) {
			c.OutOfRange, c.UntilEnd = "earliest", false
			if late {
				log.mu.Lock()
				log.damage = stale
				log.mu.Unlock()
			}
		}))(t)
		records, err := c.until(2)
		must.True(t, err == nil && slices.Equal(values(records), []string{"7", "8"}), "late %v: %q, %v", late, values(records), err)
		n := c.Stats().Retries
		must.True(t, n["end-before-offset"] != 0 && n["offset-reset"] <= 0, "late %v: %v", late, n)
		c.Close()
	}
}

func TestOutOfRange(t *testing.T) {
	batch := func(base int64) []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: base, ProducerID: -1}, 0, testRecord{0, "", fmt.Sprint(base)})
	}
	tests := []struct {
		policy string
		late   bool // change the log after the consumer has started
		from   int64
		start  int64
		end    int64
		want   string
	}{
		{"fail", false, 5, 7, 9, ""},
		{"fail", true, 5, 7, 9, ""},
		{"fail", false, 12, 0, 9, ""},
		{"earliest", false, 5, 7, 9, "7 8"},
		{"earliest", true, 5, 7, 9, "7 8"},
		{"latest", false, 5, 7, 9, ""},
		{"latest", true, 5, 7, 9, ""},
		{"earliest", false, 12, 7, 9, "7 8"},
		{"earliest", true, 12, 7, 9, "7 8"},
		{"latest", true, 12, 7, 9, ""},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %d of %d to %d late %v", test.policy, test.from, test.start, test.end, test.late), func(t *testing.T) {
			t.Parallel() // these cases only wait
			log := &fakeLog{start: test.start, end: test.end, batches: [][]byte{batch(7), batch(8)}}
			b := log.serve(t)
			if test.late {
				log.start, log.end = 0, 20
			}
			from := streamtest.From("t", 0, test.from)
			c, err := tryConsume(t, b, "t", from, func(c *ConsumerConfig) {
				c.OutOfRange, c.UntilEnd, c.RequestTimeout = test.policy, false, 300*time.Millisecond
				if test.late {
					// Change the log before anything is fetched.
					log.mu.Lock()
					log.damage = func(b []byte) []byte { log.start, log.end = test.start, test.end; return nil }
					log.mu.Unlock()
				}
			})
			var records []got
			var resets int
			want := strings.Fields(test.want)
			for err == nil && (resets == 0 || len(records) < len(want)) {
				var batch event.Batch
				if err = c.Next(t.Context(), &batch); err != nil {
					break
				}
				if batch.Reset {
					resets++
					must.True(t, len(batch.Examples) == 0, "a reset with examples")
				}
				for i := range batch.Examples {
					records = append(records, got{value: c.values[batch.Examples[i].Label]})
				}
			}
			var out *OffsetOutOfRangeError
			if test.policy == "fail" {
				must.True(t, errors.As(err, &out) && *out == (OffsetOutOfRangeError{"t", 0, test.from, test.start, test.end}), "error %v", err)
			} else if err != nil {
				t.Errorf("error %v", err)
			}
			must.EqualSlices(t, values(records), want, "values")
			if c != nil {
				must.True(t, resets <= 0 || c.Stats().Retries["offset-reset"] == 1, "stats %+v", c.Stats())
				c.Close()
			}
		})
	}
}

// startCluster starts a cluster of n brokers.
func startCluster(t *testing.T, n int, partitions int32, options ...kfake.Opt) *Embedded {
	t.Helper()
	c := must.Get(kfake.NewCluster(append(options, kfake.NumBrokers(n), kfake.SeedTopics(partitions, "t"))...))(t)
	t.Cleanup(c.Close)
	return &Embedded{c}
}

// steady produces n records, one batch at a time, while disturb runs. steady checks that the consumer gets each record
// exactly once and in order.
func steady(t *testing.T, b *Embedded, n int, edit func(*ConnectConfig), disturb func(round int)) *testConsumer {
	t.Helper()
	config := DefaultProducerConfig()
	config.Brokers, config.Topic, config.Log = b.Brokers(), "t", streamtest.Log(t)
	edit(&config.ConnectConfig)
	p := must.Get(NewProducer(t.Context(), config))(t)
	defer p.Close()
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd = false; edit(&c.ConnectConfig) })
	done := make(chan error, 1)
	go func() {
		for i := range n {
			err := p.WriteTo(t.Context(), 0, Message{Value: fmt.Appendf(nil, "%d", i)})
			if err == nil && i%10 == 9 {
				disturb(i / 10)
				err = p.Flush(t.Context())
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	records, err := c.until(n)
	must.Do(t, errors.Join(err, <-done), "after", len(records), "records")
	for i, r := range records {
		must.Require(t, r.value == fmt.Sprint(i), "record %d is %s", i, r.value)
	}
	return c
}

func TestLeaderMoves(t *testing.T) {
	b := startCluster(t, 3, 1)
	c := steady(t, b, 300, func(*ConnectConfig) {}, func(round int) {
		if round%6 == 0 {
			err := b.cluster.MoveTopicPartition("t", 0, int32(round/6%3))
			must.True(t, err == nil, "%v", err)
		}
	})
	must.True(t, c.Stats().Retries["not-leader"] != 0, "retries %v: the leader never moved", c.Stats().Retries)
	c.Close()
}

// network is a listener whose connections can be cut or paused.
type network struct {
	mu    sync.Mutex
	conns []net.Conn
	hang  sync.RWMutex // locked for writing while the connections are paused
}

type networkConn struct {
	net.Conn
	n *network
}

func (c networkConn) Write(b []byte) (int, error) {
	c.n.hang.RLock()
	defer c.n.hang.RUnlock()
	return c.Conn.Write(b)
}

type networkListener struct {
	net.Listener
	n *network
}

func (l networkListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.n.conns = append(l.n.conns, conn)
	return networkConn{conn, l.n}, nil
}

func (n *network) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return networkListener{l, n}, err
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func TestDroppedConnections(t *testing.T) {
	var n network
	b := startCluster(t, 2, 1, kfake.ListenFn(n.listen))
	random := rand.New(rand.NewPCG(1, 2))
	c := steady(t, b, 400, func(*ConnectConfig) {}, func(round int) {
		if round%4 == 0 {
			time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, n.cut)
		}
	})
	// The cuts above may all have happened between two requests. Cut again until a fetcher that waits for records is
	// affected.
	for range 200 {
		if c.Stats().Retries["connection"] > 0 {
			break
		}
		n.cut()
		time.Sleep(10 * time.Millisecond)
	}
	must.True(t, c.Stats().Retries["connection"] != 0, "retries %v", c.Stats().Retries)
	c.Close()
}

func TestHungBroker(t *testing.T) {
	t.Parallel() // mostly waiting
	var n network
	b := startCluster(t, 1, 1, kfake.ListenFn(n.listen))
	c := steady(t, b, 40, func(c *ConnectConfig) { c.RequestTimeout = 100 * time.Millisecond }, func(round int) {
		if round == 1 {
			n.hang.Lock()
			time.AfterFunc(500*time.Millisecond, n.hang.Unlock)
		}
	})
	s := c.Stats()
	must.True(t, s.Retries["timeout"] != 0 && s.Partitions[0].Failing == "", "stats %+v", s)
	n.hang.Lock()
	defer n.hang.Unlock()
	streamtest.Eventually(t, time.Minute, func() bool { return c.Stats().Partitions[0].Failing == "timeout" }, "Failing")
	c.Close()
}

func TestBrokerRestarts(t *testing.T) {
	t.Parallel() // mostly waiting
	dir := t.TempDir()
	start := func(port int) (*Embedded, error) {
		cluster, err := kfake.NewCluster(kfake.Ports(port), kfake.DataDir(dir))
		return &Embedded{cluster}, err
	}
	b := must.Get(start(0))(t)
	must.Do(t, b.cluster.CreateTopic("t", 1, nil))
	first := &Embedded{b.cluster}
	port := 0
	fmt.Sscanf(b.Brokers()[0], "127.0.0.1:%d", &port)
	current := b
	t.Cleanup(func() { current.Close() })
	c := steady(t, first, 100, func(*ConnectConfig) {}, func(round int) {
		if round == 3 || round == 7 {
			current.Close()
			time.Sleep(50 * time.Millisecond)
			again, err := start(port)
			if err != nil {
				t.Error(err)
				return
			}
			current = again
		}
	})
	c.Close()
}

func TestHungBrokerClose(t *testing.T) {
	var n network
	b := startCluster(t, 1, 3, kfake.ListenFn(n.listen))
	// Close must not wait for the requests, which would take longer than the test.
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd, c.RequestTimeout = false, 24*time.Hour })
	must.Get(c.until(0))(t)
	n.hang.Lock()
	defer n.hang.Unlock()
	c.Close()
}

func TestNewPartitions(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) {
		c.UntilEnd, c.Start, c.MetadataInterval = false, "latest", 100*time.Millisecond
	})
	must.Get(streamtest.Admin(t, b.Brokers()...).UpdatePartitions(t.Context(), 3, "t"))(t)
	// Records written before the consumer sees the new partitions are read too.
	produce(t, b, "t", nil, numbered(100)...)
	records, err := c.until(100)
	must.True(t, err == nil && len(records) == 100 && len(c.position) == 3, "%d records of %v, %v", len(records), c.position, err)

	// Repeat with a partition that was added while no consumer was running.
	from := streamtest.From("t", 0, c.position["t/0"])
	later := consume(t, b, "t", from, func(c *ConsumerConfig) { c.Start = "latest" })
	must.Equal(t, len(later.all()), int(c.position["t/1"]+c.position["t/2"]), "records of the new partitions")
}

func TestCommit(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 2})
	c := consume(t, b, "t", nil, nil)
	var o event.Offsets
	o.At("t", 0, 17)
	o.At("t", 1, 4)
	must.Do(t, c.Commit(t.Context(), "g", o))
	info := b.cluster.GroupInfo("g")
	must.True(t, info != nil && info.Commits["t"][0].Offset == 17 && info.Commits["t"][1].Offset == 4, "%+v", info)
}

// TestFirstCommit checks that the first commit waits until a new cluster has elected the coordinator of the group.
func TestFirstCommit(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	c := consume(t, b, "t", nil, nil)
	refusals := []int16{15, 16, 14} // error codes: no coordinator, not the coordinator, loading
	b.cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if len(refusals) == 0 {
			return nil, nil, false
		}
		answer := r.ResponseKind().(*kmsg.OffsetCommitResponse)
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.ErrorCode, refusals = refusals[0], refusals[1:]
		answer.Topics = append(answer.Topics, kmsg.OffsetCommitResponseTopic{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{p}})
		return answer, nil, true
	})
	o := streamtest.From("t", 0, 17)
	must.Do(t, c.Commit(t.Context(), "g", o))
	info := b.cluster.GroupInfo("g")
	must.True(t, len(refusals) <= 0 && info != nil && info.Commits["t"][0].Offset == 17, "%v, %+v", refusals, info)
	refusals = []int16{30} // error code: not authorized, so waiting does not help
	must.ErrorContains(t, c.Commit(t.Context(), "g", o), "committing offset of group g for t/0: ")
}

// TestWrongProtocol checks the error message for a port with another protocol.
func TestWrongProtocol(t *testing.T) {
	t.Parallel() // mostly waiting
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := server.Listener.Addr().String()
	for tls, want := range map[bool]string{false: "speaks HTTP and is not a Kafka broker", true: "the broker does not speak TLS on this port"} {
		c := DefaultConsumerConfig()
		c.Brokers, c.Topics, c.TLS.Enabled, c.RequestTimeout = []string{address}, []string{"t"}, tls, time.Second/4
		_, err := connect(t.Context(), c.ConnectConfig, c.Topics, nil)
		must.True(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), address), "tls %v: %v", tls, err)
	}
}

// TestReadAhead checks that filling later Batches does not change a Batch.
func TestReadAhead(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	messages := numbered(3000)
	for i := range messages {
		if i%5 == 0 {
			messages[i].Value = []byte("bad")
		}
	}
	produce(t, b, "t", func(c *ProducerConfig) { c.Compression, c.BatchBytes = "lz4", 3000 }, messages...)
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.MaxBytes, c.BatchRecords = 2000, 64 })
	var ring [3]event.Batch
	var copies [3]string
	print := func(b *event.Batch) string {
		var s strings.Builder
		for _, e := range b.Examples {
			fmt.Fprintf(&s, "%d %s %x", e.Offset, e.Key, e.Fingerprint)
			if e.Refused != nil {
				fmt.Fprintf(&s, " %s", e.Refused.Value)
			}
		}
		return s.String()
	}
	for i := 0; ; i++ {
		k := i % len(ring)
		now := print(&ring[k])
		must.Require(t, now == copies[k], "batch %d changed while others were filled:\n%s\n%s", i-3, copies[k], now)
		err := c.Next(t.Context(), &ring[k])
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		copies[k] = print(&ring[k])
	}
}

// TestLargeRecordIsForgotten checks that a very large record takes memory only while it is read.
func TestLargeRecordIsForgotten(t *testing.T) {
	const large = 30 << 20
	b := startBroker(t, nil)
	must.Do(t, b.cluster.CreateTopic("t", 1, map[string]string{"max.message.bytes": fmt.Sprint(large + 1<<20)}))
	messages := append(numbered(3), Message{Value: bytes.Repeat([]byte("x"), large)})
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes, c.Compression = 1000, "none" }, append(messages, numbered(200)...)...)
	c := consume(t, b, "t", nil, func(c *ConsumerConfig) { c.UntilEnd, c.MaxBytes = false, 1000 })
	got, err := c.until(204)
	must.Require(t, err == nil && len(got) == 204 && len(got[3].value) == large, "%d records, %v", len(got), err)
	c.Close()
	f := c.fetchers[0]
	must.Equal(t, f.maxBytes, 1000, "the bytes that a fetch still asks for")
	for len(f.free) > 0 {
		x := (<-f.free).exchange
		must.True(t, x == nil || cap(x.body) <= 1<<20, "a large buffer is kept")
	}
}

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
