package online_test

// This file tests the losses of older weights, and mixture weights that are learned from predictions of older weights.

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/rows"
	"blankout/online/synthetic"
)

// agedCase is a stream whose predictions are measured by the age of the weights. The streams have two classes, many
// classes of which some first appear late, or regression targets. Some numbers are null.
type agedCase struct {
	name   string
	config func(*online.Config)
	schema func() *event.Schema
	events []*event.Example
}

func agedCases(n int) []agedCase {
	of := func(k int) agedCase {
		return agedCase{name: fmt.Sprint(k, " classes"), config: func(c *online.Config) { c.Calibrate, c.Threshold = "on", .4 },
			schema: func() *event.Schema {
				s, _ := synthetic.NumberFields(4)
				s.Classes, s.MaxClasses = []string{"0", "1"}, k // the other classes appear later
				return s
			},
			events: synthetic.StaleEvents(n, k)}
	}
	numbers := agedCase{name: "numbers", config: func(c *online.Config) { c.Loss = "squared" }, events: synthetic.StaleEvents(n, 2),
		schema: func() *event.Schema {
			s, _ := synthetic.NumberFields(4)
			s.Classes, s.Target = nil, loss.Real
			return s
		}}
	for _, e := range numbers.events {
		e.Target, e.Label = 100+20*float64(e.Label)+e.Features.Value[0], 0
	}
	plain := of(2)
	plain.name, plain.config = "2 classes, nothing filled in", func(c *online.Config) { c.CovarianceMaxFields = 0 }
	return []agedCase{of(2), of(4), plain, numbers}
}

func (c agedCase) learner(t testing.TB) *learner {
	t.Helper()
	config := asIs(online.DefaultConfig())
	c.config(&config)
	return start(t, config, c.schema())
}

// learnGrowing learns an event whose class may be new to the Schema.
func learnGrowing(l *learner, e *event.Example) {
	s := l.schema
	for s.Target == loss.Sign && e.Label >= len(s.Classes) {
		s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
	}
	l.Learn(e, l.arrive(e)) // the labels come late, so that the measures are those of the model alone
}

// mean sums the losses of predictions directly.
type mean struct{ weight, wrong, loss float64 }

func (m *mean) add(l *learner, p *model.Linear, e *event.Example) {
	scores := p.Score(e, make([]float64, p.Outputs))
	m.weight += e.Weight
	if l.schema.Target != loss.Sign {
		m.wrong += e.Weight * math.Abs(e.Target-p.Value(scores[0]))
		m.loss += e.Weight * measure.Deviance(l.Report().Numbers.Loss, e.Target, p.Value(scores[0]))
		return
	}
	d := p.Decision()
	if outputs := len(l.Predict(e).Scores); p.Outputs < outputs { // classes were added after the prediction
		if p.Outputs == 1 {
			d, scores = model.Decision{Threshold: l.Predict(e).Decision.Threshold}, []float64{-scores[0], scores[0]}
		}
		for len(scores) < outputs {
			scores = append(scores, rows.NoClass)
		}
	}
	if d.Predict(scores) != e.Label {
		m.wrong += e.Weight
	}
	m.loss += e.Weight * d.LogLoss(scores, e.Label)
}

func (m *mean) compare(t *testing.T, what string, numbers bool, err, logLoss, deviance *float64) {
	t.Helper()
	if numbers {
		logLoss = deviance
	}
	must.True(t, err != nil && logLoss != nil && math.Abs(*err-m.wrong/m.weight) <= 1e-9 && math.Abs(*logLoss-m.loss/m.weight) <= 1e-9,
		"%s: error %v, loss %v, want %v and %v", what, err, logLoss, m.wrong/m.weight, m.loss/m.weight)
}

// told returns the sums of the learner's progressive measures.
func told(m online.Report) mean {
	if n := m.Numbers; n != nil {
		return mean{n.Total.Weight, n.Total.Absolute, n.Total.Deviance}
	}
	return mean{m.Total.Weight, m.Total.Wrong, m.Total.LogLoss}
}

func (m *mean) addDifference(before, after mean) {
	m.weight += after.weight - before.weight
	m.wrong += after.wrong - before.wrong
	m.loss += after.loss - before.loss
}

