package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/synthetic"
)

// answered has a Learner learn an event, and fails where its own scores and what it makes of
// them are not those of the model that it would have published before.
func answered(t *testing.T, l *Learner, e *event.Example) {
	t.Helper()
	m, d := l.Snapshot().Model(), l.decision()
	want := m.Score(e, make([]float64, max(2, l.k)))
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) {
			t.Fatalf("event %d: %s %v, of the published model %v", l.events, what, got, want)
		}
	}
	for k, f := range scoresOf(l, e) {
		near("score", f, want[k])
	}
	total := l.Report().Total
	var numbers measure.Numbers
	if l.set.numbers {
		numbers = l.Report().Numbers.Total
		value := m.Value(want[0])
		low, high := m.Interval(value, model.ScoreVariance(m, e))
		numbers.Add(l.targetLoss(), e.Target, e.Weight, value, low, high, 1)
	}
	for k, f := range l.Learn(e, nil).Scores {
		near("score at learning", f, want[k])
	}
	after := l.Report()
	if l.set.numbers {
		near("within", after.Numbers.Total.Within, numbers.Within)
		near("absolute error", after.Numbers.Total.Absolute, numbers.Absolute)
		return
	}
	class, chances := m.Predict(want), m.Probabilities(want, make([]float64, max(2, l.k)))
	if got := d.Predict(want); got != class {
		t.Fatalf("event %d: class %d, of the published model %d", l.events, got, class)
	}
	for k, p := range d.Probabilities(want, make([]float64, max(2, l.k))) {
		near("probability", p, chances[k])
	}
	total.Add(class == e.Label, e.Weight, -math.Log(chances[e.Label]), 1)
	near("wrong", after.Total.Wrong, total.Wrong)
	near("log-loss", after.Total.LogLoss, total.LogLoss)
}

// What a Learner answers before it learns an event is what its published model answers.
func TestAnswersAsPublished(t *testing.T) {
	longtest.NotRaced(t)
	for i, x := range []struct {
		loss, noise string
		set         func(*Config)
	}{
		{"logistic", "auto", nil},
		{"logistic", "auto", func(c *Config) { c.Calibrate = "on" }},
		{"hinge", "dropout:0.3", func(c *Config) { c.Calibrate, c.Threshold = "on", 0.7 }},
		{"quadratic", "none", func(c *Config) { c.Calibrate, c.Threshold = "on", 0.2 }},
		{"t-logistic:1.5", "dropout:0.5", func(c *Config) { c.Threshold = 0.8 }},
		{"logistic", "group:0.4", nil},
		{"logistic", "dropout:0.2+group:0.4", nil},
		{"logistic", "auto", func(c *Config) { c.MissingPolicy = "none" }},
		{"logistic", "dropout:0.5", func(c *Config) { c.Optimizer = "ftrl" }},
		{"logistic", "dropout:0.5", func(c *Config) { c.Optimizer, c.Threshold = "arow", 0.4 }},
	} {
		for j, classes := range []int{2, 3} {
			for k, positive := range []string{"", "c0"} {
				if !longtest.Some(i+j+k, 2) {
					continue
				}
				c := DefaultConfig()
				c.Loss, c.Noise = x.loss, x.noise
				if x.set != nil {
					x.set(&c)
				}
				decided := c.Calibrate == "on" || c.Threshold != 0.5
				if c.Check() != nil || positive != "" && !decided || classes > 2 && decided {
					continue
				}
				t.Run(fmt.Sprint(x.loss, "/", x.noise, "/", c.Calibrate, c.Threshold, c.Optimizer, c.MissingPolicy, "/", classes, positive), func(t *testing.T) {
					c.Positive = positive
					l, s := mustNew(t, c, classes), synthetic.NewStream(7, classes)
					s.Lacks = true
					for i := range 1300 {
						if e := s.Next(); i > 20 && i%13 == 0 { // by then each class has been met
							answered(t, l, e)
						} else {
							l.Learn(e, nil)
						}
					}
				})
			}
		}
	}
	for _, calibrate := range []string{"off", "on"} {
		t.Run(fmt.Sprint("fill/", calibrate), func(t *testing.T) {
			c := fillConfig()
			c.Noise, c.Calibrate = "auto", calibrate
			c.MissingPolicy = "impute"
			l := lackingLearner(t, c)
			s := &alikeStream{r: rand.New(rand.NewPCG(1, 2)), fields: 10, null: 0.3}
			filled := 0
			for i := range 4000 {
				e := s.next()
				if i%31 != 0 {
					l.Learn(e, nil)
					continue
				}
				if l.head(l.schema); l.filling.Covariance != nil {
					filled++
				}
				answered(t, l, e)
			}
			if filled == 0 {
				t.Error("nothing was filled in")
			}
		})
	}
	for _, name := range []string{"squared", "absolute", "quantile:0.3", "huber:1", "poisson"} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Loss = name
			schema := lackingLearner(t, fillConfig()).schema.Clone()
			schema.Target, schema.Classes = loss.LabelsOf(name), nil
			l, err := New(c, schema)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range synthetic.Blanked(synthetic.Correlated(2500, schema.Target), 0.1, 3) {
				if i > 50 && i%17 == 0 {
					answered(t, l, e)
				} else {
					l.Learn(e, nil)
				}
			}
		})
	}
}
