package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
	a := &addedPartitions{schema: schema, known: map[string]bool{}, consuming: &consuming, log: log}
	for _, l := range lanes {
		a.known[laneName(l.Topic, l.Partition)] = true
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
	first := int64(2500)
	if late {
		first = 1100
	}
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
