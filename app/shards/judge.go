package shards

// This file measures the answers of all shards on the events of one shard, and learns how to mix them.

import (
	"context"
	"math"
	"slices"
	"sync"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream/record"
)

// Judge measures what the shards answer to the events of one shard, before the shard learns them, at one in eight events
// at first and at fewer later, see leastEvery. From the losses it chooses the fraction of the shard's own score in its answers.
// What the other shards know depends on when their models arrive, so nothing of this is in a checkpoint; it is part of the
// shard's snapshot.
type Judge struct {
	// Others returns the newest models of all shards, by number. It may return nil.
	Others func() []*served.Model
	// Schema returns the Schema of the own learner. Only Observe calls it.
	Schema func() *event.Schema
	// Drift returns the number of the event of the own learner's latest drift alarm, or 0. Only Observe calls it.
	Drift func() uint64
	Log   func(error) // receives errors of the other shards' models

	waiting map[string]waiting // events that wait for their labels, by their key; nil if none ever waited

	mu   sync.Mutex
	info served.ShardInfo
}

// Of a shard's events, one in every is measured: every is a power of two, n/256 after n events since the start or the latest
// drift alarm, but at least leastEvery and at most mostEvery. Another shard's opinion takes as long as learning an event.
const (
	leastEvery = 8
	mostEvery  = 512
)

// Losses count half after lossMemory measured events, and nonconformity after limitMemory, because it falls while the
// shards still learn.
const (
	lossMemory  = 1000
	limitMemory = 200
	// lossRate is the factor of losses in the exponent. It is above 1, because a measured event stands for several.
	lossRate = 3
)

// ownWeights is the number of compared fractions of the own score: 0, 1/8 … 1.
const ownWeights = 9

// NewJudge returns a Judge that continues from the state in an earlier snapshot of the shard; before may be nil.
func NewJudge(shard served.ShardInfo, before *served.ShardInfo) *Judge {
	j := &Judge{info: shard}
	if before != nil && before.Own != nil && before.Mean != nil && before.Answered != nil && len(before.Losses) == ownWeights {
		j.info.Own, j.info.Mean, j.info.Answered, j.info.Losses, j.info.OwnWeight = before.Own, before.Mean, before.Answered, before.Losses, before.OwnWeight
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

// waiting is the answer to an event whose label is delayed.
type waiting struct {
	mixture   served.Mixture
	threshold float64 // of the own learner
	every     uint64  // see Judge.every
}

// mostWaiting is the largest number of answers that wait for labels. More are not measured.
const mostWaiting = 1 << 14

// Wait receives the prediction p of the own learner for an event whose label is delayed; see run.Runner.Waits. Observe
// measures the answer when it receives the event. After a restart the answers that waited are not measured.
func (j *Judge) Wait(e *event.Example, p *online.Prediction) error {
	every, ok := j.due(e, p)
	if !ok || len(j.waiting) >= mostWaiting {
		return nil
	}
	if m, ok := j.mixture(e, p); ok {
		if j.waiting == nil {
			j.waiting = map[string]waiting{}
		}
		j.waiting[string(e.Key)] = waiting{m, p.Decision.Threshold, every}
	}
	return nil
}

// Observe receives the prediction p of the own learner for an event, before the event is learned; see run.Runner.Answer.
func (j *Judge) Observe(e *event.Example, p *online.Prediction) error {
	if e == nil || p == nil || e.Label == event.Unlabeled && j.waiting == nil {
		return nil
	}
	w, waited := j.waiting[string(e.Key)]
	switch {
	case waited:
		delete(j.waiting, string(e.Key))
	case j.waiting != nil:
		return nil
	default:
		every, ok := j.due(e, p)
		if !ok {
			return nil
		}
		w.every, w.threshold = every, p.Decision.Threshold
		if w.mixture, ok = j.mixture(e, p); !ok {
			return nil
		}
	}
	if e.Label == event.Unlabeled || e.Refused != nil {
		return nil
	}
	schema, class := j.Schema(), ""
	if schema.Target == loss.Sign {
		class = schema.Classes[e.Label]
	}
	j.add(w.mixture, &model.Head{Schema: schema, Threshold: w.threshold}, class, e, float64(w.every))
	return nil
}

// due reports whether the answer to an event is measured. It is one of every events.
func (j *Judge) due(e *event.Example, p *online.Prediction) (every uint64, ok bool) {
	if p.Refused || e.Refused != nil || e.Value == nil || e.Fingerprint%leastEvery != 0 {
		return 0, false
	}
	every = j.every(p.Learned)
	return every, e.Fingerprint%every == 0
}

// mixture returns the answer to an event, of published models, which leave out the last label. ok is false if the own
// learner has no opinion yet.
func (j *Judge) mixture(e *event.Example, p *online.Prediction) (m served.Mixture, ok bool) {
	own, ok := j.opinion(new(p.Alone()), j.Schema())
	if !ok {
		return m, false
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
	return served.NewMixture(opinions, 0), true
}

// every returns the number of events for which one is measured after n learned events.
func (j *Judge) every(n uint64) uint64 {
	if j.Drift != nil {
		n -= min(n, j.Drift())
	}
	every := uint64(leastEvery)
	for every < mostEvery && 512*every <= n {
		every *= 2
	}
	return every
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

// add measures the answers to a labeled event, which stands for several.
func (j *Judge) add(m served.Mixture, h *model.Head, class string, e *event.Example, several float64) {
	keep, keepLimit := math.Exp2(-1.0/lossMemory), math.Exp2(-1.0/limitMemory)
	j.mu.Lock()
	defer j.mu.Unlock()
	x := &j.info
	answer := m.At(x.OwnWeight)
	judged := answer.Judge(h, class, e.Target)
	covered := x.Coverage > 0 && (judged.Nonconformity <= x.Own.Limit(x.Coverage) || judged.Right && class != "")
	x.Answered.Add(judged, covered, e.Weight*several)
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
			scale = min(x.Answered.Number, lossMemory/math.Ln2) / (2 * least)
		}
	}
	x.OwnWeight = ownWeight(x.Losses, scale)
}

// ownWeight returns the mean of the compared fractions, weighted as in a mixture of experts with these losses.
func ownWeight(losses []float64, scale float64) float64 {
	least, sum, a := slices.Min(losses), 0.0, 0.0
	for i, x := range losses {
		w := loss.Exp(scale * (least - x))
		sum += w
		a += w * float64(i) / float64(len(losses)-1)
	}
	return a / sum
}
