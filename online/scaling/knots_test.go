package scaling_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// TestKnotsAgain checks that a column that restarts gets the same number of new knots. An old snapshot must keep the
// old knots.
func TestKnotsAgain(t *testing.T) {
	s, r := scaling.New(scaling.Settings{Expert: func(int) int { return 5 }}, model.StandardizeAuto, false), rand.New(rand.NewPCG(1, 2))
	s.AddField(event.Numeric, model.TransformNone)
	stats := make([]float64, model.ScalerWidth)
	read := func(x float64) {
		s.CountForKnots(&event.Example{}, 9, func() []uint16 { return nil })
		z := s.Scaler.Deviations(stats, x)
		s.Reading(5, 0, x, z)
		s.Observe(5, stats, x, z, scaling.Numeric, 0)
		s.Events++
	}
	for range 3000 {
		read(1000 * r.NormFloat64())
	}
	was := s.Scaler.Splines
	if was == nil || len(was.Knots[0]) != 5 || was.Knots[0][4] < 1000 {
		t.Fatalf("knots %v", was)
	}
	for range 6000 {
		read(r.NormFloat64())
	}
	if now := s.Scaler.Splines; len(now.Knots[0]) != 5 || now.Knots[0][4] > 10 || now.Knots[0][4] < 1 || was.Knots[0][4] < 1000 {
		t.Errorf("knots %v have become %v", was.Knots, now.Knots)
	}
	if scale := s.Scaler.Standardization(stats).Scale; scale > 1.2 || scale < 0.8 {
		t.Errorf("the scale is %v", scale)
	}
	for i := range 6000 { // few different values, but the spline keeps its number of knots
		read(0.001 * float64(i%3))
	}
	if now := s.Scaler.Splines.Knots[0]; len(now) != 5 || now[2] != 0.002 || now[4] <= now[3] {
		t.Errorf("knots of three values: %v", now)
	}
}
