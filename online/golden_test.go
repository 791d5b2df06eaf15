package online

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// The files testdata/golden_*.json hold problems and the weights that an
// independent implementation of docs/mathematics.md reaches on them. In the
// online cases the intercept is an ordinary coordinate, the last one.
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
	H, Sigma           []float64
	ProgressiveLogLoss float64   `json:"progressive_logloss"`
	Start              []float64 `json:"start_weights"`
	Metric             []float64
	Objective          float64
}

func eachGolden(t *testing.T, algo string, f func(t *testing.T, g golden, c goldenCase)) {
	t.Helper()
	for _, name := range []string{"dense", "sparse", "counts"} {
		data, err := os.ReadFile("testdata/golden_" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var g golden
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		for i, c := range g.Cases {
			if c.Algo == algo {
				t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) { f(t, g, c) })
			}
		}
	}
}

// example returns row i with the intercept as an ordinary last coordinate.
func (g golden) example(i int) *event.Example {
	e := &event.Example{Weight: 1}
	for d, x := range append(g.X[i : i+1 : i+1][0], 1) {
		if x != 0 {
			e.Features.Index = append(e.Features.Index, uint32(d))
			e.Features.Value = append(e.Features.Value, x)
		}
	}
	if g.Y[i] > 0 {
		e.Label = 1
	}
	return e
}

// plainConfig is a rule as the papers have it: no average, no standardizing, no
// ridge but h0, no intercept of its own.
func plainConfig(rule string) Config {
	c := DefaultConfig()
	c.Loss, c.Optimizer = "logistic:quadratic-noising", rule
	c.Adapt, c.Average, c.Standardize, c.Intercept = false, 0, "none", "none"
	c.Start, c.Noise = 0, "none"
	return c
}

func testGolden(t *testing.T, g golden, c goldenCase, config Config, metric []float64, scale float64) {
	t.Helper()
	l, err := New(config, event.NewSchema(8, []string{"-1", "1"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.X {
		l.Learn(g.example(i), nil)
	}
	for d, want := range append(c.Weights, c.Intercept) {
		row := l.table.Row(uint32(d))
		p := row[model.ScalerWidth:]
		if got := p[0]; math.Abs(got-want) > 1e-9 {
			t.Errorf("weight %d = %v, want %v", d, got, want)
		}
		if metric != nil {
			if got := p[1] / scale; math.Abs(got-metric[d]) > 1e-9 {
				t.Errorf("metric %d = %v, want %v", d, got, metric[d])
			}
		}
	}
	if want := c.ProgressiveLogLoss; want != 0 {
		if got := l.Report().Total.MeanLogLoss(); math.Abs(got-want) > 1e-9 {
			t.Errorf("progressive log-loss %v, want %v", got, want)
		}
	}
}

func TestGoldenDropoutDescent(t *testing.T) {
	eachGolden(t, "dropout-descent", func(t *testing.T, g golden, c goldenCase) {
		config := plainConfig("dropout-descent")
		config.Noise = fmt.Sprintf("dropout:%v", c.Params.Delta)
		config.LearningRate, config.C = c.Params.Eta, 2/c.Params.H0
		testGolden(t, g, c, config, c.H, c.Params.Delta/(1-c.Params.Delta))
	})
}

func TestGoldenAdaGrad(t *testing.T) {
	eachGolden(t, "adagrad", func(t *testing.T, g golden, c goldenCase) {
		config := plainConfig("adagrad")
		config.LearningRate, config.C = c.Params.Eta, math.Inf(1)
		testGolden(t, g, c, config, nil, 1)
	})
}

func TestGoldenAROW(t *testing.T) {
	eachGolden(t, "arow", func(t *testing.T, g golden, c goldenCase) {
		config := plainConfig("arow")
		config.LearningRate = c.Params.R
		testGolden(t, g, c, config, c.Sigma, 1)
	})
}

// The refresh starts from given weights and metric; the events before it have
// been seen, so that their columns have rows.
func TestGoldenRefresh(t *testing.T) {
	eachGolden(t, "irls-refresh", func(t *testing.T, g golden, c goldenCase) {
		config := plainConfig("irls")
		config.Loss = c.Params.Loss + ":chen"
		config.Noise, config.C = fmt.Sprintf("dropout:%v", c.Params.Level), math.Inf(1)
		config.IRLSBatch, config.Intercept = len(g.X)-c.Params.FromRow, "penalized"
		l, err := New(config, event.NewSchema(8, []string{"-1", "1"}, 2))
		if err != nil {
			t.Fatal(err)
		}
		last := uint32(len(c.Weights))
		kappa := loss.Cost(l.set.loss, c.Params.C)
		give := func(row []float64, d int) {
			l.weights(row)[0], l.layout.Curvature(row)[0] = c.Start[d], c.Metric[d]/kappa
		}
		for d := range last {
			row := l.table.Touch(d)
			row[model.StatCount] = 1
			give(row, int(d))
		}
		give(l.bias, int(last))
		for i := c.Params.FromRow; i < len(g.X); i++ {
			e := g.example(i)
			e.Features.Index = e.Features.Index[:e.Features.Len()-1]
			e.Features.Value = e.Features.Value[:len(e.Features.Index)]
			l.Learn(e, nil)
		}
		for d, want := range append(c.Weights, c.Intercept) {
			row := l.bias
			if d < int(last) {
				row = l.table.Row(uint32(d))
			}
			if got := l.weights(row)[0]; math.Abs(got-want) > 1e-6 {
				t.Errorf("weight %d = %v, want %v", d, got, want)
			}
		}
	})
}
