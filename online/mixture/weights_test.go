package mixture_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/mixture"
)

var prior, scales = []float64{0.8, 0.1, 0.1}, []float64{0.7, 1, 1.4}

// TestTableScales checks the scale factors that noise levels get. The mean factor must be below 1 for overconfident
// levels, and above 1 for underconfident levels.
func TestTableScales(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, right := range []float64{0.7, 1, 1.4} {
		table := mixture.NewTable([]float64{0.5, 0.5}, scales, model.PolicyWeights{1, 0, 0})
		if sum := table.InForce[0].Levels[0] + table.InForce[0].Levels[1]; math.Abs(sum-(0.8+0.1*(0.7+1.4))) > 1e-12 {
			t.Errorf("levels begin with %v in all", sum)
		}
		for range 4000 {
			score := 2 * r.NormFloat64()
			label := r.Float64() < 1/(1+math.Exp(-right*score))
			var losses []float64
			for _, level := range []float64{1, 0.1} { // the second noise level's scores are near 0
				for _, scale := range scales {
					f := scale * level * score
					if !label {
						f = -f
					}
					losses = append(losses, math.Log1p(math.Exp(-f)))
				}
			}
			table.TakeLevels(0, losses)
		}
		table.Apply()
		if got := table.InForce[0].Levels; math.Abs(got[0]-right) > 0.13 || got[1] > 0.1 {
			t.Errorf("scores that should count %v times count %v", right, got)
		}
	}
}

// TestTableSecondOrder checks the mixture weight of a second-order expert, relative to the mixed noise levels, by
// range. Before any evidence a range with missing fields has a small weight, and then starts with the weight for complete
// events. The weight must be part of the state.
func TestTableSecondOrder(t *testing.T) {
	rules := model.PolicyWeights{0.01, 0.09, 0.9}
	make := func() *mixture.Table {
		t := mixture.NewTable(prior, scales, rules)
		t.AddSecond(0.3)
		return t
	}
	table := make()
	for r := range mixture.Ranges {
		want := 0.03
		if r == 0 {
			want = 0.3
		}
		if got := table.InForce[r].Second; math.Abs(got-want) > 1e-12 {
			t.Errorf("range %d begins with %v, want %v", r, got, want)
		}
	}
	for range 300 {
		table.TakeSecond(0, 1, 0.9)
	}
	for range 300 {
		table.TakeSecond(2, 0.9, 1.2)
	}
	table.TakeSecond(1, 1, 1)
	table.Apply()
	whole, own := table.InForce[0].Second, table.InForce[2].Second
	if first := table.InForce[1].Second; math.Abs(first-whole) > 0.05 {
		t.Errorf("after one event a range has the share %v, and complete events have %v", first, whole)
	}
	if whole < 0.9 || own > 0.3 || table.InForce[3].Second != whole {
		t.Errorf("the shares are %v, %v where it does badly, and %v where nothing is known", whole, own, table.InForce[3].Second)
	}
	if !slices.Equal(table.InForce[0].Levels, mixture.NewTable(prior, scales, rules).InForce[0].Levels) {
		t.Error("the shares of the levels have moved")
	}
	c := &coder.Coder{}
	table.State(c)
	again, d := make(), coder.Read(c.Out)
	if again.State(d); !d.Done() {
		t.Fatal("a state is not read")
	}
	for range 5 {
		table.TakeSecond(2, 1, 0)
		again.TakeSecond(2, 1, 0)
	}
	table.Apply()
	again.Apply()
	if a, b := table.InForce[2].Second, again.InForce[2].Second; a != b || a == own {
		t.Errorf("the share is %v, and %v of the one that was read", a, b)
	}
	d = coder.Read(c.Out)
	if mixture.NewTable(prior, scales, rules).State(d); d.Done() {
		t.Error("a table without an expert takes the state")
	}
	table.RemoveSecond()
	if table.Apply(); table.InForce[0].Second != 0 {
		t.Error("it is still there")
	}
}
