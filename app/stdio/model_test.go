package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// TestModelIgnoresLabels checks that an opened model predicts events whatever is in their label field, because it does
// not learn.
func TestModelIgnoresLabels(t *testing.T) {
	for _, settings := range [][]string{{}, {"learner.loss=squared"}} {
		s := newStream(100)
		c := start(t)
		c.must(opNew, 0, 7, 0, settings)
		c.must(opShape, 0, 7, 0, s.names)
		if len(settings) == 0 {
			c.must(opClasses, 0, 7, 0, s.classes)
		}
		c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
		c.must(opModel, 0, 8, 0, c.must(opExport, 0, 7, 0, map[string]string{"format": "model"}))
		want := c.must(opLines, 0, 8, 1, `{"a":1,"b":2}`+"\n")
		for _, label := range []string{`"never seen"`, `""`, `null`} {
			got := c.must(opLines, 0, 8, 1, `{"a":1,"b":2,"label":`+label+"}\n")
			must.True(t, string(got) == string(want), "%v: the label %s changes the prediction", settings, label)
		}
	}
}

// TestManyPredictionsPublish checks that a learner publishes its model for a request of many predictions, which are then
// faster, and not for fewer.
func TestManyPredictionsPublish(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	server, ended := New("test"), make(chan error)
	go func() { ended <- server.Serve(context.Background(), in, out) }()
	c := &client{t: t, in: write, out: read}
	s := newStream(publishFor)
	c.must(opNew, 0, 7, 0, []string{})
	c.must(opShape, 0, 7, 0, s.names)
	c.must(opClasses, 0, 7, 0, s.classes)
	c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
	c.must(opRows, 0, 7, publishFor-1, uint64(0), s.flat()[:3*(publishFor-1)])
	must.True(t, server.learners[7].model == nil, "%d predictions publish a model", publishFor-1)
	c.must(opRows, 0, 7, publishFor, uint64(0), s.flat())
	must.True(t, server.learners[7].model != nil, "%d predictions do not publish a model", publishFor)
	write.Close()
	must.Do(t, <-ended)
}

// TestShards checks that the shards of a group answer as the program does, with the shard of a key, that they come back
// from their bytes, and that what only one model can do is refused by name.
func TestShards(t *testing.T) {
	shards := make([]*served.Model, 3) // the last one has no model yet
	for k := range 2 {
		config := record.DefaultConfig()
		config.Format, config.Seed = "json", uint64(k+1)
		s := config.Schema()
		s.Classes = []string{"no", "yes"}
		d := must.Get(record.NewDecoder(config, s))(t)
		var e event.Example
		must.Do(t, d.Decode(t.Context(), record.Record{Value: []byte(`{"label":"no","x":1}`)}, &e))
		weights := make([]float64, e.Features.Index[0]+1)
		weights[e.Features.Index[0]] = float64(1 - 3*k)
		linear := model.NewLinear(s, "logistic", "none", [][]float64{weights}, []float64{0})
		linear.Events = uint64(100 * (k + 1))
		shards[k] = served.New(linear, config)
		shards[k].Version = uint64(k + 1)
		shards[k].Shard = &served.ShardInfo{Number: k, Shards: 3, Partitions: 6, OwnWeight: .75}
	}
	set := served.NewSet(shards)
	var file bytes.Buffer
	must.Do(t, encodeShards(&file, set))
	c := start(t)
	c.must(opModel, 0, 8, 0, file.String())
	var is Inspection
	must.Do(t, json.Unmarshal(c.must(opInspect, 0, 8, 0), &is))
	must.True(t, is.Shards == 2 && is.Keyed && is.Events == 300 && len(is.Classes) == 2, "%+v", is)

	var keyed, plain, want strings.Builder
	const n = 40
	differ := 0
	for i := range n {
		key, line := fmt.Sprint("user", i), fmt.Sprintf(`{"x":%d}`, i%5-2)
		fmt.Fprintf(&keyed, "%s\n%s\n", key, line)
		fmt.Fprintln(&plain, line)
		answer := must.Get(set.PredictRecord(t.Context(), record.Record{Key: []byte(key), Value: []byte(line)}, 0))(t)
		mean := must.Get(set.Predict([]byte(line), 0))(t)
		if answer.Score != mean.Score {
			differ++
		}
		fmt.Fprintf(&want, "%s\n", must.Get(json.Marshal(answer))(t))
	}
	must.True(t, differ > n/3, "only %d answers depend on the key", differ)
	must.Equal(t, string(c.must(opAnswers, flagKeys, 8, n, uint64(0), keyed.String())), want.String(), "answers with keys")
	must.True(t, string(c.must(opAnswers, 0, 8, n, uint64(0), plain.String())) != want.String(), "keys change nothing")

	must.Equal(t, string(c.must(opExport, 0, 8, 0, map[string]string{"format": "model"})), file.String(), "exported shards")
	for _, format := range []string{"onnx", "json"} {
		_, _, said := c.ask(opExport, 0, 8, 0, map[string]string{"format": format})
		must.True(t, strings.Contains(string(said), `"unsupported"`) && strings.Contains(string(said), "shard=0"), "%s", said)
	}
	status, _, said := c.ask(opLines, 0, 8, 1, "{}\n")
	must.True(t, status == 2, "numbers of a set: %d %s", status, said)
	for _, size := range []int{len(shardsMark), len(shardsMark) + 3, file.Len() - 1} {
		status, _, said := c.ask(opModel, 0, 9, 0, file.String()[:size])
		must.True(t, status == 2 && strings.Contains(string(said), `"damaged"`), "%d bytes: %d %s", size, status, said)
	}
}
