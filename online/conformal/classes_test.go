package conformal_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/online/conformal"
)

// TestRecentCoverageOfAClass checks that the reported recent coverage is over about two thousand events.
func TestRecentCoverageOfAClass(t *testing.T) {
	r, c := rand.New(rand.NewPCG(15, 16)), conformal.New(0.9)
	for n := range 30_000 {
		c.Take(0, conformal.Score{Class: 1, Came: true, First: n < 24_000, Value: r.ExpFloat64()})
	}
	if x := c.ByClass([]string{"a"})[0]; math.Abs(x.Recent-0.9) > 0.03 || x.Coverage < 0.96 {
		t.Errorf("%+v", x)
	}
}
