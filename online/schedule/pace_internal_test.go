package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMerge checks that merging an interval gives the same adaptation as learning the events of the interval directly.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	adapt := func(p *Schedule, n int) {
		for range n {
			p.Adapt(1 + r.NormFloat64())
			p.Compare(r.NormFloat64(), 1)
		}
	}
	base, into := New(0.15, true), New(0.15, true)
	adapt(&base, 50)
	into = base
	now := base
	adapt(&now, 30)
	into.Merge(&base, &now, 30, 30)
	for i, x := range [][2]float64{{into.gain, now.gain}, {into.squares, now.squares}, {into.compared, now.compared}, {into.logRate, now.logRate}, {into.square, now.square}} {
		if math.Abs(x[0]-x[1]) > 1e-12*(1+math.Abs(x[1])) {
			t.Errorf("number %d: merged %v, want %v", i, x[0], x[1])
		}
	}
	if now.logRate == base.logRate || now.logRate == 0 {
		t.Error("the rate has not been adapted")
	}
}