// sampled returns the number of predictions of each age, age 0 first.
func sampled(m online.Report) (events [1 + len(health.StaleAges)]float64) {
	for _, r := range m.ByAge {
		events[1+slices.Index(health.StaleAges[:], r.Age)] = r.Events
	}
	return events
}

// TestStalePredictions checks that the predictions of each age equal the predictions of the model that was published at
// that time. Predictions of age 0 must equal the predictions of the progressive measures.
func TestStalePredictions(t *testing.T) {
	t.Parallel()
	for _, c := range longtest.Few(agedCases(11200), 1, 2) {
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			held := map[uint64]*model.Linear{}
			var old, fresh [1 + len(health.StaleAges)]mean
			before, was := told(l.Report()), sampled(l.Report())
			for i, e := range c.events {
				learnGrowing(l, e)
				n, r := uint64(i+1), l.Report()
				after, is := told(r), sampled(r)
				for j := range is {
					if is[j] == was[j] {
						continue
					}
					if fresh[j].addDifference(before, after); j == 0 {
						continue
					}
					// One model is used for the age 1,000 during two thousand events. One model is used for the age
					// 10,000 during the whole test.
					born := (n - health.StaleAges[j-1]*9/10) / 1000 * 1000
					if j == 2 {
						born = born/2000*2000 + 1000
					} else if j == 3 {
						born = 1000
					}
					age := n - 1 - born
					must.Require(t, age >= health.StaleAges[j-1]*9/10 && age <= health.StaleAges[j-1]*11/10, "event %d is answered at age %d, and no model is so old", n, health.StaleAges[j-1])
					old[j].add(l, held[born], e)
				}
				before, was = after, is
				if n%1000 == 0 {
					held[n] = l.model()
				}
			}
			got := l.Report().ByAge
			must.Require(t, len(got) == 1+len(health.StaleAges), "%d ages", len(got))
			fresh[0].compare(t, "at age 0", l.schema.Target != loss.Sign, got[0].Error, got[0].LogLoss, got[0].Deviance)
			for j, r := range got[1:] {
				old[1+j].compare(t, fmt.Sprint("at age ", r.Age), l.schema.Target != loss.Sign, r.Error, r.LogLoss, r.Deviance)
				fresh[1+j].compare(t, fmt.Sprint("fresh beside age ", r.Age), l.schema.Target != loss.Sign, r.FreshError, r.FreshLogLoss, r.FreshDeviance)
			}
		})
	}
}

// TestStalenessOfLateField checks a model that was frozen before some fields existed. It must predict events that have
// these fields and are decoded with the newer Schema.
func TestStalenessOfLateField(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	l, r := start(t, online.DefaultConfig(), s.View()), rand.New(rand.NewPCG(5, 6))
	for n := range 2100 {
		for i := range map[int]int{0: 1, 1050: 70}[n] {
			s.AddField(event.Field{Name: fmt.Sprint(n, i), Kind: event.Numeric})
		}
		e := &event.Example{Weight: 1, Label: r.IntN(2)}
		for id := range uint16(len(s.Fields)) {
			if id > 0 {
				e.Field, e.Features.Index = append(e.Field, id), append(e.Features.Index, uint32(id))
				e.Features.Value = append(e.Features.Value, float64(2*e.Label)/float64(id)+r.NormFloat64())
			}
		}
		l.SetSchema(s.View())
		l.Learn(e, nil)
	}
	for _, x := range l.Report().ByAge {
		if x.Age == 1000 && x.Events > 20 && *x.Error < 0.3 && *x.FreshError < *x.Error {
			return
		}
	}
	t.Errorf("%+v", l.Report().ByAge)
}

// TestStalenessOfFirstPass checks later passes over a data set, which repeat learned events. They must not be measured,
// and no models may be stored.
func TestStalenessOfFirstPass(t *testing.T) {
	schema, _ := synthetic.NumberFields(4)
	l := start(t, online.DefaultConfig(), schema)
	events := synthetic.StaleEvents(1500, 2)
	sampled := func() (n float64) {
		for _, r := range l.Report().ByAge {
			n += r.Events
		}
		return n
	}
	for _, e := range events {
		l.Learn(e, nil)
	}
	was := sampled()
	l.EndPass()
	for _, e := range events {
		l.Learn(e, nil)
	}
	must.True(t, sampled() == was && was != 0, "answered %v events, %v in the first pass", sampled(), was)
	blocks := l.blocks()
	for _, b := range blocks {
		must.True(t, b.Name == health.BlockStale || !bytes.HasPrefix([]byte(b.Name), []byte(health.BlockStale)), "there is a block %s", b.Name)
	}
}

