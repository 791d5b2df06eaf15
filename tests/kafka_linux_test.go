package tests

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafka tests the Kafka functions of package stream with one real Apache Kafka broker. Some test data are written
// by franz-go, because kafka-go cannot write them.
func TestKafka(t *testing.T) {
	k := &kafkaTest{kafkaBroker: startKafka(t)}
	k.admin = streamtest.Admin(t, k.plain)
	t.Run("Codecs", k.codecs)
	t.Run("Transactions", k.transactions)
	t.Run("OpenTransaction", k.openTransaction)
	t.Run("Compaction", k.compaction)
	t.Run("LogStart", k.logStart)
	t.Run("Security", k.security)
	t.Run("Partitions", k.partitions)
	t.Run("Commit", k.commit)
	t.Run("DeadLetters", k.deadLetters)
	t.Run("Restarts", k.restarts)
	t.Run("DeletedTopic", k.deletedTopic)
	t.Run("Repeated", k.repeated)
	t.Run("Snapshots", k.snapshots)
	t.Run("Predictions", k.predictions)
	t.Run("Learner", k.learner)
	t.Run("Joined", k.joined)
}

type kafkaTest struct {
	*kafkaBroker
	admin *kadm.Client
}

// topic creates a topic named after the test.
func (k *kafkaTest) topic(t *testing.T, partitions int32, configs ...string) string {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	settings := map[string]*string{}
	for _, c := range configs {
		key, value, _ := strings.Cut(c, "=")
		settings[key] = &value
	}
	must.Get(k.admin.CreateTopic(t.Context(), partitions, 1, settings, name))(t)
	return name
}

// valueDecoder stores the values of records. The Label of an Example is the index of its value.
type valueDecoder struct{ values []string }

func (d *valueDecoder) Decode(_ context.Context, r record.Record, e *event.Example) error {
	*e = event.Example{Label: len(d.values), Weight: 1, Key: r.Key, Time: r.Time, Offset: r.Offset}
	d.values = append(d.values, string(r.Value))
	return nil
}

func (k *kafkaTest) consumer(t *testing.T, topic string, from event.Offsets, edit func(*stream.ConsumerConfig)) (*stream.Consumer, *valueDecoder, error) {
	t.Helper()
	c := stream.DefaultConsumerConfig()
	c.Brokers, c.Topics, c.UntilEnd, c.Log = []string{k.plain}, []string{topic}, true, streamtest.Log(t)
	if edit != nil {
		edit(&c)
	}
	d := &valueDecoder{}
	consumer, err := stream.NewConsumer(t.Context(), c, d, event.NewSchema(8, nil, 2), from)
	if err == nil {
		t.Cleanup(func() { consumer.Close() })
	}
	return consumer, d, err
}

// read reads n records, or all records up to the end, and returns each as "partition/offset:value".
func read(t *testing.T, c *stream.Consumer, d *valueDecoder, n int) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out []string
	next := map[int32]int64{}
	var b event.Batch
	for len(out) < n {
		if err := c.Next(ctx, &b); err != nil {
			return out, err
		}
		for _, e := range b.Examples {
			must.True(t, e.Offset >= next[b.Partition], "partition %d: offset %d after %d", b.Partition, e.Offset, next[b.Partition])
			next[b.Partition] = e.Offset + 1
			out = append(out, fmt.Sprintf("%d/%d:%s", b.Partition, e.Offset, d.values[e.Label]))
		}
		next[b.Partition] = b.Next
	}
	return out, nil
}

func (k *kafkaTest) readAll(t *testing.T, topic string, from event.Offsets, edit func(*stream.ConsumerConfig)) []string {
	t.Helper()
	c, d := must.Get2(k.consumer(t, topic, from, edit))(t)
	defer c.Close()
	out, err := read(t, c, d, 1<<30)
	must.Require(t, err == io.EOF, "after %d records: %v", len(out), err)
	if r := c.Stats().Retries; len(r) > 0 {
		t.Logf("retries %v", r)
	}
	return out
}

