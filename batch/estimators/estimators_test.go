package estimators_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/batch/estimators"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestSupportsSplines checks, for every loss and noise, that SupportsSplines returns true exactly if Train accepts Data
// with splines.
func TestSupportsSplines(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.AddField(event.Field{Name: "x", Kind: event.Numeric})
	fit := batch.Standardizer{Mode: model.StandardizeAuto, Presence: true}
	var b batch.Builder
	for i := range 40 {
		e := event.Example{Label: i % 2, Weight: 1}
		if i%3 > 0 {
			e.Features = event.Vec{Index: []uint32{7}, Value: []float64{r.NormFloat64()}}
			e.Field = []uint16{1}
		}
		fit.Observe(&e, schema)
		must.Do(t, b.Add(&e))
	}
	d, _ := must.Get2(fit.Fit(b.Data(schema)))(t)
	refused := 0
	for _, name := range batch.LossNames(estimators.All()) {
		if name == "dropsvm" {
			continue // Train does not solve kernel machines
		}
		c := batch.DefaultConfig()
		c.Estimators = estimators.All()
		for _, level := range []string{"", "0.5", "1.5", "3"} {
			if c.Loss = name + level; c.Check() == nil {
				break
			}
		}
		for _, noise := range []string{"none", "dropout:0.3", "gaussian:0.5", "poisson"} {
			for copies := range 2 {
				c.Noise, c.Copies = noise, copies
				if err := c.Check(); err != nil {
					continue
				}
				_, err := batch.Train(t.Context(), d, c)
				if says := err != nil && strings.Contains(err.Error(), "splines"); says == c.SupportsSplines() {
					t.Errorf("%s, %s, %d copies: bends %v, training says %v", c.Loss, noise, copies, c.SupportsSplines(), err)
				} else if says {
					refused++
				}
			}
		}
	}
	must.True(t, refused >= 20, "%d combinations are refused", refused)
}

// TestBounds checks that every loss accepts the name of its default bound. A loss must reject the name of any bound
// that it does not have.
func TestBounds(t *testing.T) {
	var b batch.Builder
	for i := range 30 {
		x := event.Vec{Index: []uint32{uint32(1 + i%2), uint32(3 + i%3)}, Value: []float64{1, 0.5}}
		must.Do(t, b.Add(&event.Example{Features: x, Label: i % 2, Weight: 1}))
	}
	d := b.Data(event.NewSchema(8, []string{"3", "5"}, 2))
	train := func(loss, bound string) (*batch.Fit, error) {
		c := batch.DefaultConfig()
		c.Estimators, c.Loss, c.Bound = estimators.All(), loss, bound
		return batch.Train(t.Context(), d, c)
	}
	for _, c := range [][2]string{{"ramp", "gaussian"}, {"fdrop:2", "gaussian"}, {"exponential", "gaussian"}, {"exponential", "mcf"}} {
		plain := must.Get(train(c[0], ""))(t)
		named, err := train(c[0], c[1])
		if err != nil {
			t.Errorf("%s with bound %s: %v", c[0], c[1], err)
		} else if plain.Objective != named.Objective || plain.Model.Loss != named.Model.Loss {
			t.Errorf("%s: %s %v, with bound %s %s %v", c[0], plain.Model.Loss, plain.Objective, c[1], named.Model.Loss, named.Objective)
		}
	}
	for _, c := range [][2]string{{"ramp", "mcf"}, {"exponential", "chen"}} {
		must.ErrorContains(t, must.Err(train(c[0], c[1])), "no bound "+c[1], c[0], "with bound", c[1])
	}
	fit, err := train("logistic", "mcf")
	must.True(t, err == nil && fit.Model.Loss == "logistic:mcf", "%v, %v", fit, err)
}
