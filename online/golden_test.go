package online_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/papers/comparators"
)

// golden is a problem of testdata/golden_*.json, with the weights of an independent implementation of
// docs/mathematics.md. In the online cases the intercept is the weight of the last coordinate.
type golden struct {
	X     [][]float64
	Y     []float64
	Cases []goldenCase
}

type goldenCase struct {
	Algo   string
	Params struct {
		Delta, Eta, H0, Eps, R, Level, C, Ell float64
		Loss                                  string
		FromRow                               int `json:"from_row"`
	}
	Weights            []float64
	Intercept          float64
	ProgressiveLogLoss float64 `json:"progressive_logloss"`
}

func eachGolden(t *testing.T, algo string, f func(t *testing.T, g golden, c goldenCase)) {
	t.Helper()
	for _, name := range []string{"dense", "sparse", "counts"} {
		data := must.Get(os.ReadFile("testdata/golden_" + name + ".json"))(t)
		var g golden
		must.Do(t, json.Unmarshal(data, &g))
		for i, c := range g.Cases {
			if c.Algo == algo {
				t.Run(fmt.Sprintf("%s/%s/%d", algo, name, i), func(t *testing.T) { f(t, g, c) })
			}
		}
	}
}

// example returns event i. Its last coordinate is the constant feature.
func (g golden) example(i int) *event.Example {
	e := &event.Example{Weight: 1}
	for d, x := range append(g.X[i : i+1 : i+1][0], 1) {
		if x != 0 {
			eventtest.Put(e, uint32(d), x)
		}
	}
	if g.Y[i] > 0 {
		e.Label = 1
	}
	return e
}

// plainConfig returns the settings with which an optimizer works as in the papers: no averaging, no standardization, no
// ridge except h0, and no separate intercept.
func plainConfig(rule string) online.Config {
	c := online.DefaultConfig()
	c.Loss, c.Optimizer = "logistic:quadratic-noising", rule
	c.Adapt, c.Average, c.Standardize, c.Intercept = false, 0, "none", "none"
	c.Start, c.Noise = 0, "none"
	return c
}

func testGolden(t *testing.T, g golden, c goldenCase, config online.Config) {
	t.Helper()
	l := must.Get(online.New(config, event.NewSchema(8, []string{"-1", "1"}, 2)))(t)
	logLoss := 0.0
	for i := range g.X {
		e := g.example(i)
		p := alone(l.Learn(e, nil))
		logLoss += p.Decision.LogLoss(p.Scores, e.Label) / float64(len(g.X))
	}
	m := l.Snapshot().Model()
	for d, want := range append(c.Weights, c.Intercept) {
		if got := m.Weight(uint32(d), 0); math.Abs(got-want) > 1e-9 {
			t.Errorf("weight %d = %v, want %v", d, got, want)
		}
	}
	if want := c.ProgressiveLogLoss; want != 0 {
		if math.Abs(logLoss-want) > 1e-9 {
			t.Errorf("progressive log-loss %v, want %v", logLoss, want)
		}
	}
}

// TestGolden compares the weights of the optimizers of the papers with the weights of the independent implementation.
func TestGolden(t *testing.T) {
	for optimizer, set := range map[string]func(*online.Config, *goldenCase){
		"dropout-descent": func(config *online.Config, c *goldenCase) {
			config.Noise = fmt.Sprintf("dropout:%v", c.Params.Delta)
			config.LearningRate, config.C = c.Params.Eta, 2/c.Params.H0
		},
		"adagrad": func(config *online.Config, c *goldenCase) { config.LearningRate, config.C = c.Params.Eta, math.Inf(1) },
		"arow": func(config *online.Config, c *goldenCase) {
			config.Use(comparators.AROW)
			config.LearningRate = c.Params.R
		},
	} {
		eachGolden(t, optimizer, func(t *testing.T, g golden, c goldenCase) {
			config := plainConfig(optimizer)
			set(&config, &c)
			testGolden(t, g, c, config)
		})
	}
}
