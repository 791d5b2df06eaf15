package conformal_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/online/conformal"
)

// TestRecentCoverageOfAClass checks that the reported recent coverage is over about two thousand events, with and
// without a group of learners.
func TestRecentCoverageOfAClass(t *testing.T) {
	r, alone, fold := rand.New(rand.NewPCG(15, 16)), conformal.New(0.9), conformal.New(0.9)
	part := conformal.New(0.9)
	for n := range 30_000 {
		x := conformal.Score{Class: 1, Came: true, First: n < 24_000, Value: r.ExpFloat64()}
		alone.Take(0, x)
		if part.Add(0, x); n%50 == 49 {
			base := conformal.New(0.9).Sums()
			fold.Merge(base, part.Sums())
			state := &coder.Coder{}
			fold.State(state)
			part = conformal.New(0.9)
			part.State(coder.Read(state.Out))
		}
	}
	for name, c := range map[string]*conformal.Predictor{"alone": alone, "in a group": fold} {
		if x := c.ByClass([]string{"a"})[0]; math.Abs(x.Recent-0.9) > 0.03 || x.Coverage < 0.96 {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
