package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newProducer(t *testing.T, b *Embedded, edit func(*ProducerConfig)) *Producer {
	t.Helper()
	config := DefaultProducerConfig()
	config.Brokers, config.Topic, config.Log = b.Brokers(), "t", streamtest.Log(t)
	if edit != nil {
		edit(&config)
	}
	p := must.Get(NewProducer(t.Context(), config))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestOtherClients exchanges records with franz-go, with every codec, in both directions.
func TestOtherClients(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t, map[string]int32{"t": 1})
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.ProducerBatchCompression(codec),
				kgo.ConsumeTopics("t"), kgo.FetchMaxWait(50*time.Millisecond))
			must.Do(t, err)
			defer client.Close()
			var want []string
			for i := range 500 {
				value := strings.Repeat("x", i)
				want = append(want, value)
				r := &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte(value)}
				client.Produce(t.Context(), r, nil)
			}
			must.Do(t, client.Flush(t.Context()))
			c := consume(t, b, "t", nil, nil)
			if got := values(c.all()); !slices.Equal(got, want) {
				t.Errorf("%d values of franz-go's, want %d", len(got), len(want))
			}
			headers := []Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}
			produce(t, b, "t", func(c *ProducerConfig) { c.Compression = name },
				Message{Key: []byte("k"), Value: []byte("v"), Time: 12345, Headers: headers}, Message{})
			var got []string
			for len(got) < 502 {
				fetches := client.PollFetches(t.Context())
				must.Do(t, fetches.Err())
				fetches.EachRecord(func(r *kgo.Record) {
					got = append(got, fmt.Sprintf("%q %q %d %v", r.Key, r.Value, r.Timestamp.UnixMilli(), r.Headers))
				})
			}
			must.Equal(t, got[500], `"k" "v" 12345 [{a [49]} {b []}]`)
			must.True(t, strings.HasPrefix(got[501], `"" "" `), "got %s for an empty message", got[501])
		})
	}
}

// TestLostAcknowledgement checks batches that are stored without a response. The producer must send them again, and the
// broker must recognize them.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel() // mostly waiting
	var n network
	b := startCluster(t, 1, 1, kfake.ListenFn(n.listen))
	p := newProducer(t, b, func(c *ProducerConfig) { c.RequestTimeout = 100 * time.Millisecond })
	for round := range 3 {
		for i := range 10 {
			must.Do(t, p.Write(t.Context(), Message{Value: fmt.Appendf(nil, "%d", 10*round+i)}))
		}
		n.hang.Lock() // requests still arrive, but responses are held back
		time.AfterFunc(150*time.Millisecond, n.hang.Unlock)
		must.Do(t, p.Flush(t.Context()))
	}
	got := values(consume(t, b, "t", nil, nil).all())
	must.True(t, len(got) == 30 && got[29] == "29", "%d records: %v", len(got), got)
}

func TestProducerKeepsWhatFailed(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	p := newProducer(t, b, func(c *ProducerConfig) { c.DeliveryTimeout = 50 * time.Millisecond })
	must.Do(t, p.Write(t.Context(), Message{Value: []byte("a")}))
	down := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1})
	must.Fails(t, p.Flush(t.Context()), "Flush without an acknowledgement")
	must.Fails(t, p.Write(t.Context(), Message{Value: []byte("refused")}), "Write takes a record while an earlier batch fails")
	must.Equal(t, p.records, 0, "acknowledged")
	down.Remove()
	must.Do(t, p.Write(t.Context(), Message{Value: []byte("b")}))
	must.Do(t, p.Flush(t.Context()))
	must.EqualSlices(t, values(consume(t, b, "t", nil, nil).all()), []string{"a", "b"})
	for range 3 {
		must.Do(t, p.Write(t.Context(), Message{Value: []byte("left")}))
	}
	must.ErrorContains(t, p.Close(), "3 records", "Close with records left")
}

// TestMessageTooLarge checks that a batch that is too large for its topic is split. A single record that is too large
// must be reduced, or give an error and stay in the producer.
func TestMessageTooLarge(t *testing.T) {
	b := startCluster(t, 1, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "1000"}))
	p := newProducer(t, b, nil)
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprint(i, strings.Repeat("x", i)))
		m := Message{Value: []byte(want[i]), Time: int64(1000 + i), Headers: []Header{{Key: "h", Value: []byte{byte(i)}}}}
		must.Do(t, p.Write(t.Context(), m))
		if i == 200 { // from here on the largest size of a batch is known
			must.Do(t, p.Flush(t.Context()))
		}
	}
	must.Do(t, p.Flush(t.Context()))
	got := values(consume(t, b, "t", nil, nil).all())
	must.True(t, slices.Equal(got, want) && p.records == 300, "%d records, %d acknowledged: %q", len(got), p.records, got)
	must.Do(t, p.Write(t.Context(), Message{Value: make([]byte, 2000)}))
	err := p.Flush(t.Context())
	must.True(t, errors.Is(err, kafka.MessageSizeTooLarge) && strings.Contains(err.Error(), "max.message.bytes of topic t"), "error %v", err)
	must.Fails(t, p.Close(), "Close with a record that was not written")
}

