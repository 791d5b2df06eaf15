package additive

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// kinked is a loss without a slope or a curvature at some targets.
type kinked struct{ loss.LogisticGaussian }

func (kinked) At(y, f, v float64) (value, df, dv float64) {
	switch y {
	case 2:
		return 1, math.NaN(), 0.1
	case 3:
		return 1, 0.1, math.NaN()
	case 4:
		return 1, math.Inf(1), 0.1
	case 5:
		return 1, 0.1, math.Inf(1)
	}
	return loss.LogisticGaussian{}.At(y, f, v)
}

// TestKinksChangeNothing checks that an event whose loss has no slope or no curvature changes no weight.
func TestKinksChangeNothing(t *testing.T) {
	e := newTested(kinked{}, 0.1, 1, 7)
	learn := func(y float64) {
		e.Score([]int{0}, []float64{1.5}, []float64{0.2})
		e.learn([]float64{y}, 1, 1)
	}
	for range 10 {
		learn(1)
	}
	state := func() []byte {
		c := &coder.Coder{}
		e.State(c)
		return c.Out
	}
	before := state()
	for y := 2.0; y <= 5; y++ {
		if learn(y); !slices.Equal(before, state()) {
			t.Fatalf("target %v: the state has changed", y)
		}
	}
	if learn(1); slices.Equal(before, state()) {
		t.Error("an event that is at no kink changes nothing")
	}
}
