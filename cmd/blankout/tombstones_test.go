package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/internal/must"
	"blankout/stream"
)

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