// TestBatchMessages checks that splitting a batch returns its original records.
func TestBatchMessages(t *testing.T) {
	var w batchWriter
	want := []Message{
		{Key: []byte("k"), Value: []byte("v"), Time: 1000, Headers: []Header{{Key: "a", Value: []byte("b")}, {}, {Key: "c", Value: []byte{}}}},
		{Value: []byte{}, Time: 900},
		{Key: []byte{}, Time: 5000, Headers: []Header{{Key: "x", Value: make([]byte, 300)}}},
	}
	for _, m := range want {
		w.add(w.NumRecords, m)
	}
	got := w.messages()
	must.True(t, reflect.DeepEqual(got, want), "got  %v\nwant %v", got, want)
}

func TestRateAndProgress(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	var progress [][2]uint64
	p := newProducer(t, b, func(c *ProducerConfig) {
		c.Rate, c.Linger = 200, 20*time.Millisecond
		c.Progress = func(records, bytes uint64) { progress = append(progress, [2]uint64{records, bytes}) }
	})
	start := time.Now()
	for range 41 {
		must.Do(t, p.Write(t.Context(), Message{Key: []byte("k"), Value: []byte("vv")}))
	}
	must.Do(t, p.Flush(t.Context()))
	d := time.Since(start)
	must.True(t, d >= 200*time.Millisecond, "41 records at 200 a second took %v", d)
	n := len(progress)
	must.True(t, n >= 4 && progress[n-1] == [2]uint64{41, 123}, "progress %v: want a batch every 20 ms", progress)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.config.Rate = 0.001
	must.ErrorIs(t, p.Write(ctx, Message{}), context.Canceled, "Write after canceling")
}

func TestProducerErrors(t *testing.T) {
	t.Parallel() // mostly waiting
	b := startBroker(t, map[string]int32{"t": 2})
	for want, edit := range map[string]func(*ProducerConfig){
		"does not exist":     func(c *ProducerConfig) { c.Topic = "other" },
		"compression":        func(c *ProducerConfig) { c.Compression = "rar" },
		"rate":               func(c *ProducerConfig) { c.Rate = -1 },
		"connection refused": func(c *ProducerConfig) { c.Brokers, c.RequestTimeout = []string{"127.0.0.1:1"}, 100*time.Millisecond },
	} {
		config := DefaultProducerConfig()
		config.Brokers, config.Topic = b.Brokers(), "t"
		edit(&config)
		must.ErrorContains(t, must.Err(NewProducer(t.Context(), config)), want)
	}
	p := newProducer(t, b, nil)
	must.ErrorContains(t, p.WriteTo(t.Context(), 2, Message{}), "no partition 2")
	p.Close()
}

// TestProducerOfRecreatedTopic checks that a producer continues in a recreated topic, whose log does not have its
// earlier records.
func TestProducerOfRecreatedTopic(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	p := newProducer(t, b, nil)
	was, err := p.TopicID(t.Context())
	must.Require(t, err == nil && len(was) == 22, "%v %v", was, err)
	for round, n := range []int{10, 5, 3} {
		for i := range n {
			must.Do(t, p.Write(t.Context(), Message{Value: fmt.Appendf(nil, "%d/%d", round, i)}))
		}
		must.Do(t, p.Flush(t.Context()))
		if round == 0 {
			must.Do(t, errors.Join(b.cluster.DeleteTopic("t"), b.cluster.CreateTopic("t", 1, nil)))
		}
	}
	got := values(consume(t, b, "t", nil, nil).all())
	must.True(t, len(got) == 8 && got[0] == "1/0" && got[7] == "2/2", "%q", got)
	is, err := p.TopicID(t.Context())
	must.True(t, err == nil && is != was, "id %s, was %s, %v", is, was, err)
}

// TestTopicIDAgain checks that the request for a topic ID is repeated if a broker stops during it.
func TestTopicIDAgain(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	p := newProducer(t, b, nil)
	var asked atomic.Int32
	b.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if r.GetVersion() < metadataIDs {
			return nil, nil, false
		}
		if asked.Add(1) == 1 {
			return nil, errors.New("going away"), true // closes the connection
		}
		return nil, nil, false
	})
	id, err := p.TopicID(t.Context())
	must.True(t, err == nil && len(id) == 22 && asked.Load() == 2, "id %q after %d questions: %v", id, asked.Load(), err)
}
