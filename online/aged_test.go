package online_test

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
	"blankout/online"
	"blankout/online/aged"
	"blankout/online/rows"
	"blankout/online/synthetic"
)

// agedCase is a stream whose answers are measured by age: of two classes, of many of which some come late,
// and of numbers. Some numbers are null.
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
				s.Classes, s.MaxClasses = []string{"0", "1"}, k // further ones come
				return s
			},
			events: synthetic.AgedEvents(n, k)}
	}
	numbers := agedCase{name: "numbers", config: func(c *online.Config) { c.Loss = "squared" }, events: synthetic.AgedEvents(n, 2),
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

func (c agedCase) learner(t testing.TB) *online.Learner {
	t.Helper()
	config := online.DefaultConfig()
	c.config(&config)
	l, err := online.New(config, c.schema())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// learnGrowing learns an event whose class the Schema may not know yet.
func learnGrowing(l *online.Learner, e *event.Example) {
	s := l.Schema()
	for s.Target == loss.Sign && e.Label >= len(s.Classes) {
		s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
	}
	l.Learn(e, nil)
}

// mean is what answers lose, summed by hand.
type mean struct{ weight, wrong, loss float64 }

func (m *mean) add(l *online.Learner, p *model.Linear, e *event.Example) {
	scores := p.Score(e, make([]float64, p.Outputs))
	m.weight += e.Weight
	if l.Schema().Target != loss.Sign {
		m.wrong += e.Weight * math.Abs(e.Target-p.Value(scores[0]))
		m.loss += e.Weight * measure.Deviance(l.Report().Numbers.Loss, e.Target, p.Value(scores[0]))
		return
	}
	d := p.Decision()
	if outputs := len(l.Predict(e).Scores); p.Outputs < outputs { // classes have come since
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
	if err == nil || logLoss == nil || math.Abs(*err-m.wrong/m.weight) > 1e-9 || math.Abs(*logLoss-m.loss/m.weight) > 1e-9 {
		t.Errorf("%s: error %v, loss %v, want %v and %v", what, err, logLoss, m.wrong/m.weight, m.loss/m.weight)
	}
}

// told returns what progressive measures have summed.
func told(l *online.Learner) mean {
	m := l.Report()
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

// sampled returns how many events have been answered at each age, age 0 first.
func sampled(l *online.Learner) (events [1 + len(aged.Ages)]float64) {
	for _, r := range l.Report().ByAge {
		events[1+slices.Index(aged.Ages[:], r.Age)] = r.Events
	}
	return events
}

// The answers of each age are those of the published model of then, and those of age 0 what progressive
// measures count at the same events.
func TestAgedAnswers(t *testing.T) {
	longtest.NotRaced(t)
	for i, c := range agedCases(11200) {
		if !longtest.Some(i+1, 2) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			held := map[uint64]*model.Linear{}
			var old, fresh [1 + len(aged.Ages)]mean
			for i, e := range c.events {
				n, before, was := uint64(i+1), told(l), sampled(l)
				learnGrowing(l, e)
				after, is := told(l), sampled(l)
				for j := range is {
					if is[j] == was[j] {
						continue
					}
					if fresh[j].addDifference(before, after); j == 0 {
						continue
					}
					// One model serves ages of 1,000 for two thousands, one those of 10,000 all the time.
					born := (n - aged.Ages[j-1]*9/10) / 1000 * 1000
					if j == 2 {
						born = born/2000*2000 + 1000
					} else if j == 3 {
						born = 1000
					}
					if age := n - 1 - born; age < aged.Ages[j-1]*9/10 || age > aged.Ages[j-1]*11/10 {
						t.Fatalf("event %d is answered at age %d, and no model is so old", n, aged.Ages[j-1])
					}
					old[j].add(l, held[born], e)
				}
				if n%1000 == 0 {
					held[n] = l.Snapshot().Model()
				}
			}
			got := l.Report().ByAge
			if len(got) != 1+len(aged.Ages) {
				t.Fatalf("%d ages", len(got))
			}
			fresh[0].compare(t, "at age 0", l.Schema().Target != loss.Sign, got[0].Error, got[0].LogLoss, got[0].Deviance)
			for j, r := range got[1:] {
				old[1+j].compare(t, fmt.Sprint("at age ", r.Age), l.Schema().Target != loss.Sign, r.Error, r.LogLoss, r.Deviance)
				fresh[1+j].compare(t, fmt.Sprint("fresh beside age ", r.Age), l.Schema().Target != loss.Sign, r.FreshError, r.FreshLogLoss, r.FreshDeviance)
			}
		})
	}
}

// On a stream whose boundary turns evenly, weights that are a events older err more by what it has turned
// in a events, as a share of half a turn.
func TestAgedErrOnADrift(t *testing.T) {
	const half = 30000 // events of half a turn
	c := online.DefaultConfig()
	c.HalfLife = 300
	schema, ids := synthetic.NumberFields(2)
	l, err := online.New(c, schema)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 2 * half {
		turn, label := math.Pi*float64(i)/half, 0
		x := []float64{r.NormFloat64(), r.NormFloat64()}
		if math.Cos(turn)*x[0]+math.Sin(turn)*x[1] > 0 {
			label = 1
		}
		l.Learn(synthetic.NumbersEvent(ids, label, x), nil)
	}
	metrics := l.Report()
	reports := metrics.Summary().ByAge
	for _, x := range reports[1:] {
		if more, want := *x.Error-*x.FreshError, 100*float64(x.Age)/half; math.Abs(more-want) > .5+.1*want {
			t.Errorf("at age %d the error is %.2f %%, and that of fresh weights %.2f %%: it should be %.2f more, of %v events", x.Age, *x.Error, *x.FreshError, want, x.Events)
		}
	}
	if progressive := metrics.Total.Error() * 100; math.Abs(*reports[0].Error-progressive) > 1 {
		t.Errorf("at age 0 the error is %.2f %%, the progressive one %.2f %%", *reports[0].Error, progressive)
	}
}

// Where a label comes later, age 0 is what the weights of that moment say, not what was told at arrival.
func TestAgedLater(t *testing.T) {
	for _, c := range agedCases(1100) {
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			var fresh, all measure.Classes
			var arrival online.Prediction
			for i, e := range c.events {
				if i == 200 { // all that follow came here
					arrival = *kept(l.Predict(e))
				}
				if i < 200 {
					l.Learn(e, nil)
					continue
				}
				was := sampled(l)
				before := all
				p := l.Learn(e, &arrival)
				if p.Measure(e, &all); sampled(l) != was {
					fresh.Weight += all.Weight - before.Weight
					fresh.Wrong += all.Wrong - before.Wrong
					fresh.LogLoss += all.LogLoss - before.LogLoss
				}
			}
			r := l.Report().ByAge
			if len(r) == 0 || math.Abs(*r[0].Error-fresh.Error()) > 1e-9 || l.Schema().Target == loss.Sign && math.Abs(*r[0].LogLoss-fresh.MeanLogLoss()) > 1e-9 {
				t.Errorf("%+v, want an error of %v and a loss of %v", r, fresh.Error(), fresh.MeanLogLoss())
			}
		})
	}
}

// Later passes, in which events come that have been learned, are not measured, and hold no models.
func TestAgedFirstPassAlone(t *testing.T) {
	c := agedCases(1500)[0]
	l := c.learner(t)
	for _, e := range c.events {
		l.Learn(e, nil)
	}
	was := sampled(l)
	l.EndPass()
	for _, e := range c.events {
		l.Learn(e, nil)
	}
	if sampled(l) != was || was[1] == 0 {
		t.Errorf("answered %v events, %v in the first pass", sampled(l), was)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.Name != aged.Block && bytes.HasPrefix([]byte(b.Name), []byte(aged.Block)) {
			t.Errorf("there is a block %s", b.Name)
		}
	}
}