func (k *kafkaTest) producer(t *testing.T, topic string, edit func(*stream.ProducerConfig)) *stream.Producer {
	t.Helper()
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic, c.Log = []string{k.plain}, topic, streamtest.Log(t)
	if edit != nil {
		edit(&c)
	}
	p := must.Get(stream.NewProducer(t.Context(), c))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

func write(t *testing.T, p *stream.Producer, values ...string) {
	t.Helper()
	for _, v := range values {
		must.Do(t, p.Write(t.Context(), stream.Message{Value: []byte(v)}))
	}
	must.Do(t, p.Flush(t.Context()))
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	must.EqualSlices(t, got, want)
}

func (k *kafkaTest) codecs(t *testing.T) {
	topic := k.topic(t, 1)
	var want []string
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		p := k.producer(t, topic, func(c *stream.ProducerConfig) { c.Compression, c.BatchBytes = codec, 20_000 })
		for i := range 1000 {
			value := fmt.Sprintf("%s %d %s", codec, i, strings.Repeat("x", i%200))
			want = append(want, fmt.Sprintf("0/%d:%s", len(want), value))
			must.Do(t, p.Write(t.Context(), stream.Message{Value: []byte(value)}))
		}
		must.Do(t, p.Flush(t.Context()))
	}
	expect(t, k.readAll(t, topic, nil, nil), want...)
	expect(t, k.readAll(t, topic, nil, func(c *stream.ConsumerConfig) { c.MaxBytes = 3000 }), want...)
}

