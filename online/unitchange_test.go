package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/online"
)

// unitSensors draws an event with three numbers in very different units, and a class that depends on them. Every
// reading is multiplied by unit.
func unitSensors(r *rand.Rand, unit float64) *event.Example {
	x, z, q := 50+3*r.NormFloat64(), 0.002*r.NormFloat64(), r.NormFloat64()
	label := 0
	if r.Float64() < 1/(1+math.Exp(-0.8*(x-50)-900*z+1.2*math.Abs(q)-1)) {
		label = 1
	}
	return eventtest.Event(label, x*unit, z*unit, q*unit)
}

// TestScalesComeDown checks that a scale that is too large decreases again. The stream starts in another unit or with
// outliers, in labeled or unlabeled events. A few thousand events later the error must be as low as for a stream
// without such a start.
func TestScalesComeDown(t *testing.T) {
	longtest.NotRaced(t)
	type start struct {
		events    int
		unit      float64
		unlabeled bool
	}
	tested := func(start start) (lost float64) {
		l, r := newLearner(t, online.DefaultConfig(), eventtest.Schema(3, "", "a", "b")), rand.New(rand.NewPCG(3, 4))
		for i := range 14000 + start.events {
			e := unitSensors(r, 1)
			if i < start.events {
				if e = unitSensors(r, start.unit); start.unlabeled {
					e.Label = event.Unlabeled
				}
			}
			l.Learn(e, nil)
		}
		m, test := l.Snapshot().Model(), rand.New(rand.NewPCG(5, 6))
		for range 3000 {
			e := unitSensors(test, 1)
			f := m.Score(e, make([]float64, 1))[0]
			if e.Label == 0 {
				f = -f
			}
			lost += math.Log1p(math.Exp(-f)) / 3000
		}
		return lost
	}
	clean := tested(start{})
	for i, s := range []start{{3, 1e22, false}, {500, 1000, false}, {1500, 1000, false}, {3000, 1000, false}, {2300, 1e22, false}, {3000, 1e-3, false}, {3000, 100, false}, {3000, 1e22, true}, {3000, 1000, true}} {
		if !longtest.Some(i, 2) {
			continue
		}
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			if lost := tested(s); lost > clean+0.006 {
				t.Errorf("log-loss %.4f, without the first events %.4f", lost, clean)
			}
		})
	}
}
