package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/online"
	"blankout/online/synthetic"
)

// The named answering level has the largest share, and is never none. Corrections of the mixture by the expert of
// numbers are shown as such.
func TestExpertsOfCorrections(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	l := mustNew(t, online.DefaultConfig(), 2)
	corrected := 0.0
	for range 3000 {
		e := synthetic.Drawn(r)
		x := e.Features.Value[0]
		if e.Label = 0; math.Abs(x) > 1 {
			e.Label = 1 // only a curve can express it
		}
		l.Learn(e, nil)
	}
	m := l.Report()
	levels, named := 0.0, -1.0
	for _, x := range m.Experts {
		if x.Corrects {
			corrected += x.Share
			continue
		}
		levels += x.Share
		if x.Name == m.Level {
			named = x.Share
		}
	}
	if math.Abs(levels-1) > 1e-9 || corrected < .5 || corrected > 1+1e-9 {
		t.Errorf("levels have %v, corrections %v: %+v", levels, corrected, m.Experts)
	}
	for _, x := range m.Experts {
		if !x.Corrects && x.Share > named || named <= 0 {
			t.Errorf("%s answers with a share of %v: %+v", m.Level, named, m.Experts)
		}
	}
}