// transact writes values in a transaction, and commits or aborts the transaction.
func (k *kafkaTest) transact(t *testing.T, topic, id string, commit bool, values ...string) {
	t.Helper()
	client := streamtest.Client(t, []string{k.plain}, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	must.Do(t, client.BeginTransaction())
	for _, v := range values {
		// Each value is written in a separate batch, so that an aborted transaction has more than one batch.
		must.Do(t, client.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
	}
	must.Do(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
}

func (k *kafkaTest) transactions(t *testing.T) {
	topic := k.topic(t, 1)
	k.transact(t, topic, "a", true, "one", "two")   // 0, 1, marker 2
	k.transact(t, topic, "a", false, "bad", "bad")  // 3, 4, marker 5
	write(t, k.producer(t, topic, nil), "plain")    // 6
	k.transact(t, topic, "b", false, "bad")         // 7, marker 8
	k.transact(t, topic, "a", true, "three")        // 9, marker 10
	k.transact(t, topic, "b", false, "bad", "last") // 11, 12, marker 13
	expect(t, k.readAll(t, topic, nil, nil), "0/0:one", "0/1:two", "0/6:plain", "0/9:three")
	from := streamtest.From(topic, 0, 4)
	expect(t, k.readAll(t, topic, from, nil), "0/6:plain", "0/9:three")
}

func (k *kafkaTest) openTransaction(t *testing.T) {
	topic := k.topic(t, 1)
	write(t, k.producer(t, topic, nil), "before")
	client := streamtest.Client(t, []string{k.plain}, kgo.TransactionalID("open"), kgo.DefaultProduceTopic(topic))
	must.Do(t, client.BeginTransaction())
	must.Do(t, client.ProduceSync(t.Context(), kgo.StringRecord("open")).FirstErr())
	write(t, k.producer(t, topic, nil), "after")
	expect(t, k.readAll(t, topic, nil, nil), "0/0:before")

	// A consumer that waits gets the remaining records when the transaction ends.
	c, d := must.Get2(k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) { c.UntilEnd = false }))(t)
	got := must.Get(read(t, c, d, 1))(t)
	expect(t, got, "0/0:before")
	must.Do(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	got = must.Get(read(t, c, d, 2))(t)
	expect(t, got, "0/1:open", "0/2:after")
}

func (k *kafkaTest) compaction(t *testing.T) {
	topic := k.topic(t, 1, "cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.001",
		"max.compaction.lag.ms=100", "delete.retention.ms=100")
	keyed := func(codec, keys string) {
		p := k.producer(t, topic, func(c *stream.ProducerConfig) { c.Compression = codec })
		for _, key := range keys {
			must.Do(t, p.Write(t.Context(), stream.Message{Key: []byte(string(key)), Value: []byte(string(key))}))
		}
		must.Do(t, p.Flush(t.Context()))
	}
	keyed("none", "abc")   // offsets 0 to 2: later records have the same keys, so an empty batch remains
	keyed("zstd", "defg")  // offsets 3 to 6: later records have the keys of the last of them
	keyed("none", "efgab") // offsets 7 to 11: compaction leaves a hole
	keyed("none", "abcf")  // offsets 12 to 15
	time.Sleep(200 * time.Millisecond)
	keyed("none", "z") // offset 16 begins a new segment
	want := []string{"0/3:d", "0/7:e", "0/9:g", "0/12:a", "0/13:b", "0/14:c", "0/15:f", "0/16:z"}
	deadline := time.Now().Add(time.Minute)
	for {
		got := k.readAll(t, topic, nil, nil)
		if slices.Equal(got, want) {
			break
		}
		must.Require(t, !time.Now().After(deadline), "got  %q\nwant %q after compaction", got, want)
		time.Sleep(200 * time.Millisecond)
	}
	// Read from every offset, with one batch per fetch.
	for next := range int64(17) {
		from := streamtest.From(topic, 0, next)
		i := slices.IndexFunc(want, func(s string) bool {
			var offset int64
			fmt.Sscanf(s, "0/%d", &offset)
			return offset >= next
		})
		expect(t, k.readAll(t, topic, from, func(c *stream.ConsumerConfig) { c.MaxBytes = 1 }), want[i:]...)
	}
}

func (k *kafkaTest) logStart(t *testing.T) {
	topic := k.topic(t, 1)
	write(t, k.producer(t, topic, nil), "a", "b", "c", "d", "e")
	c, d := must.Get2(k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) { c.UntilEnd = false }))(t)
	must.Equal(t, len(must.Get(read(t, c, d, 5))(t)), 5)
	deletes := kadm.Offsets{}
	deletes.AddOffset(topic, 0, 3, -1)
	must.Get(k.admin.DeleteRecords(t.Context(), deletes))(t)
	expect(t, k.readAll(t, topic, nil, nil), "0/3:d", "0/4:e")
	from := streamtest.From(topic, 0, 1)
	var out *stream.OffsetOutOfRangeError
	_, _, err := k.consumer(t, topic, from, nil)
	must.True(t, errors.As(err, &out) && out.Offset == 1 && out.Start == 3 && out.End == 5, "error %v", err)
	expect(t, k.readAll(t, topic, from, func(c *stream.ConsumerConfig) { c.OutOfRange = "earliest" }), "0/3:d", "0/4:e")
	expect(t, k.readAll(t, topic, from, func(c *stream.ConsumerConfig) { c.OutOfRange = "latest" }))

	// A consumer that had already read beyond the new start of the log must continue.
	write(t, k.producer(t, topic, nil), "f")
	got := must.Get(read(t, c, d, 1))(t)
	expect(t, got, "0/5:f")
}

