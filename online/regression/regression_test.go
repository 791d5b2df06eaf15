package regression_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/online/regression"
)

// TestUnit checks that the unit equals the mean and deviation of the targets, or the mean of counts, to within a tenth.
// It must change rarely, and an outlier must change it only a little. Converting a target to the unit and back must
// return the target.
func TestUnit(t *testing.T) {
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		r := rand.New(rand.NewPCG(1, 2))
		u, moves := regression.NewUnit(of, 0), 0
		for i := range 4096 {
			y := math.Floor(50 + 10*r.NormFloat64())
			if i == 4000 {
				y = 1e9
			}
			switch next, change := u.Observe(y, 1); change {
			case regression.Moves:
				u.Move(next, loss.Linear{}, false)
				moves++
			case regression.Follows:
				u = next
				moves++
			}
		}
		center, scale := 50.0, 10.0
		if of == loss.Count {
			center, scale = 0, 50
		}
		if math.Abs(u.Center-center) > 1 || math.Abs(u.Scale-scale) > 0.15*scale || moves > 20 {
			t.Errorf("%v: center %v, scale %v after %d moves", of, u.Center, u.Scale, moves)
		}
		if got := u.Score(u.Own(3)); math.Abs(got-3) > 1e-12 {
			t.Errorf("%v: 3 has become %v", of, got)
		}
		if of == loss.Real && math.Abs(u.Value(u.Standard(61))-61) > 1e-12 {
			t.Errorf("61 has become %v", u.Value(u.Standard(61)))
		}
	}
}

// TestMove checks that scores predict the same value after conversion with the result of Move.
func TestMove(t *testing.T) {
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		u := regression.NewUnit(of, 0)
		for range 100 {
			u.Observe(7, 1)
		}
		next, f := u, 0.3
		if next.Scale = 3; of == loss.Real {
			next.Center = 5
		}
		was := u.Value(f)
		factor, shift, _ := u.Move(next, loss.Linear{}, false)
		if is := u.Value(factor*f + shift); math.Abs(is-was) > 1e-12 {
			t.Errorf("%v: %v has become %v", of, was, is)
		}
	}
}
