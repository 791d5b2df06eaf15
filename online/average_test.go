package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online/rules"
)

// The lazy average against one that is written down weight by weight:
//
//	a_t = (1 - beta_t) a_{t-1} + beta_t w_t,  beta_t = (1+p)/(t+1+p).
//
// With a small share the coefficient of the lags falls below the smallest number that
// there is, unless it is brought back to 1 on the way. In a stream that
// stands still the average reaches back 2.5 times as far.
func TestAverageAgainstItsDefinition(t *testing.T) {
	longtest.NotRaced(t)
	type test struct {
		name   string
		share  float64
		adapt  bool
		events int
		rule   string
	}
	tests := []test{{"small share", 0.005, false, 4500, "adagrad"}, {"at rest", 0.15, true, 8000, "adagrad"}}
	for _, rule := range rules.Names() { // each must keep its lags; irls makes no steps
		if rule != "irls" {
			tests = append(tests, test{rule, 0.15, false, 1000, rule})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			c.Noise, c.Standardize, c.Average, c.Adapt, c.LearningRate = "none", "none", tt.share, tt.adapt, 1
			if c.Optimizer = tt.rule; c.Optimizer == "dropout-descent" { // which needs a noise
				c.Noise = "dropout:0.3"
			}
			l := mustNew(t, c, 2)
			r := rand.New(rand.NewPCG(3, 4))
			const d = 100
			var a [d + 1]float64 // the intercept comes last
			restarts, lazily, steady, began := 0, 0.0, 0, uint64(0)
			for n := range uint64(tt.events) {
				e := event.Example{Weight: 1}
				f := 0.5
				for i := range uint32(d) {
					x := r.NormFloat64()
					e.Features.Index, e.Features.Value = append(e.Features.Index, i), append(e.Features.Value, x)
					f += x / 8
				}
				if r.Float64() < 1/(1+math.Exp(-f)) {
					e.Label = 1
				}
				l.Learn(&e, nil)
				if l.levels[0].Taken == 0 {
					restarts, began = restarts+1, n+1
				}
				p := 1/tt.share - 1
				if l.levels[0].Steady() {
					p = 1/(2.5*tt.share) - 1
					steady++
				}
				beta := (1 + p) / (float64(n+1-began) + 1 + p)
				lazily += math.Log10(1 - beta)
				for i := range a {
					row := l.bias
					if i < d {
						row = l.table.Row(uint32(i))
					}
					a[i] += beta * (l.weights(row)[0] - a[i])
				}
			}
			switch {
			case restarts > 0:
				t.Fatalf("the average began anew %d times", restarts)
			case tt.share == 0.005 && !(lazily < -320):
				t.Fatalf("the coefficient has only come to 1e%.0f: that needs no bringing back to 1", lazily)
			case tt.adapt && steady < 500:
				t.Fatalf("the stream stood still for %d events only", steady)
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
