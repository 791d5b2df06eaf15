package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// TestAddedPartitionsAreJoined adds partitions while events and labels are joined. The new partitions must be read from
// their beginning. If all their records are later than the records joined so far, the order must be as if the
// partitions had existed from the start. Otherwise the records must be counted as out of order.
func TestAddedPartitionsAreJoined(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) { testAddedPartitions(t, late) })
	}
}

func testAddedPartitions(t *testing.T, late bool) {
	broker := must.Get(stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{"clicks": 1, "answers": 1}}))(t)
	defer broker.Close()
	newClient := func() *kgo.Client {
		return must.Get(kgo.NewClient(kgo.SeedBrokers(broker.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	}
	write := func(topic string, partition int32, times ...int64) {
		client := newClient() // a new client sees all partitions
		defer client.Close()
		for _, at := range times {
			value := fmt.Sprintf(`{"x":%d,"label":"yes"}`, at)
			r := kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "%d", at%100), Value: []byte(value), Timestamp: time.UnixMilli(at)}
			must.Do(t, client.ProduceSync(t.Context(), &r).FirstErr())
		}
	}
	var one, both stream.Input
	one.Record, one.Kafka = record.DefaultConfig(), stream.DefaultConsumerConfig()
	one.Kafka.Brokers, one.Kafka.MetadataInterval, one.Kafka.Start = broker.Brokers(), 20*time.Millisecond, "latest"
	one.Kafka.UntilEnd = false
	inputs := func(c stream.Input) (events, later stream.Input) {
		events, later = c, c
		events.Record.Unlabeled = true
		events.Kafka.Topics, later.Kafka.Topics = []string{"clicks"}, []string{"answers"}
		return events, later
	}
	log := slog.New(slog.DiscardHandler)
	open := func(in stream.Input) (*labels.Merge, *labels.Join, []labels.Lane, consumers, *event.Schema) {
		s := one.Record.Schema()
		c := labels.DefaultConfig()
		c.IdleTimeout = 0
		j := must.Get(labels.Open(c, t.TempDir(), labels.State{}))(t)
		t.Cleanup(func() { j.Close() })
		events, later := inputs(in)
		lanes, opened := must.Get2(openLanes(t.Context(), s, nil, events, later, log))(t)
		var all consumers
		for _, o := range opened {
			t.Cleanup(func() { o.Close() })
			all = append(all, o.(*stream.Consumer))
		}
		return labels.NewMerge(s, lanes, j), j, lanes, all, s
	}
	var order []string
	read := func(m *labels.Merge, most time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		var b event.Batch
		err := m.Next(ctx, &b)
		if err == nil {
			for _, e := range b.Examples {
				order = append(order, fmt.Sprintf("%s/%d@%d", b.Topic, b.Partition, e.Offset))
			}
		}
		return err
	}

	merge, join, lanes, all, schema := open(one)
	var consuming atomic.Pointer[consumers]
	consuming.Store(&all)
	a := &addedPartitions{schema: schema, known: map[stream.TopicPartition]bool{}, consuming: &consuming, log: log}
	for _, l := range lanes {
		a.known[stream.TopicPartition{Topic: l.Topic, Partition: l.Partition}] = true
	}
	merge.Added = a.open
	stop := a.watch(inputs(one))
	defer stop()
	for consuming.Load() == &all && len(order) < 6 { // both partitions start at their end
		err := read(merge, 50*time.Millisecond)
		must.Require(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
		if len(order) == 0 {
			write("clicks", 0, 1001, 1002, 1003, 2001)
			write("answers", 0, 1501, 1502, 2002)
		}
	}
	client := newClient()
	defer client.Close()
	must.Get(kadm.NewClient(client).UpdatePartitions(t.Context(), 2, "clicks", "answers"))(t)
	first := must.Either(late, 1100, int64(2500))
	write("clicks", 1, first+4, first+5) // written before the reader has found the partition
	for tries := 0; len(*consuming.Load()) < 4; tries++ {
		must.Require(t, tries != 1000, "%d partitions are read, want 4", len(*consuming.Load()))
		err := read(merge, 50*time.Millisecond)
		must.Require(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	write("clicks", 1, 3004)
	write("clicks", 0, 3001, 9000)
	write("answers", 1, 3104, 9000)
	write("answers", 0, 3101, 9000)
	write("clicks", 1, 9000)
	begun := len(order)
	for len(order) < begun+7 {
		must.Do(t, read(merge, 10*time.Second))
	}

	live := order
	order = nil
	both = one
	both.Kafka.UntilEnd, both.Kafka.Start = true, "earliest"
	whole, _, _, _, _ := open(both)
	var err error
	for err == nil {
		err = read(whole, 10*time.Second)
	}
	must.Require(t, errors.Is(err, io.EOF), "%v", err)
	n := join.Counts().LatePartitions
	if late {
		must.True(t, n == 1 && slices.Contains(live, "clicks/1@0") && slices.Contains(live, "clicks/1@1"), "%d late partitions, want 1; read %q", n, live)
		return
	}
	must.True(t, len(order) >= len(live) && slices.Equal(live, order[:len(live)]) && n == 0, "%d late partitions, and the order differs:\n%q\n%q", n, live, order)
}

// TestReplay sends a dead letter again. The record must reach its original partition with its key, time and bytes. If
// it is sent to another topic, its key must determine the partition.
func TestReplay(t *testing.T) {
	broker := must.Get(stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{"events": 3, "other": 3, "dead": 2}}))(t)
	t.Cleanup(broker.Close)
	connection := stream.DefaultConnectConfig()
	connection.Brokers = broker.Brokers()
	d := must.Get(stream.OpenDeadLetters(t.Context(), stream.DeadLetterConfig{Topic: "dead"}, connection, nil))(t)
	var want []string
	for i := range 9 {
		e := &event.Example{Offset: int64(i), Time: 1_700_000_000_000 + int64(i), Key: []byte("k"), Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: "d", Value: fmt.Appendf(nil, "v%d", i)}}
		if i%2 == 1 {
			e.Key = nil
		}
		must.Do(t, d.Add(t.Context(), "events", int32(i%3), e))
		want = append(want, fmt.Sprintf("%d %q %t %s %d", i%3, e.Key, e.Key == nil, e.Refused.Value, e.Time))
	}
	must.Do(t, d.Flush(t.Context()))
	must.Do(t, d.Close())
	read := func(topic string) (got []string, keyed map[string]bool) {
		t.Helper()
		c := stream.DefaultConsumerConfig()
		c.ConnectConfig, c.Topics, c.UntilEnd = connection, []string{topic}, true
		r := must.Get(stream.NewReader(t.Context(), c, nil))(t)
		defer r.Close()
		keyed = map[string]bool{}
		for {
			b, err := r.Next(t.Context())
			if err != nil {
				slices.Sort(got)
				return got, keyed
			}
			for _, r := range b.Records {
				got = append(got, fmt.Sprintf("%d %q %t %s %d", b.Partition, r.Key, r.Key == nil, r.Value, r.Time))
				if r.Key != nil {
					keyed[fmt.Sprint(b.Partition)] = true
				}
			}
		}
	}
	replay := func(args ...string) {
		t.Helper()
		blankout(t, append([]string{"dead-letters", "replay", "--set", "dead_letter.topic=dead", "--set", "dead_letter.file=", "--set", "kafka.brokers=" + strings.Join(broker.Brokers(), ",")}, args...)...)
	}
	replay()
	slices.Sort(want)
	got, _ := read("events")
	must.True(t, slices.Equal(got, want), "got  %q\nwant %q", got, want)
	replay("--to", "other")
	got, keyed := read("other")
	must.True(t, len(got) == len(want) && len(keyed) == 1, "%d of %d records, a key in %d partitions", len(got), len(want), len(keyed))
}

