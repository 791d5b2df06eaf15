package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBegin checks that Begin sets the mean and deviation of ordinary readings. If a minority of
// the readings are outliers, the result must be close to the mean and deviation of the other readings.
func TestBegin(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var s Scaler
	for range 500 {
		n := 8 + r.IntN(FirstReadings-7)
		x := make([]float64, n)
		sum, squares := 0.0, 0.0
		for i := range x {
			x[i] = 300 + 40*r.NormFloat64()
			sum += x[i]
			squares += x[i] * x[i]
		}
		mean := sum / float64(n)
		deviation := math.Sqrt(squares/float64(n) - mean*mean)
		stats := make([]float64, ScalerWidth)
		s.Begin(stats, float64(n), x, TransformAuto)
		got := s.Standardization(stats)
		if math.Abs(got.Center-mean) > 1e-9*mean || math.Abs(got.Scale/deviation-1) > 1e-9 || got.Transform != "" {
			t.Fatalf("%v: %+v, want %v and %v", x, got, mean, deviation)
		}
		for i := range n / 8 {
			x[i*5] = []float64{1e30, -1e12, 9e18, 1e6}[i%4]
		}
		s.Begin(stats, float64(n), x, TransformNone)
		if got := s.Standardization(stats); math.Abs(got.Center-mean) > 2.5*deviation || got.Scale > 4*deviation || got.Scale < deviation/4 {
			t.Fatalf("with wild ones %v: %+v, without %v and %v", x, got, mean, deviation)
		}
	}
}

// TestPackUnit checks that unitOf returns the packed unit, and that packing hardly changes the scale.
func TestPackUnit(t *testing.T) {
	for exponent := -120; exponent <= 120; exponent++ {
		for _, inverse := range []float64{1e-30, 0.3, 1, 7e20} {
			unit := math.Ldexp(1, exponent)
			packed := packUnit(inverse, unit)
			if unitOf(packed) != unit || math.Abs(-packed/inverse-1) > 1e-12 {
				t.Fatalf("%v of unit %v: %v of unit %v", inverse, unit, packed, unitOf(packed))
			}
		}
	}
	if unitOf(packUnit(2, 0)) != 0 || packUnit(2, 0) != 2 {
		t.Error("no unit is one")
	}
}

// FuzzBegin checks, for any readings, that the statistics are finite and that a standardized value is within its
// bounds.
func FuzzBegin(f *testing.F) {
	f.Add(1.0, 2.0, 1e30, uint8(9), uint8(0))
	f.Add(0.0, 0.0, 1e-300, uint8(32), uint8(1))
	f.Add(-1e30, 1e30, 5e-324, uint8(20), uint8(2))
	f.Fuzz(func(t *testing.T, a, b, c float64, n, which uint8) {
		for _, x := range []float64{a, b, c} {
			if !(math.Abs(x) <= 1e30) {
				return
			}
		}
		count := 1 + int(n)%FirstReadings
		x := make([]float64, count)
		for i := range x {
			x[i] = []float64{a, b, c, a * 0.5}[(i*7+int(n))%4]
		}
		var s Scaler
		stats := make([]float64, ScalerWidth)
		s.Begin(stats, float64(count), x, []Transform{TransformAuto, TransformNone, TransformAsinh}[which%3])
		for range 100 {
			for _, v := range append(x, a, b, c, 1e30, -1e30) {
				if z := s.Apply(stats, v); !(math.Abs(z) <= ScalerClip) {
					t.Fatalf("%v of %v is %v", v, stats, z)
				}
				s.Observe(stats, v, s.Deviations(stats, v))
			}
		}
		for _, v := range stats {
			if v-v != 0 {
				t.Fatalf("statistics %v", stats)
			}
		}
	})
}