func (k *kafkaTest) security(t *testing.T) {
	topic := k.topic(t, 1)
	t.Setenv("ALICES_PASSWORD", k.password)
	t.Setenv("GUESSED_PASSWORD", "12345")
	encrypted := stream.TLSConfig{Enabled: true, CAFile: k.authority}
	tests := []struct {
		name     string
		address  string
		tls      stream.TLSConfig
		sasl     string // SASL mechanism
		password string
		err      string
	}{
		{"PLAIN", k.sasl, stream.TLSConfig{}, "PLAIN", "ALICES_PASSWORD", ""},
		{"SCRAM-SHA-256", k.sasl, stream.TLSConfig{}, "SCRAM-SHA-256", "ALICES_PASSWORD", ""},
		{"SCRAM-SHA-512", k.sasl, stream.TLSConfig{}, "SCRAM-SHA-512", "ALICES_PASSWORD", ""},
		{"TLS and SCRAM-SHA-512", k.tls, encrypted, "SCRAM-SHA-512", "ALICES_PASSWORD", ""},
		{"TLS and PLAIN", k.tls, encrypted, "PLAIN", "ALICES_PASSWORD", ""},
		{"wrong password", k.sasl, stream.TLSConfig{}, "PLAIN", "GUESSED_PASSWORD", "check sasl.username and the password"},
		{"wrong SCRAM password", k.tls, encrypted, "SCRAM-SHA-512", "GUESSED_PASSWORD", "check sasl.username and the password"},
		{"unknown authority", k.tls, stream.TLSConfig{Enabled: true}, "PLAIN", "ALICES_PASSWORD", "set tls.ca_file"},
	}
	for i, test := range tests {
		edit := func(c *stream.ConnectConfig) {
			c.Brokers, c.TLS = []string{test.address}, test.tls
			c.SASL = stream.SASLConfig{Mechanism: test.sasl, Username: "alice", PasswordEnv: test.password}
		}
		if test.err != "" {
			_, _, err := k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) { edit(&c.ConnectConfig) })
			must.ErrorContains(t, err, test.err, test.name)
			continue
		}
		p := k.producer(t, topic, func(c *stream.ProducerConfig) { edit(&c.ConnectConfig) })
		write(t, p, test.name)
		got := k.readAll(t, topic, nil, func(c *stream.ConsumerConfig) { edit(&c.ConnectConfig) })
		must.True(t, len(got) == i+1 && got[i] == fmt.Sprintf("0/%d:%s", i, test.name), "%s: got %q", test.name, got)
	}
}

func (k *kafkaTest) partitions(t *testing.T) {
	topic := k.topic(t, 1)
	c, d := must.Get2(k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) {
		c.UntilEnd, c.Start, c.MetadataInterval = false, "latest", time.Second
	}))(t)
	must.Get(k.admin.UpdatePartitions(t.Context(), 3, topic))(t)
	p := k.producer(t, topic, nil)
	for i := range int32(3) {
		must.Do(t, p.WriteTo(t.Context(), i, stream.Message{Value: fmt.Appendf(nil, "p%d", i)}))
	}
	must.Do(t, p.Flush(t.Context()))
	got := must.Get(read(t, c, d, 3))(t)
	slices.Sort(got)
	expect(t, got, "0/0:p0", "1/0:p1", "2/0:p2")

	// The topic does not exist, and the broker would let consumers create it.
	missing := topic + "-missing"
	_, _, err := k.consumer(t, missing, nil, nil)
	must.True(t, errors.As(err, new(*stream.TopicMissingError)), "error %v", err)
	expect(t, k.readAll(t, missing, nil, func(c *stream.ConsumerConfig) { c.CreateTopics, c.CreatePartitions = true, 2 }))
	details, err := k.admin.ListTopics(t.Context(), missing)
	must.True(t, err == nil && len(details[missing].Partitions) == 2, "%v, %v", details, err)
}

func (k *kafkaTest) commit(t *testing.T) {
	topic := k.topic(t, 1)
	write(t, k.producer(t, topic, nil), "a", "b", "c")
	c, _ := must.Get2(k.consumer(t, topic, nil, nil))(t)
	must.Do(t, c.Commit(t.Context(), "lag", streamtest.From(topic, 0, 2)))
	lags, err := k.admin.Lag(t.Context(), "lag")
	must.True(t, err == nil && lags["lag"].Lag.Total() == 1, "lag %+v, %v", lags, err)
}

