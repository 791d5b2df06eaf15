package served_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// shardModel returns the model of a shard that has learned a weight of x1, and whose classes are in the given order.
func shardModel(t *testing.T, number int, weight float64, events uint64, classes ...string) *served.Model {
	t.Helper()
	c := record.DefaultConfig()
	c.Format = "json"
	c.Seed = uint64(number) + 1 // the shards have different columns
	s := c.Schema()
	s.Classes = classes
	d := must.Get(record.NewDecoder(c, s))(t)
	var e event.Example
	must.Do(t, d.Decode(t.Context(), record.Record{Value: []byte(fmt.Sprintf(`{"label":%q,"x1":1}`, classes[0]))}, &e))
	weights := make([]float64, e.Features.Index[0]+1)
	weights[e.Features.Index[0]] = weight
	linear := model.NewLinear(s, "logistic", "none", [][]float64{weights}, []float64{0})
	linear.Events = events
	m := served.New(linear, c)
	m.Version = uint64(10 + number)
	m.Shard = &served.ShardInfo{Number: number, Shards: 2, Partitions: 4, OwnWeight: .75}
	return m
}

// TestSet checks the answers of two shards, whose classes have different orders and whose columns differ, against values
// computed by hand.
func TestSet(t *testing.T) {
	a, b := shardModel(t, 0, 2, 300, "no", "yes"), shardModel(t, 1, 1, 100, "yes", "no")
	m := served.NewSet([]*served.Model{a, b})
	must.True(t, m.Events == 400 && m.Version == 21 && len(m.Shards()) == 2 && m.ShardOf(nil) == -1, "%d events, version %d", m.Events, m.Version)
	sigmoid := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	for key, want := range map[string]float64{
		"":   (300*2 - 100*1) / 400., // b is sure of "no"
		"k1": 0, "k3": 0,
	} {
		z := want
		if key != "" {
			own := must.Either(m.ShardOf([]byte(key)) == 1, -1.0, 2)
			z = .75*own + .25*(300*2-100*1)/400.
		}
		p := must.Get(m.PredictRecord(t.Context(), record.Record{Key: []byte(key), Value: []byte(`{"x1":1}`)}, 0))(t)
		if got := p.Probabilities["yes"]; math.Abs(got-sigmoid(z)) > 1e-12 || p.Shards != 2 || p.Version != 21 || math.Abs(math.Abs(p.Score)-math.Abs(z)) > 1e-9 {
			t.Errorf("key %q: probability %v, want %v: %+v", key, got, sigmoid(z), p)
		}
	}
	must.True(t, m.ShardOf([]byte("k1")) != m.ShardOf([]byte("k3")), "both keys are of one shard")
	_, err := m.Predict([]byte(`{"x1":`), 0)
	must.True(t, served.IsRefused(err), "an invalid event: %v", err)
	p := must.Get(m.Predict([]byte(`{"other":1}`), 0))(t)
	must.True(t, p.OnlyUnseen, "an event that no shard knows: %+v", p)
}

// TestMixtureOfClasses checks a class that one shard has never seen, a shard that knows no column of the event, and a
// regression.
func TestMixtureOfClasses(t *testing.T) {
	mixture := served.NewMixture([]served.Opinion{
		{Mixed: served.Mixed{Classes: []string{"a", "b"}, Chances: []float64{.5, .5}}, Events: 99, Known: true},
		{Mixed: served.Mixed{Classes: []string{"c", "a"}, Chances: []float64{.9, .1}}, Events: 49, Known: true},
		{Mixed: served.Mixed{Classes: []string{"a", "b"}, Chances: []float64{1, 0}}, Events: 1e9},
	}, 0)
	mean := mixture.At(0)
	z := map[string]float64{
		"a": (99*math.Log(.5) + 49*math.Log(.1)) / 148, "b": (99*math.Log(.5) + 49*math.Log(.5/50)) / 148, "c": (99*math.Log(.5/100) + 49*math.Log(.9)) / 148,
	}
	sum := math.Exp(z["a"]) + math.Exp(z["b"]) + math.Exp(z["c"])
	for class, log := range z {
		got := mean.Chance(class)
		must.True(t, math.Abs(got-math.Exp(log)/sum) <= 1e-12, "class %s: %v, want %v", class, got, math.Exp(log)/sum)
	}
	own := mixture.At(1)
	must.True(t, math.Abs(own.Chance("a")-own.Chance("b")) <= 1e-12 && own.Chance("c") <= .01, "the own shard says %+v", own)
	numbers := served.NewMixture([]served.Opinion{{Mixed: served.Mixed{Value: 1}, Events: 3, Known: true}, {Mixed: served.Mixed{Value: 5}, Events: 1, Known: true}}, 1)
	for a, want := range map[float64]float64{0: 2, 1: 5, .5: 3.5} {
		x := numbers.At(a)
		must.True(t, x.Value == want, "own weight %v: %v, want %v", a, x.Value, want)
	}
}

