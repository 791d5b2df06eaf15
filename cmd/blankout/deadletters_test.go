package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