func (k *kafkaTest) deadLetters(t *testing.T) {
	topic := k.topic(t, 1)
	connection := stream.DefaultConnectConfig()
	connection.Brokers = []string{k.plain}
	d := must.Get(stream.OpenDeadLetters(t.Context(), stream.DeadLetterConfig{Topic: topic}, connection, streamtest.Log(t)))(t)
	defer d.Close()
	e := event.Example{Offset: 3, Refused: &event.Refusal{Reason: event.ReasonSyntax, Detail: "no brace", Value: []byte("{")}}
	must.Do(t, errors.Join(d.Add(t.Context(), "events", 1, &e), d.Flush(t.Context())))
	expect(t, k.readAll(t, topic, nil, nil), "0/0:{")
}

// restarts stops, kills and pauses the broker while records flow. Each record must be consumed exactly once and in
// order.
func (k *kafkaTest) restarts(t *testing.T) {
	topic := k.topic(t, 1)
	quick := func(c *stream.ConnectConfig) { c.RequestTimeout = time.Second }
	p := k.producer(t, topic, func(c *stream.ProducerConfig) { quick(&c.ConnectConfig) })
	c, d, err := k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) { c.UntilEnd = false; quick(&c.ConnectConfig) })
	must.Do(t, err)
	stop := make(chan struct{})
	type result struct {
		n   int
		err error
	}
	produced := make(chan result, 1)
	go func() {
		for n := 0; ; {
			for range 25 {
				if err := p.Write(t.Context(), stream.Message{Value: fmt.Appendf(nil, "%d", n)}); err != nil {
					produced <- result{n, err}
					return
				}
				n++
			}
			err := p.Flush(t.Context())
			select {
			case <-stop:
				produced <- result{n, err}
				return
			case <-time.After(5 * time.Millisecond):
			}
			if err != nil {
				produced <- result{n, err}
				return
			}
		}
	}()
	var got []string
	more := func(n int) {
		part, err := read(t, c, d, n)
		got = append(got, part...)
		must.Require(t, err == nil, "after %d records: %v", len(got), err)
	}
	for _, disturb := range []func(){
		func() { k.stop(t); k.start(t) },
		func() { k.kill(t); k.start(t) },
		func() { k.hold(t, 2500*time.Millisecond) },
	} {
		more(200)
		disturb()
	}
	more(200)
	close(stop)
	r := <-produced
	must.Require(t, r.err == nil, "%v", r.err)
	more(r.n - len(got))
	for i, s := range got {
		must.Require(t, s == fmt.Sprintf("0/%d:%d", i, i), "record %d is %s", i, s)
	}
	// The number of retries by cause depends on the state of a fetch when the broker stopped, so it is only logged.
	total := uint64(0)
	retries := c.Stats().Retries
	for _, n := range retries {
		total += uint64(n)
	}
	t.Logf("%d records, retries %v", len(got), retries)
	must.True(t, total != 0, "no retries: the broker was not missed")
}

// learner repeatedly kills the program while it learns from the broker, and sometimes kills the broker. The final state
// must equal the final state of a run without faults.
func (k *kafkaTest) learner(t *testing.T) {
	const topic = "one"
	must.Get(k.admin.CreateTopic(t.Context(), crashTopics[topic].partitions, 1, nil, topic))(t)
	must.Do(t, fillCrashTopic(t, []string{k.plain}, topic, nil))
	program := buildProgram(t)
	reference := newLearner(t, program, k.plain, topic)
	begin := time.Now()
	reference.finish(t)
	took := time.Since(begin)
	reference.expect(t, topic)

	l := newLearner(t, program, k.plain, topic)
	resumed := 0
	for i := range 10 {
		life := l.start(t)
		// Later runs are longer, so that some read most of the topic.
		time.Sleep(took * time.Duration(i+1) / 16)
		if i%5 == 4 {
			k.stop(t)
			k.start(t)
			time.Sleep(took / 16)
		}
		life.Process.Kill()
		life.Wait() // only the state matters, not the exit code
		if names, _ := checkpoint.List(l.checkpoints()); len(names) > 0 {
			resumed++
		}
	}
	must.True(t, resumed != 0, "no life of %v left a checkpoint to go on from", took)
	l.finish(t)
	l.check(t, topic, reference)
	t.Logf("10 lives, %d of them left a checkpoint; a run left alone takes %v", resumed, took.Round(time.Millisecond))
}