// TestShardOfKeys checks that keys belong to the partitions that a Kafka client sends them to.
func TestShardOfKeys(t *testing.T) {
	a, b := shardModel(t, 0, 1, 1, "no", "yes"), shardModel(t, 1, 1, 1, "no", "yes")
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a.Shard.Partitions = 1 + r.IntN(40)
		b.Shard.Partitions = a.Shard.Partitions
		key := make([]byte, 1+r.IntN(20))
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		partition := kgo.StickyKeyPartitioner(nil).ForTopic("t").Partition(&kgo.Record{Key: key}, a.Shard.Partitions)
		must.Equal(t, served.NewSet([]*served.Model{a, b}).ShardOf(key), partition%2, "shard of a key", key, a.Shard.Partitions)
	}
}

// TestDirectoryOfShards checks that a directory with the checkpoints of shards is read as one model, and that a shard in
// the wrong place is refused.
func TestDirectoryOfShards(t *testing.T) {
	dir := t.TempDir()
	save := func(m *served.Model, name string) {
		t.Helper()
		store := must.Get(checkpoint.Open(filepath.Join(dir, name), 2))(t)
		defer store.Close()
		kind, blocks := must.Get2(m.Blocks())(t)
		must.Get(store.Save(kind, blocks))(t)
	}
	save(shardModel(t, 1, 1, 100, "yes", "no"), "shard-1")
	source := must.Get(served.NewSource(dir, served.Options{}))(t)
	first := must.Get(source.Look(t.Context()))(t)
	shards := first.Shards()
	must.Require(t, len(shards) == 2 && shards[0] == nil && shards[1] != nil, "shards %v", shards)
	save(shardModel(t, 0, 2, 300, "no", "yes"), "shard-0")
	m := must.Get(served.Open(t.Context(), dir, served.Options{}))(t)
	p := must.Get(m.Predict([]byte(`{"x1":1}`), 0))(t)
	must.True(t, p.Shards == 2 && p.Class == "yes", "%+v", p)
	save(shardModel(t, 1, 2, 300, "no", "yes"), "shard-0")
	must.Fails(t, must.Err(served.Open(t.Context(), dir, served.Options{})), "a shard in the directory of another is read")
	_, err := served.Open(t.Context(), filepath.Join(dir, "none"), served.Options{})
	must.True(t, err != nil && !errors.Is(err, context.Canceled), "no directory: %v", err)
}

// TestHistogram checks that a Limit is exceeded as often as it should, also by numbers of another size, and that a
// Histogram comes back from JSON.
func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []float64{1e-6, 1, 1e6} {
		var h served.Histogram
		must.True(t, math.IsInf(h.Limit(.9), 1), "a limit without numbers")
		within := 0
		const n = 20_000
		for range n {
			x := size * r.ExpFloat64()
			if x <= h.Limit(.9) {
				within++
			}
			h.Add(x, .999)
		}
		got := float64(within) / n
		must.True(t, math.Abs(got-.9) <= .015, "size %v: %v of the numbers are within", size, got)
		var again, both served.Histogram
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(&h))(t), &again))
		a, b := h.Limit(.9), again.Limit(.9)
		must.True(t, math.Abs(a-b) <= 1e-9*a, "limit %v comes back as %v", a, b)
		both.Merge(nil)
		both.Merge(&again)
		must.True(t, reflect.DeepEqual(both, again), "merging with an empty one changes a histogram")
	}
}
