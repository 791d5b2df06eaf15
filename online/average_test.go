package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/rules"
)

// The lazy average against one that is written down weight by weight:
//
//	a_t = (1 - beta_t) a_{t-1} + beta_t w_t,  beta_t = (1+p)/(t+1+p).
//
// The iterates w are those of a second learner, which publishes them. With a small share the coefficient of the lags falls below
// the smallest number that there is, unless it is brought back to 1 on the way.
func TestAverageAgainstItsDefinition(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	type test struct {
		name   string
		share  float64
		events int
		rule   string
	}
	tests := []test{{"small share", 0.005, 4500, "adagrad"}}
	for _, rule := range rules.Names() { // each must handle its lags; irls makes no steps, and auto is AdaGrad
		if rule != "irls" && rule != "auto" {
			tests = append(tests, test{rule, 0.15, 600, rule})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := online.DefaultConfig()
			c.Noise, c.Standardize, c.Average, c.Adapt, c.LearningRate = "none", "none", tt.share, false, 1
			if c.Optimizer = tt.rule; c.Optimizer == "dropout-descent" { // it requires a noise
				c.Noise = "dropout:0.3"
			}
			l := mustNew(t, c, 2)
			c.Average = 0
			iterates := mustNew(t, c, 2)
			r := rand.New(rand.NewPCG(3, 4))
			const d = 8
			var a [d + 1]float64 // the intercept is last
			lazily := 0.0
			for n := range tt.events {
				e := event.Example{Weight: 1}
				f := 0.5
				for i := range uint32(d) {
					x := r.NormFloat64()
					e.Features.Index, e.Features.Value = append(e.Features.Index, i), append(e.Features.Value, x)
					f += x / 3
				}
				if r.Float64() < 1/(1+math.Exp(-f)) {
					e.Label = 1
				}
				l.Learn(&e, nil)
				iterates.Learn(&e, nil)
				p := 1/tt.share - 1
				beta := (1 + p) / (float64(n+1) + 1 + p)
				lazily += math.Log10(1 - beta)
				m := iterates.Snapshot().Model()
				for i := range a {
					w := m.Intercept[0]
					if i < d {
						w = m.Weight(uint32(i), 0)
					}
					a[i] += beta * (w - a[i])
				}
			}
			if tt.share == 0.005 && !(lazily < -320) {
				t.Fatalf("the coefficient has only come to 1e%.0f: that needs no bringing back to 1", lazily)
			}
			m := l.Snapshot().Model()
			for i, want := range a {
				got := m.Intercept[0]
				if i < d {
					got = m.Weight(uint32(i), 0)
				}
				if math.Abs(got-want) > 1e-9 {
					t.Errorf("weight %d: average %v, want %v", i, got, want)
				}
			}
		})
	}
}
