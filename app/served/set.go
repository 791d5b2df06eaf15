package served

// This file answers with several shards of a stream: complete learners, each of some partitions.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// ShardInfo describes the model of a shard. It is part of the shard's snapshot. A checkpoint has only the first two.
type ShardInfo struct {
	Number     int     `json:"shard"`
	Shards     int     `json:"shards"`
	Partitions int     `json:"partitions,omitempty"` // partitions of the topic whose keys select a shard
	HalfLife   float64 `json:"half_life,omitempty"`  // of the learner, in events; 0 for none
	// OwnWeight is the fraction of the shard's own score in its answers, see Mix.
	OwnWeight float64 `json:"own_weight,omitempty"`
	Coverage  float64 `json:"coverage,omitempty"` // aim of sets and intervals
	// The nonconformity (see Mixed.Nonconformity) of the answers to the shard's events: with its own score, and of the
	// mean alone.
	Own  *Histogram `json:"own,omitempty"`
	Mean *Histogram `json:"mean,omitempty"`
	// Losses are the losses by which OwnWeight was chosen, and Answered measures the shard's answers.
	Losses   []float64 `json:"losses,omitempty"`
	Answered *Answered `json:"answered,omitempty"`
}

// Answered has the sums of a shard's answers to its own events, before the events were learned. Some events are measured,
// and each stands for several.
type Answered struct {
	Number        float64 // of measured events
	Weight, Wrong float64 // of the events for which they stand, and of the wrongly classified ones
	LogLoss       float64 // sum of log-losses, or of squared errors for regression
	Covered       float64 // weight of the events whose set or interval had the label
	Errors        float64 // sum of absolute errors, for regression
}

// Add adds the answer to a measured event. weight is the sum of the importances of the events for which it stands.
func (a *Answered) Add(j Judged, covered bool, weight float64) {
	a.Number++
	a.Weight += weight
	if !j.Right {
		a.Wrong += weight
	}
	a.LogLoss += weight * j.Loss
	a.Errors += weight * j.Nonconformity
	if covered {
		a.Covered += weight
	}
}

// set is the part of a Model that has several shards.
type set struct {
	shards     []*Model // by number; nil for a shard without a model
	partitions int
	limit      float64 // of the mean's nonconformity; infinite if unknown
}