// joined kills learners of events with delayed labels 24 times, or as often as BLANKOUT_CRASH_LABELS specifies.
func (k *kafkaTest) joined(t *testing.T) {
	kills := countOf(t, "BLANKOUT_CRASH_LABELS", 24)
	forever := "-1" // the events are from 2023
	must.Do(t, must.Err(k.admin.CreateTopics(t.Context(), 2, 1, map[string]*string{"retention.ms": &forever}, "clicks", "answers")))
	fillJoin(t, []string{k.plain}, 4_000)
	crashJoin(t, buildProgram(t), k.plain, kills)
}

// snapshots publishes models to a topic while the broker compacts it. The newest model in the topic must always be
// complete.
func (k *kafkaTest) snapshots(t *testing.T) {
	topic := k.topic(t, 1, "cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.001", "max.compaction.lag.ms=100", "delete.retention.ms=100")
	connect := stream.DefaultConnectConfig()
	connect.Brokers = []string{k.plain}
	p := must.Get(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: topic, MaxPiece: 2000, Log: streamtest.Log(t)}))(t)
	defer p.Close()
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	where := "kafka://" + k.plain + "/" + topic
	options := served.Options{Interval: 10 * time.Millisecond, Schemes: map[string]served.Opener{"kafka": kafka.Opener(connect)}}
	f := (*served.Follower)(nil)
	for version := range uint64(12) {
		weights := must.List(1000, func(d int) float64 { return float64(d/100*int(version)%7) + 0.5 })
		schema := event.NewSchema(12, []string{"no", "yes"}, 2)
		schema.NumericIndices = true
		m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{weights}, []float64{0}), recordConfig)
		m.Version, m.At = version, time.Now()
		must.Do(t, p.Publish(t.Context(), m))
		time.Sleep(150 * time.Millisecond) // gives the broker time to roll segments and compact
		read := must.Get(served.Open(t.Context(), where, options))(t, "version", version)
		must.True(t, read.Version == version && read.Model.(*model.Linear).Weight(550, 0) == weights[550] && read.Model.(*model.Linear).Rows.Len() == 1000, "read version %d after %d", read.Version, version)
		if f == nil {
			f = must.Get(served.Follow(t.Context(), where, options))(t)
			defer f.Close()
		}
	}
	for range 500 {
		if m, _ := f.Model(); m.Version == 11 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	m, err := f.Model()
	must.True(t, m.Version == 11 && err == nil, "the follower is at %d: %v", m.Version, err)
	all := k.readAll(t, topic, nil, nil)
	must.True(t, len(all) <= int(p.Written()/2000), "%d records are left of %d bytes written: nothing was compacted", len(all), p.Written())
}

// predictions scores a topic twice in the same consumer group, whose offsets the broker keeps.
func (k *kafkaTest) predictions(t *testing.T) {
	topic := k.topic(t, 3)
	must.Get(k.admin.CreateTopic(t.Context(), 1, 1, nil, topic+"-out"))(t)
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{{1, 1}}, []float64{0}), recordConfig)
	p := &predict.Predictor{Config: predict.DefaultConfig(), Kafka: stream.DefaultConsumerConfig(), Model: func() *served.Model { return m }, Log: streamtest.Log(t)}
	p.Config.Topic, p.Config.Output, p.Config.Group = topic, topic+"-out", t.Name()
	p.Kafka.Brokers, p.Kafka.UntilEnd = []string{k.plain}, true
	producer := k.producer(t, topic, nil)
	for round := range 2 {
		values := slices.Repeat([]string{"0 1:1", "0 1:-1", "0 1:x"}, 100)
		write(t, producer, values...)
		must.Do(t, p.Run(t.Context()))
		out := k.readAll(t, topic+"-out", nil, nil)
		classes := map[string]int{}
		for _, r := range out {
			for _, class := range []string{`"class":"yes"`, `"class":"no"`, `"error":"`} {
				classes[class] += strings.Count(r, class)
			}
		}
		n := 100 * (round + 1)
		must.True(t, len(out) == 3*n && classes[`"class":"yes"`] == n && classes[`"class":"no"`] == n && classes[`"error":"`] == n, "round %d: %d predictions, %v", round, len(out), classes)
	}
}

