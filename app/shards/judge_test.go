package shards

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream/record"
)

// judged learns events of a shard, whose weight of x is own, while another shard has learned events with the weight
// theirs. Labels arrive so many events later. It returns the Judge at the end.
func judged(t *testing.T, own, theirs float64, regression bool, delay int64) *Judge {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	config := record.DefaultConfig()
	config.Format, config.KeepValue = "json", true
	c := online.DefaultConfig()
	if regression {
		c.Loss = "squared"
		config.Target = 1
	}
	draw := func(weight float64) []byte {
		x := r.NormFloat64()
		y := weight*x + .5*r.NormFloat64()
		if regression {
			return fmt.Appendf(nil, `{"x":%.4f,"label":%.4f}`, x, 100*y)
		}
		return fmt.Appendf(nil, `{"x":%.4f,"label":"%v"}`, x, y > 0)
	}
	learn := func(weight float64, j *Judge) *online.Learner {
		s := config.Schema()
		d := must.Get(record.NewDecoder(config, s))(t)
		l := must.Get(online.New(c, s))(t)
		var e event.Example
		var joined []event.Example
		for offset := range int64(6000) {
			value := draw(weight)
			must.Do(t, d.Decode(t.Context(), record.Record{Value: value, Offset: offset}, &e))
			e.Fingerprint = record.Fingerprint(offset, nil, value)
			if j != nil {
				j.Schema = l.Schema
			}
			p := l.Predict(&e)
			switch {
			case j != nil && delay == 0:
				must.Do(t, j.Observe(&e, &p))
			case j != nil:
				e.Key = fmt.Append(nil, offset)
				must.Do(t, j.Wait(&e, &p))
				joined = append(joined, event.Example{Key: e.Key, Label: e.Label, Target: e.Target, Weight: e.Weight})
				if offset%50 == 0 {
					joined[offset].Label = event.Unlabeled // no label arrives
				}
			}
			l.Learn(&e, nil)
			if j != nil && delay > 0 && offset >= delay {
				must.Do(t, j.Observe(&joined[offset-delay], &p))
			}
		}
		return l
	}
	other := served.New(learn(theirs, nil).Snapshot().Model(), config)
	j := NewJudge(served.ShardInfo{Number: 1, Shards: 2, Coverage: .9}, nil)
	j.Others = func() []*served.Model { return []*served.Model{other, nil} }
	learn(own, j)
	return j
}

// TestJudge checks that the own score has nearly all weight if the other shard's events are different, that the mean is
// used if they are alike, and that answers have the coverage.
func TestJudge(t *testing.T) {
	for i := range 4 {
		regression, delay := i%2 == 1, int64(i/2*300)
		apart, alike := judged(t, 1, -1, regression, delay).Info(), judged(t, 1, 1, regression, delay).Info()
		must.True(t, apart.OwnWeight >= .9 && alike.OwnWeight <= .8, "regression %v: own weight %v if shards differ, %v if they are alike", regression, apart.OwnWeight, alike.OwnWeight)
		for _, info := range []*served.ShardInfo{apart, alike} {
			a := info.Answered
			must.True(t, a.Number >= 500 && a.Number <= 720 && a.Weight >= 4500 && a.Weight <= 7500 && math.Abs(a.Covered/a.Weight-.9) <= .05,
				"regression %v: %v of %v events covered", regression, a.Covered, a.Weight)
			must.True(t, info.Own.Limit(.9) <= info.Mean.Limit(.9)*1.2, "regression %v: the limit of the answers is %v, that of the mean %v", regression, info.Own.Limit(.9), info.Mean.Limit(.9))
		}
	}
}

// TestJudgeContinues checks that a Judge continues from the ShardInfo in a snapshot, and begins anew with one that has no
// measures.
func TestJudgeContinues(t *testing.T) {
	was := judged(t, 1, -1, false, 0).Info()
	var read served.ShardInfo
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(was))(t), &read))
	shard := served.ShardInfo{Number: 1, Shards: 2, Coverage: .9}
	again := NewJudge(shard, &read).Info()
	must.True(t, again.OwnWeight == was.OwnWeight && reflect.DeepEqual(again.Losses, was.Losses) && reflect.DeepEqual(again.Answered, was.Answered) && math.Abs(again.Own.Limit(.9)-was.Own.Limit(.9)) <= 1e-9,
		"%+v, was %+v", again, was)
	first := NewJudge(shard, &served.ShardInfo{}).Info()
	must.True(t, first.OwnWeight == .5 && first.Answered.Weight == 0, "%+v", first)
}

// TestJudgeMeasuresFewer checks that fewer events are measured after the first ones, and more again after a drift alarm.
func TestJudgeMeasuresFewer(t *testing.T) {
	j := NewJudge(served.ShardInfo{Shards: 2}, nil)
	drift := uint64(0)
	j.Drift = func() uint64 { return drift }
	for _, x := range []struct{ drift, events, want uint64 }{
		{0, 0, 8}, {0, 4095, 8}, {0, 4096, 16}, {0, 8192, 32}, {0, 131_071, 256}, {0, 131_072, 512}, {0, 1 << 30, 512},
		{40_000, 40_000, 8}, {40_000, 48_192, 32}, {40_000, 200_000, 512}, {5, 0, 8},
	} {
		drift = x.drift
		must.Equal(t, j.every(x.events), x.want, "one event of", x)
	}
}

// TestJudgeForgets checks that an answer does not wait for ever: its event's wait ends, with a label or without.
func TestJudgeForgets(t *testing.T) {
	j := judged(t, 1, 1, false, 300)
	// of the last 300 events
	n := len(j.waiting)
	must.True(t, n >= 3 && n <= 300/8*2, "%d answers wait", n)
}
