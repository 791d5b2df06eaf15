package online

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/online/aged"
	"blankout/online/synthetic"
)

// agedCase is a stream whose answers are measured by age: of two classes, of many of which some come late,
// and of numbers. Some numbers are null.
type agedCase struct {
	name   string
	config func(*Config)
	schema func() *event.Schema
	events []*event.Example
}

func agedCases(n int) []agedCase {
	of := func(k int) agedCase {
		return agedCase{name: fmt.Sprint(k, " classes"), config: func(c *Config) { c.Calibrate, c.Threshold = "on", .4 },
			schema: func() *event.Schema {
				s, _ := synthetic.NumberFields(4)
				s.Classes, s.MaxClasses = []string{"0", "1"}, k // further ones come
				return s
			},
			events: synthetic.AgedEvents(n, k)}
	}
	numbers := agedCase{name: "numbers", config: func(c *Config) { c.Loss = "squared" }, events: synthetic.AgedEvents(n, 2),
		schema: func() *event.Schema {
			s, _ := synthetic.NumberFields(4)
			s.Classes, s.Target = nil, loss.Real
			return s
		}}
	for _, e := range numbers.events {
		e.Target, e.Label = 100+20*float64(e.Label)+e.Features.Value[0], 0
	}
	plain := of(2)
	plain.name, plain.config = "2 classes, nothing filled in", func(c *Config) { c.CovarianceMaxFields = 0 }
	return []agedCase{of(2), of(4), plain, numbers}
}

func (c agedCase) learner(t testing.TB) *Learner {
	t.Helper()
	config := DefaultConfig()
	c.config(&config)
	l, err := New(config, c.schema())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// learnGrowing learns an event whose class the Schema may not know yet.
func learnGrowing(l *Learner, e *event.Example) {
	s := l.Schema()
	for s.Target == loss.Sign && e.Label >= len(s.Classes) {
		s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
	}
	l.Learn(e, nil)
}

// sampled returns how many events have been answered at each age, age 0 first.
func sampled(l *Learner) (events [1 + len(aged.Ages)]float64) {
	for _, r := range l.Report().ByAge {
		events[1+slices.Index(aged.Ages[:], r.Age)] = r.Events
	}
	return events
}

// resumes has l learn the case's events, and one that is stopped and restored after so many of them, each time anew, and
// one that is copied: all come to the same state.
func (c agedCase) resumes(t *testing.T, l *Learner, stops ...int) {
	t.Helper()
	all := []*Learner{l, c.learner(t), c.learner(t)}
	if all[1].config, all[2].config = l.config, l.config; l.set.fills { // a copy gathers anew
		all = all[:2]
	}
	for n, e := range c.events {
		if slices.Contains(stops, n) {
			blocks, err := all[1].Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			for i := range blocks { // the restored one may change no memory of the other
				blocks[i].Data = bytes.Clone(blocks[i].Data)
			}
			if all[1], err = Restore(l.config, blocks); err != nil {
				t.Fatal(err)
			}
			for i, x := range all[2:] {
				if all[2+i], err = x.Clone(); err != nil {
					t.Fatal(err)
				}
			}
			for _, x := range all[1:] {
				sameState(t, l, x)
			}
		}
		for _, x := range all {
			learnGrowing(x, e)
		}
	}
	for _, x := range all[1:] {
		sameState(t, l, x)
	}
}

// A Learner that is restored, or copied, while models are held comes to the same state.
func TestAgedResumes(t *testing.T) {
	longtest.NotRaced(t)
	for i, c := range agedCases(13500) {
		if !longtest.Some(i+0, 2) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			l := c.learner(t)
			c.resumes(t, l, 1050, 2500, 12_080)
			if n := sampled(l); n[1] < 90 || n[2] < 150 || n[3] < 100 {
				t.Errorf("answered %v events", n)
			}
		})
	}
}

// Learners that learn one model measure nothing by age: what the first one measured alone goes.
func TestAgedAlone(t *testing.T) {
	schema, events := shareStream(2500, 1)
	fold := shareLearner(t, schema, func(*Config) {})
	for i := range events[:2050] {
		fold.Learn(&events[i], nil)
	}
	if sampled(fold)[1] == 0 {
		t.Fatal("nothing was measured alone")
	}
	work, err := fold.Clone()
	if err != nil {
		t.Fatal(err)
	}
	if err := work.beginInterval(2, 300); err != nil {
		t.Fatal(err)
	}
	before := sampled(work)
	for i := range events[2050:2350] {
		work.Learn(&events[2050+i], nil)
	}
	if sampled(work) != before {
		t.Error("one of several measures by age")
	}
	d := work.Cut(32)
	if err := fold.Add(d); err != nil {
		t.Fatal(err)
	}
	if fold.aged != (aged.Aged{}) {
		t.Errorf("the fold has %+v", fold.Report().ByAge)
	}
}

// What is frozen answers as what is published does, whatever the weights are mixed of.
func TestFrozenModel(t *testing.T) {
	for _, c := range agedCases(1700) {
		l := c.learner(t)
		for _, e := range c.events[:1600] {
			learnGrowing(l, e)
		}
		for v := -1; v < len(l.second.mixes[0]); v++ { // as they are, and each alone
			if v >= 0 {
				for r := range l.second.mixes {
					mix := make([]float64, len(l.levels)+1)
					mix[v], l.second.mixes[r], l.second.made[r] = 1, mix, true
				}
			}
			published, frozen := l.published(), l.frozen()
			frozen.Schema = l.schema
			for _, e := range c.events[1600:] {
				want, got := published.Score(e, make([]float64, l.k)), frozen.Score(e, make([]float64, l.k))
				for k := range want {
					if math.Abs(want[k]-got[k]) > 1e-9*(1+math.Abs(want[k])) {
						t.Fatalf("%s, weights of expert %d alone: %v, want %v", c.name, v, got, want)
					}
				}
			}
		}
	}
}