// deletedTopic deletes a topic that is being read and creates it again with more records. Reading must stop with an
// error that names the cause. A restart must give the error again.
func (k *kafkaTest) deletedTopic(t *testing.T) {
	topic := k.topic(t, 1)
	p := k.producer(t, topic, nil)
	write(t, p, "a", "b", "c", "d")
	c, d, err := k.consumer(t, topic, nil, func(c *stream.ConsumerConfig) {
		c.UntilEnd, c.RequestTimeout, c.MetadataInterval = false, 2*time.Second, time.Second
	})
	must.Do(t, err)
	must.Get(read(t, c, d, 4))(t)
	must.Get(k.admin.DeleteTopics(t.Context(), topic))(t)
	deleted := time.Now()
	for c.Stats().Partitions[0].Failing == "" {
		must.Require(t, time.Since(deleted) <= 30*time.Second, "nothing is told: %+v", c.Stats())
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("told as %s after %v", c.Stats().Partitions[0].Failing, time.Since(deleted).Round(time.Millisecond))
	for {
		response, err := k.admin.CreateTopic(t.Context(), 1, 1, nil, topic)
		if err == nil && response.Err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	write(t, p, "p", "q", "r", "s", "t", "u")
	made := time.Now()
	_, err = read(t, c, d, 1)
	var anew *stream.TopicRecreatedError
	must.Require(t, errors.As(err, &anew) && anew.Offset == 4, "%v", err)
	t.Logf("noticed %v after it was made anew: %v", time.Since(made).Round(time.Millisecond), err)
	details, err := k.admin.ListTopics(t.Context(), topic)
	id := details[topic].ID
	is := base64.RawURLEncoding.EncodeToString(id[:])
	must.True(t, err == nil && is == anew.Is, "id %s, the broker's admin says %s, %v", anew.Is, is, err)
	var from event.Offsets
	from.At(topic, 0, 4).TopicID = anew.Was
	_, _, err = k.consumer(t, topic, from, nil)
	must.True(t, errors.As(err, &anew), "%v", err)
	from[0].TopicID = anew.Is
	expect(t, k.readAll(t, topic, from, nil), "0/4:t", "0/5:u")
}

// repeated reads records that a producer has written twice, from the start and from the middle of the topic.
func (k *kafkaTest) repeated(t *testing.T) {
	topic := k.topic(t, 1)
	p := k.producer(t, topic, nil)
	for _, key := range []string{"a", "b", "c", "a", "d", "b", "e"} {
		must.Do(t, p.Write(t.Context(), stream.Message{Key: []byte(key), Value: []byte(key)}))
	}
	must.Do(t, p.Flush(t.Context()))
	for start, want := range map[int64]string{0: "0a 1b 2c 3- 4d 5- 6e", 4: "4d 5- 6e"} {
		var from event.Offsets
		if start > 0 {
			from.At(topic, 0, 0).Next = start
		}
		c, d, err := k.consumer(t, topic, from, func(c *stream.ConsumerConfig) { c.DedupWindow = 10 })
		must.Do(t, err)
		var got []string
		var b event.Batch
		for err == nil {
			if err = c.Next(t.Context(), &b); err == nil {
				for _, e := range b.Examples {
					value := "-"
					if e.Refused == nil {
						value = d.values[e.Label]
					}
					got = append(got, fmt.Sprint(e.Offset)+value)
				}
			}
		}
		must.True(t, err == io.EOF && strings.Join(got, " ") == want, "from %d: %v, %v, want %s", start, got, err, want)
	}
}
