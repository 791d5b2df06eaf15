package online_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
)

// extremes makes events with extreme valid values, targets and weights.
type extremes struct {
	r     *rand.Rand
	wild  float64 // fraction of numbers with extreme values
	event event.Example
}

func (x *extremes) number() float64 {
	switch {
	case x.r.Float64() >= x.wild:
		return math.Exp(3 + 2*x.r.NormFloat64()) // log-normal, like amounts of money
	case x.r.IntN(2) == 0:
		return math.Copysign(event.MaxMagnitude, x.r.NormFloat64())
	}
	return x.r.NormFloat64() * math.Pow(10, float64(x.r.IntN(60)-30))
}

func (x *extremes) next(classes int, counts bool) *event.Example {
	e := &x.event
	*e = event.Example{Features: event.Vec{Index: e.Features.Index[:0], Value: e.Features.Value[:0]}, Field: e.Field[:0], Weight: 1, Label: x.r.IntN(classes)}
	for c := range uint32(6) {
		if x.r.IntN(5) > 0 {
			eventtest.Put(e, c, x.number(), uint16(c))
		}
	}
	if x.r.IntN(20) == 0 {
		e.Weight = []float64{1e-30, 0.3, 7, 1e6, event.MaxMagnitude}[x.r.IntN(5)]
	}
	e.Target = x.number()
	if counts {
		if e.Target = math.Floor(math.Abs(e.Target)); x.r.IntN(2) == 0 {
			e.Target = float64(x.r.IntN(4))
		}
	}
	return e
}

// TestNothingOverflows checks that valid events never make a number in the state infinite or NaN. A state with such a
// number could not be saved.
func TestNothingOverflows(t *testing.T) {
	noises, scalings := []string{"none", "dropout:0.5"}, []string{"auto", "none"}
	if longtest.Asked() {
		noises, scalings = append(noises, "auto", "gaussian:0.3", "poisson", "dropout:0.2+group:0.4"), append(scalings, "all", "scale")
	} else if longtest.Race { // checks for data races between learners
		noises, scalings = noises[1:], scalings[:1]
	}
	for i, rule := range optimizers.Table {
		for j, name := range []string{"hinge", "squared-hinge", "logistic", "logistic:quadratic-noising", "quadratic", "probit", "erf", "t-logistic:1.5", "squared", "absolute", "quantile:0.9", "huber:1", "poisson", "poisson:quadratic-noising"} {
			for k, noise := range noises {
				for m, standardize := range scalings {
					c := online.DefaultConfig()
					c.Optimizer, c.Loss, c.Noise, c.Standardize = rule.Name, name, noise, standardize
					if rule.Name == "irls" {
						c.IRLSBatch = 40
					}
					if c.Check() != nil || (i+j+k+m)%2 > 0 { // pairs every optimizer and loss with every noise and scaling
						continue
					}
					if !longtest.Some(i+j/2+m, 2) {
						continue // one of each is enough
					}
					t.Run(fmt.Sprint(rule.Name, "/", name, "/", noise, "/", standardize), func(t *testing.T) {
						t.Parallel()
						schema := synthetic.FieldsSchema(6)
						if target := loss.LabelsOf(name); target != loss.Sign {
							schema = synthetic.NumberSchema(target)
							schema.Fields = synthetic.FieldsSchema(6).Fields
						}
						l := must.Get(online.New(c, schema))(t)
						x := extremes{r: rand.New(rand.NewPCG(1, 2))}
						for i := range 1300 {
							if x.wild = 0.3; i < 1050 {
								x.wild = 0.005
							}
							e := x.next(2, schema.Target == loss.Count)
							if noise == "poisson" {
								for j, v := range e.Features.Value {
									e.Features.Value[j] = math.Abs(v)
								}
							}
							for _, f := range l.Learn(e, nil).Scores {
								if math.IsNaN(f) || math.IsInf(f, 0) {
									t.Fatalf("event %d scores %v", i, f)
								}
							}
						}
						blocks, err := l.Snapshot().Blocks()
						if err == nil {
							_, err = online.Restore(c, blocks)
						}
						if err != nil {
							t.Error(err)
						}
						if _, err := json.Marshal(l.Report()); err != nil {
							t.Error(err)
						}
						if _, err := json.Marshal(l.Snapshot().Model().Head); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	}
}
