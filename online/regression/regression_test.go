package regression

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
)

// TestSpread checks that outliers do not change the spread of a sample if at most one number in sixteen is an outlier.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{3, 8, 15, 16, 40, sampleSize} {
		sample := must.List(n, func(int) float64 { return 5 + 2*r.NormFloat64() })
		for i := range max(1, n/16) {
			sample[i] = 1e30
		}
		s := spreadOf(sample)
		must.True(t, !s.inflated() && s.scale() <= 6 && math.Abs(s.median-5) <= 3, "%d numbers: %+v", n, s)
	}
	zeros := make([]float64, sampleSize)
	zeros[3], zeros[9] = 7, 9
	s := spreadOf(zeros)
	must.True(t, s.inflated() && s.others == 8 && s.differ == 2 && math.Abs(s.scale()-8*math.Sqrt(2./64)) <= 1e-12, "zeros: %+v", s)
	s = spreadOf(nil)
	must.True(t, s.scale() == 0, "nothing: %+v", s)
}

// TestUnit checks that the unit equals the mean and deviation of the targets, or the mean of counts, to within a tenth.
// It must change rarely, and an outlier must change it only a little. Converting a target to the unit and back must
// return the target.
func TestUnit(t *testing.T) {
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		r := rand.New(rand.NewPCG(1, 2))
		u, moves := NewUnit(of, 0), 0
		for i := range 4096 {
			y := math.Floor(50 + 10*r.NormFloat64())
			if i == 4000 {
				y = 1e9
			}
			switch next, change := u.Observe(y, 1); change {
			case Moves:
				u.Move(next, loss.Linear{}, false)
				moves++
			case Follows:
				u = next
				moves++
			}
		}
		center, scale := 50.0, 10.0
		if of == loss.Count {
			center, scale = 0, 50
		}
		must.True(t, math.Abs(u.Center-center) <= 1 && math.Abs(u.Scale-scale) <= 0.15*scale && moves <= 20, "%v: center %v, scale %v after %d moves", of, u.Center, u.Scale, moves)
		got := u.Score(u.Own(3))
		must.True(t, math.Abs(got-3) <= 1e-12, "%v: 3 has become %v", of, got)
		must.True(t, of != loss.Real || math.Abs(u.Value(u.Standard(61))-61) <= 1e-12, "61 has become %v", u.Value(u.Standard(61)))
	}
}

// TestMove checks that scores predict the same value after conversion with the result of Move.
func TestMove(t *testing.T) {
	for _, of := range []loss.Target{loss.Real, loss.Count} {
		u := NewUnit(of, 0)
		for range 100 {
			u.Observe(7, 1)
		}
		next, f := u, 0.3
		if next.Scale = 3; of == loss.Real {
			next.Center = 5
		}
		was := u.Value(f)
		factor, shift, _ := u.Move(next, loss.Linear{}, false)
		is := u.Value(factor*f + shift)
		must.True(t, math.Abs(is-was) <= 1e-12, "%v: %v has become %v", of, was, is)
	}
}
