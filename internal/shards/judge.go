package shards

// This file measures the answers of all shards on the events of one shard, and learns how to mix them.

import (
	"context"
	"math"
	"slices"
	"sync"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/served"
	"blankout/online"
	"blankout/stream/record"
)

// Judge measures what the shards answer to the events of one shard, before the shard learns them, at one in eight events
// at first. From the losses it chooses the fraction of the shard's own score in its answers. What the other shards know
// depends on when their models arrive, so nothing of this is in a checkpoint; it is part of the shard's snapshot.
type Judge struct {
	// Others returns the newest models of all shards, by number. It may return nil.
	Others func() []*served.Model
	// Schema returns the Schema of the own learner. Only Observe calls it.
	Schema func() *event.Schema
	Log    func(error) // receives errors of the other shards' models

	measured int // measured events; only Observe uses it

	mu   sync.Mutex
	info served.ShardInfo
}

// Of the shard's events, one in judgeEvery is measured, and one in laterEvery after judgeOften measured events: another
// shard's opinion takes as long as learning an event. Losses count half after lossMemory measured events, and
// nonconformity after limitMemory, because it falls while the shards still learn.
const (
	judgeEvery  = 8
	judgeOften  = 2048
	laterEvery  = 128
	lossMemory  = 1000
	limitMemory = 200
	// lossRate is the factor of losses in the exponent. It is above 1, because a measured event stands for judgeEvery
	// events.
	lossRate = 3
)

// ownWeights is the number of compared fractions of the own score: 0, 1/8 … 1.
const ownWeights = 9

// NewJudge returns a Judge that continues from the state in an earlier snapshot of the shard; before may be nil.
func NewJudge(shard served.ShardInfo, before *served.ShardInfo) *Judge {
	j := &Judge{info: shard}
	if before != nil && before.Own != nil && before.Mean != nil && before.Answered != nil && len(before.Losses) == ownWeights {
		j.info.Own, j.info.Mean, j.info.Answered, j.info.Losses, j.info.OwnWeight = before.Own, before.Mean, before.Answered, before.Losses, before.OwnWeight
		j.measured = int(before.Answered.Weight)
	} else {
		j.info.Own, j.info.Mean, j.info.Answered, j.info.Losses = &served.Histogram{}, &served.Histogram{}, &served.Answered{}, make([]float64, ownWeights)
		j.info.OwnWeight = ownWeight(j.info.Losses, lossRate)
	}
	return j
}

// Info returns a copy of the state, for a snapshot. Any goroutine may call it.
func (j *Judge) Info() *served.ShardInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.info
	own, mean, answered := *out.Own, *out.Mean, *out.Answered
	out.Own, out.Mean, out.Answered = &own, &mean, &answered
	out.Losses = append([]float64{}, out.Losses...)
	return &out
}

// Observe receives the prediction p of the own learner for an event, before the event is learned; see run.Runner.Answer.
func (j *Judge) Observe(e *event.Example, p *online.Prediction) error {
	if e == nil || p == nil || p.Refused || e.Refused != nil || e.Label == event.Unlabeled || e.Value == nil || e.Fingerprint%judgeEvery != 0 {
		return nil
	}
	if j.measured >= judgeOften && e.Fingerprint%laterEvery != 0 {
		return nil
	}
	j.measured++
	schema, alone := j.Schema(), p.Alone() // the other members read published models, which do not know the last label
	p = &alone
	own, ok := j.opinion(p, schema)
	if !ok {
		return nil
	}
	opinions := []served.Opinion{own}
	for k, m := range j.Others() {
		if m == nil || k == j.info.Number || m.Events == 0 {
			continue
		}
		o, err := m.Opine(context.Background(), record.Record{Key: e.Key, Value: e.Value, Offset: e.Offset, Time: e.Time})
		switch {
		case err == nil:
			opinions = append(opinions, o)
		case !served.IsRefused(err) && j.Log != nil:
			j.Log(err)
		}
	}
	class := ""
	if p.Loss == nil {
		class = schema.Classes[e.Label]
	}
	j.add(served.NewMixture(opinions, 0), &model.Head{Schema: schema, Threshold: p.Decision.Threshold}, class, e)
	return nil
}

// opinion returns the Opinion of the own learner. ok is false if it has none yet.
func (j *Judge) opinion(p *online.Prediction, s *event.Schema) (o served.Opinion, ok bool) {
	o = served.Opinion{Events: float64(p.Learned), Known: true}
	if h := j.info.HalfLife; h > 0 {
		o.Events = min(o.Events, h/math.Ln2)
	}
	if p.Loss != nil {
		o.Value = p.Value
		return o, !math.IsNaN(p.Value)
	}
	o.Chances = p.Decision.Probabilities(p.Scores, make([]float64, max(2, len(p.Scores))))
	o.Classes = s.Classes[:min(len(s.Classes), len(o.Chances))]
	return o, len(o.Classes) > 0
}

// add measures the answers to a labeled event.
func (j *Judge) add(m served.Mixture, h *model.Head, class string, e *event.Example) {
	keep, keepLimit := math.Exp2(-1.0/lossMemory), math.Exp2(-1.0/limitMemory)
	j.mu.Lock()
	defer j.mu.Unlock()
	x := &j.info
	answer := m.At(x.OwnWeight)
	judged := answer.Judge(h, class, e.Target)
	covered := x.Coverage > 0 && (judged.Nonconformity <= x.Own.Limit(x.Coverage) || judged.Right && class != "")
	x.Answered.Add(judged, covered, e.Weight)
	x.Own.Add(judged.Nonconformity, keepLimit)
	mean := m.At(0)
	x.Mean.Add(mean.Judge(h, class, e.Target).Nonconformity, keepLimit)
	for i := range x.Losses {
		answer := m.At(float64(i) / (ownWeights - 1))
		x.Losses[i] = x.Losses[i]*keep + e.Weight*answer.Judge(h, class, e.Target).Loss
	}
	scale := float64(lossRate)
	if class == "" { // the errors of a regression are normal, with the smallest mean square
		if least := slices.Min(x.Losses); least > 0 {
			scale = min(x.Answered.Weight, lossMemory/math.Ln2) / (2 * least)
		}
	}
	x.OwnWeight = ownWeight(x.Losses, scale)
}

// ownWeight returns the mean of the compared fractions, weighted as in a mixture of experts with these losses.
func ownWeight(losses []float64, scale float64) float64 {
	least, sum, a := slices.Min(losses), 0.0, 0.0
	for i, loss := range losses {
		w := math.Exp(scale * (least - loss))
		sum += w
		a += w * float64(i) / float64(len(losses)-1)
	}
	return a / sum
}