// TestStalenessOfDelayedLabels checks that, for delayed labels, age 0 is the prediction when the label arrives, not the
// prediction when the event arrives.
func TestStalenessOfDelayedLabels(t *testing.T) {
	for _, c := range agedCases(1100) {
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			var fresh, all measure.Classes
			var arrival online.Prediction
			var was [1 + len(health.StaleAges)]float64
			for i, e := range c.events {
				if i == 200 { // the labels of earlier events have arrived
					was = sampled(l.Report())
					arrival = l.Predict(e)
					arrival.Scores, arrival.Components = slices.Clone(arrival.Scores), slices.Clone(arrival.Components)
				}
				if i < 200 {
					l.Learn(e, nil)
					continue
				}
				before := all
				p := l.Learn(e, &arrival)
				is := sampled(l.Report())
				if p.Measure(e, &all); is != was {
					fresh.Weight += all.Weight - before.Weight
					fresh.Wrong += all.Wrong - before.Wrong
					fresh.LogLoss += all.LogLoss - before.LogLoss
				}
				was = is
			}
			r := l.Report().ByAge
			if len(r) == 0 || math.Abs(*r[0].Error-fresh.Error()) > 1e-9 || l.schema.Target == loss.Sign && math.Abs(*r[0].LogLoss-fresh.MeanLogLoss()) > 1e-9 {
				t.Errorf("%+v, want an error of %v and a loss of %v", r, fresh.Error(), fresh.MeanLogLoss())
			}
		})
	}
}

// turning draws events in which a number determines the class. After every turn events the relation is reversed.
// Current weights predict the class of the next event well. Weights that are turn events old confidently predict the
// wrong class.
func turning(n, turn int) (out []*event.Example) {
	r := rand.New(rand.NewPCG(3, 5))
	for i := range n {
		x := r.NormFloat64()
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{3 * x}}}
		if (x > 0) != (i/turn%2 == 1) != (r.Float64() < 0.05) {
			e.Label = 1
		}
		out = append(out, e)
	}
	return out
}

func learnTurning(t *testing.T, turn int) *learner {
	t.Helper()
	l := start(t, online.DefaultConfig(), event.NewSchema(8, []string{"a", "b"}, 2))
	for _, e := range turning(12_000, turn) {
		l.Learn(e, nil)
	}
	return l
}

func ofAge(t *testing.T, l *learner, age uint64) measure.StaleLoss {
	t.Helper()
	for _, r := range l.Report().ByAge {
		if r.Age == age {
			return r
		}
	}
	t.Fatalf("nothing is known of age %d", age)
	return measure.StaleLoss{}
}

// TestStaleWeights checks that there is a warning if weights of some age are worse than the class frequencies. The
// Learner and its saved state must both give the warning. There must be no warning without a concept change.
func TestStaleWeights(t *testing.T) {
	stale := func(l *learner) bool {
		is := func(w health.Warning) bool { return w.Kind == health.WarnStale }
		a, b := slices.ContainsFunc(l.Warnings(nil, false), is), slices.ContainsFunc(l.savedWarnings(nil), is)
		must.True(t, a == b, "the learner warns: %v, what is saved of it: %v", a, b)
		return a
	}
	l := learnTurning(t, 1000)
	r := ofAge(t, l, 1000)
	must.True(t, *r.LogLoss > *r.ConstantLogLoss+0.5 && stale(l), "log-loss at age 1000: %v, of the shares %v; warned: %v", *r.LogLoss, *r.ConstantLogLoss, stale(l))
	must.True(t, math.Abs(*r.ConstantLogLoss-math.Log(2)) <= 0.02 && math.Abs(*r.ConstantError-0.5) <= 0.15, "the shares lose %v and err %v", *r.ConstantLogLoss, *r.ConstantError)
	must.True(t, !stale(learnTurning(t, 1e6)), "a stream that stays as it is has useless weights")
}
