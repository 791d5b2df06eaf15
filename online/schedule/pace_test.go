package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/online/schedule"
)

// TestPace compares the lazily updated average with its definition, also after a Rebase. If the average is clearly
// better than the iterate, it must cover more of the stream. If it is clearly worse, it must not be published, and must
// restart.
func TestPace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := schedule.New(0.005, true)
	w, lag, want, began, rebased := 0.0, 0.0, 0.0, 0, false
	learn := func(events int, gain float64) {
		for range events {
			if began++; uint64(began)%schedule.Every(uint64(began)) == 0 {
				p.Compare(gain+0.01*r.NormFloat64(), schedule.Every(uint64(began)))
				if p.Choose(); p.Taken == 0 {
					began = 0
				}
			}
			power := 1/0.005 - 1
			if p.Steady() {
				power = 1/(2.5*0.005) - 1
			}
			delta := r.NormFloat64()
			w, lag = w+delta, lag-delta*p.Inverse
			beta := (1 + power) / (float64(p.Taken+1) + 1 + power)
			if want += beta * (w - want); p.Advance() {
				lag, rebased = lag*p.Rebase(), true
			}
			if got := w + p.Coefficient*lag; math.Abs(got-want) > 1e-8 {
				t.Fatalf("after %d steps: average %v, want %v", p.Taken, got, want)
			}
		}
	}
	learn(90, 0)
	if p.Steady() || p.LagWeight() == 0 {
		t.Error("a verdict of nothing")
	}
	learn(4000, -0.1)
	if !rebased || !p.Steady() || p.Rate(1) != 0.8 || p.LagWeight() != p.Coefficient {
		t.Errorf("at rest: rebased %v, steady %v, rate %v", rebased, p.Steady(), p.Rate(1))
	}
	learn(3000, 1)
	if p.LagWeight() != 0 || p.Taken > 4000 || p.Rate(1) != 1 {
		t.Errorf("left behind: share %v of an average of %d steps, rate %v", p.LagWeight(), p.Taken, p.Rate(1))
	}
}