// NewSet returns the Model of the shards, which answers with all of them. shards has the models by number, and nil for
// shards without a model; at least one has a model.
func NewSet(shards []*Model) *Model {
	s := &set{shards: slices.Clone(shards), limit: math.Inf(1)}
	var main *Model
	for _, x := range shards {
		if x != nil && (main == nil || x.Events > main.Events) {
			main = x
		}
	}
	m := New(main.Model, main.Record)
	m.Recorded, m.set = main.Recorded, s
	head := *main.Head
	m.Head, head.Events = &head, 0
	classes := slices.Clone(main.Schema.Classes)
	all, coverage := &Histogram{}, 0.0
	for _, x := range shards {
		if x == nil {
			continue
		}
		m.Version += x.Version // increases with that of every shard
		head.Events += x.Events
		if m.At.Before(x.At) {
			m.At = x.At
		}
		m.Offsets = append(m.Offsets, x.Offsets...)
		for _, name := range x.Schema.Classes {
			if !slices.Contains(classes, name) {
				classes = append(classes, name)
			}
		}
		if info := x.Shard; info != nil {
			s.partitions = max(s.partitions, info.Partitions)
			all.Merge(info.Mean)
			coverage = max(coverage, info.Coverage)
		}
	}
	if coverage > 0 {
		s.limit = all.Limit(coverage)
	}
	slices.SortFunc(m.Offsets, func(a, b event.Position) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	schema := *main.Schema
	schema.Classes, head.Schema = classes, &schema
	return m
}

// Shards returns the models of a set by number, with nil for shards without a model. It returns nil for a single model.
func (m *Model) Shards() []*Model {
	if m.set == nil {
		return nil
	}
	return m.set.shards
}

// OneShard returns the model of one shard of a set.
func (m *Model) OneShard(number int) (*Model, error) {
	switch all := m.Shards(); {
	case all == nil:
		return nil, fmt.Errorf("shard %d: this is one model, not the shards of a group", number)
	case number < 0 || number >= len(all):
		return nil, fmt.Errorf("shard %d: there are %d shards, from 0", number, len(all))
	case all[number] == nil:
		return nil, fmt.Errorf("shard %d has no model yet", number)
	default:
		return all[number], nil
	}
}

// Keyed reports whether the Model answers with the shard of a key: it is a set of published models, not of checkpoints.
func (m *Model) Keyed() bool { return m.set != nil && m.set.partitions > 0 }

// ShardOf returns the shard of a record's key, or -1 if it is not known: the key is empty, or the model is not a set of
// snapshots.
func (m *Model) ShardOf(key []byte) int {
	if !m.Keyed() || len(key) == 0 {
		return -1
	}
	return event.ShardOf(partitionOf(key, m.set.partitions), len(m.set.shards))
}

// partitionOf returns the partition to which the default partitioner of Kafka's clients sends a key: murmur2.
func partitionOf(key []byte, partitions int) int32 {
	const m, r = 0x5bd1e995, 24
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return int32(h&math.MaxInt32) % int32(partitions)
}

// Opinion is what one shard predicts for an event.
type Opinion struct {
	Mixed
	Events float64 // events within a half-life, which weigh the shard in the mean
	Known  bool    // the shard's model has seen a column of the event
}

// Opine returns the Opinion of one shard's model about an event. The error is an *event.Refusal if the model cannot
// read the event.
func (m *Model) Opine(ctx context.Context, r record.Record) (Opinion, error) {
	d, err := m.decoder()
	if err != nil {
		return Opinion{}, err
	}
	defer m.idle.Put(d)
	if err := d.Decode(ctx, r, &d.example); err != nil {
		return Opinion{}, err
	}
	if refusal := d.example.Refused; refusal != nil {
		return Opinion{}, &event.Refusal{Reason: refusal.Reason, Detail: refusal.Detail, Value: slices.Clone(refusal.Value)}
	}
	e := m.Declare(&d.example, &d.left)
	scores, _ := m.score(e, d.scores)
	o := Opinion{Events: float64(m.Events), Known: m.knows(e)}
	if m.Shard != nil && m.Shard.HalfLife > 0 {
		o.Events = min(o.Events, m.Shard.HalfLife/math.Ln2)
	}
	if loss.IsRegression(m.Loss) {
		o.Value = m.Value(scores[0])
		return o, nil
	}
	o.Chances = m.Probabilities(scores, slices.Clone(d.chances))
	o.Classes = m.Schema.Classes[:min(len(m.Schema.Classes), len(o.Chances))]
	return o, nil
}

// knows reports whether the model has seen a column of an event.
func (m *Model) knows(e *event.Example) bool {
	linear, ok := m.Model.(*model.Linear)
	return !ok || slices.ContainsFunc(e.Features.Index, func(column uint32) bool { return linear.Rows.Row(column) != nil })
}

// leastChance is the smallest probability of a class in a mean of logarithms.
const leastChance = 1e-15

// Mixed is the answer of several shards, or of one.
type Mixed struct {
	Classes []string  // names of the classes; nil for regression
	Chances []float64 // probability of each class
	Value   float64   // value of a regression
}

// Mixture has the Opinions of the shards about an event, ready to be mixed with any weight of the own one.
type Mixture struct {
	classes   []string
	own, mean []float64 // logarithms of probabilities, or the value of a regression; own is nil without an own shard
}

// NewMixture prepares the opinions; own is the index of the own shard's, or negative. The mean is weighted by
// Opinion.Events, over the shards that know a column of the event, or over all if none does. Classes are matched by
// name. A class that a shard with n events has not seen has the probability .5/(n + 1) there.
func NewMixture(opinions []Opinion, own int) Mixture {
	var m Mixture
	for _, o := range opinions {
		for _, name := range o.Classes {
			if !slices.Contains(m.classes, name) {
				m.classes = append(m.classes, name)
			}
		}
	}
	m.mean = make([]float64, max(1, len(m.classes)))
	known := slices.ContainsFunc(opinions, func(o Opinion) bool { return o.Known })
	total := 0.0
	at := make([]float64, len(m.mean))
	for i := range opinions {
		o := &opinions[i]
		m.logs(o, at)
		if i == own {
			m.own = slices.Clone(at)
		}
		weight := o.Events
		if known && !o.Known {
			weight = 0
		}
		total += weight
		for k, x := range at {
			m.mean[k] += weight * x
		}
	}
	for k := range m.mean {
		if total > 0 {
			m.mean[k] /= total
		}
	}
	return m
}

// logs writes the logarithms of an Opinion's probabilities, or its value, to out.
func (m *Mixture) logs(o *Opinion, out []float64) {
	if len(m.classes) == 0 {
		out[0] = o.Value
		return
	}
	for k, name := range m.classes {
		out[k] = math.Log(.5 / (o.Events + 1))
		if i := slices.Index(o.Classes, name); i >= 0 {
			out[k] = math.Log(max(o.Chances[i], leastChance))
		}
	}
}

// At returns the answer a x own + (1 - a) x mean: of values for a regression, else of the logarithms of probabilities,
// which is the mean of the log-odds for two classes. Without an own shard it is the mean.
func (m *Mixture) At(a float64) Mixed {
	z := slices.Clone(m.mean)
	if m.own != nil {
		for k := range z {
			z[k] = a*m.own[k] + (1-a)*m.mean[k]
		}
	}
	if len(m.classes) == 0 {
		return Mixed{Value: z[0]}
	}
	most, sum := slices.Max(z), 0.0
	for k := range z {
		z[k] = loss.Exp(z[k] - most)
		sum += z[k]
	}
	for k := range z {
		z[k] /= sum
	}
	return Mixed{Classes: m.classes, Chances: z}
}

// Chance returns the probability of a class.
func (m *Mixed) Chance(class string) float64 {
	if i := slices.Index(m.Classes, class); i >= 0 {
		return m.Chances[i]
	}
	return leastChance
}

// Nonconformity returns how badly the answer fits a class: the negative logarithm of its probability.
func (m *Mixed) Nonconformity(class string) float64 {
	return -math.Log(max(m.Chance(class), leastChance))
}

// predictSet is PredictRecord for a set.
func (m *Model) predictSet(ctx context.Context, r record.Record, explain int) (Prediction, error) {
	own := m.ShardOf(r.Key)
	if own >= 0 && m.set.shards[own] == nil {
		own = -1
	}
	var opinions []Opinion
	var main *Model // the own shard, or the one with the most events among those that can read the event
	var refused error
	mine, onlyUnseen := -1, true
	for k, x := range m.set.shards {
		if x == nil || x.Events == 0 && m.Events > 0 { // nothing is known of a shard without events
			continue
		}
		o, err := x.Opine(ctx, r)
		switch {
		case IsRefused(err):
			refused = err
			continue
		case err != nil:
			return Prediction{}, fmt.Errorf("shard %d: %w", k, err)
		}
		if k == own {
			mine = len(opinions)
		}
		if main == nil || k == own || own < 0 && x.Events > main.Events {
			main = x
		}
		onlyUnseen = onlyUnseen && !o.Known
		opinions = append(opinions, o)
	}
	if main == nil {
		return Prediction{}, refused
	}
	p, err := main.PredictRecord(ctx, r, explain)
	if err != nil {
		return p, err
	}
	mixture := NewMixture(opinions, mine)
	weight, limit := 0.0, m.set.limit
	if info := main.Shard; mine >= 0 && info != nil {
		if weight = info.OwnWeight; info.Own != nil {
			limit = info.Own.Limit(info.Coverage)
		}
	}
	p.Shards, p.Version, p.OnlyUnseen = len(opinions), m.Version, p.OnlyUnseen && onlyUnseen
	main.answer(&p, mixture.At(weight), limit)
	return p, nil
}

// answer makes p the prediction of a mixed answer. limit bounds the nonconformity of the classes in its set, or the
// distance of the true value.
func (m *Model) answer(p *Prediction, x Mixed, limit float64) {
	p.Low, p.High, p.Set = nil, nil, nil
	if x.Classes == nil {
		p.Value, p.Score = &x.Value, x.Value
		counts := m.Target() == loss.Count
		if counts {
			p.Score = math.Log(x.Value)
		}
		if p.Scores = []float64{p.Score}; !math.IsInf(limit, 0) {
			low, high := x.Value-limit, x.Value+limit
			if counts {
				low = max(low, 0)
			}
			p.Low, p.High = &low, &high
		}
		return
	}
	p.Class, p.Probability = x.predicted(m.Head)
	p.Scores = p.Scores[:0]
	p.Probabilities = make(map[string]float64, len(x.Classes))
	for k, name := range x.Classes {
		p.Probabilities[name] = x.Chances[k]
		p.Scores = append(p.Scores, math.Log(max(x.Chances[k], leastChance)))
	}
	if p.Score = math.Log(max(p.Probability, leastChance)); len(x.Classes) == 2 {
		second := x.Chance(m.className(1))
		p.Score = math.Log(max(second, leastChance) / max(1-second, leastChance))
		p.Scores = []float64{p.Score}
	}
	if !math.IsInf(limit, 0) {
		p.Set = x.Set(limit, p.Class)
	}
}

// predicted returns the predicted class and its probability. Of two classes the second one is predicted above the
// threshold of the head h.
func (m *Mixed) predicted(h *model.Head) (class string, chance float64) {
	best := 0
	for k, p := range m.Chances {
		if p > m.Chances[best] {
			best = k
		}
	}
	if len(m.Classes) == 2 && h.Threshold > 0 && len(h.Schema.Classes) == 2 {
		second := slices.Index(m.Classes, h.Schema.Classes[1])
		if best = second; second >= 0 && m.Chances[second] <= h.Threshold {
			best = 1 - second
		}
		best = max(best, 0)
	}
	return m.Classes[best], m.Chances[best]
}

// Judged is the comparison of an answer with the event's label.
type Judged struct {
	Right         bool
	Loss          float64 // log-loss, or the squared error
	Nonconformity float64 // negative logarithm of the probability of the class, or the absolute error
}

// Judge compares the answer with the label of an event: the name of its class, or its value for regression. The head h
// has the threshold and the order of the classes.
func (m *Mixed) Judge(h *model.Head, class string, value float64) Judged {
	if m.Classes == nil {
		off := math.Abs(value - m.Value)
		return Judged{true, off * off, off}
	}
	predicted, _ := m.predicted(h)
	u := m.Nonconformity(class)
	return Judged{predicted == class, u, u}
}

// Set returns the classes whose nonconformity is at most limit, and the predicted class, the most probable first.
func (m *Mixed) Set(limit float64, predicted string) (names []string) {
	for _, name := range m.Classes {
		if name == predicted || m.Nonconformity(name) <= limit {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Chance(b), m.Chance(a)) })
	return names
}