// TestTombstones checks how run and the commands that read files handle the tombstones of a compacted topic. Tombstones
// must be skipped and counted. They must not become dead letters, end a run under the policy fail, or count as rejected
// records.
func TestTombstones(t *testing.T) {
	broker := must.Get(stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{"events": 1}}))(t)
	defer broker.Close()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(broker.Brokers()...)))(t)
	defer client.Close()
	for i := range 20 {
		r := &kgo.Record{Topic: "events", Key: []byte{'a' + byte(i)}}
		switch {
		case i == 5:
			r.Value = []byte(`{"x":NaN,"y":-Infinity,"label":"no"}`)
		case i%5 == 0:
			r.Value = []byte(`{"x":1,"label":"yes"}`)
		case i == 7:
			r.Value = []byte(`{"x":2,"label":"no"}`)
		}
		must.Do(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	t.Chdir(t.TempDir())
	topic := "kafka://" + broker.Brokers()[0] + "/events"
	for _, test := range []struct{ args, want string }{
		{"run -q --json --set http.address= -d " + topic, `"events":5,"refused":15,`},
		{"run -q --json --set http.address= --reset --set dead_letter.policy=fail -d " + topic, `"refused_by":{"tombstone":15},"not_finite":2,`},
		{"train -q --json -o model -d " + topic, `"examples":5,`},
		{"predict -q --json -m model -d " + topic, `"examples":5,`},
	} {
		var out, errs bytes.Buffer
		code := execute(t.Context(), strings.Fields(test.args), nil, &out, &errs)
		must.True(t, code == 0 && strings.Contains(out.String(), test.want), "%s: code %d: %s%s", test.args, code, &out, &errs)
	}
	var out, errs bytes.Buffer
	code := execute(t.Context(), strings.Fields("run --set http.address= --reset -d "+topic), nil, &out, &errs)
	must.True(t, code == 0 && strings.Contains(errs.String(), `"refused":0,"passed_over":15,`), "code %d: %s%s", code, &out, &errs)
	letters, err := os.ReadFile("dead-letters.jsonl")
	must.True(t, err != nil || len(letters) <= 0, "dead letters: %s", letters)
}
