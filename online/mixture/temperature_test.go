package mixture

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTemperature divides log-odds by a factor and checks that Temperature learns that factor. It also checks the
// initial value.
func TestTemperature(t *testing.T) {
	for _, want := range []float64{0.5, 2} {
		r := rand.New(rand.NewPCG(3, 4))
		var c Temperature
		for range 20_000 {
			f, y := 2*r.NormFloat64(), -1.0
			if r.Float64() < 1/(1+math.Exp(-want*f)) {
				y = 1
			}
			c.Learn(func(factor float64) float64 { return math.Log1p(math.Exp(-y * factor * f)) })
		}
		if c := NewTemperature(want); math.Abs(c.Factor()-want) > 1e-12 {
			t.Errorf("one of %v begins with %v", want, c.Factor())
		}
		if got := c.Factor(); math.Abs(got/want-1) > 0.1 {
			t.Errorf("the factor is %v, want %v", got, want)
		}
	}
}

// TestTemperatureOfInfiniteLosses checks that a gradient that is NaN or infinite does not change a temperature.
func TestTemperatureOfInfiniteLosses(t *testing.T) {
	for name, lost := range map[string]func(factor float64) float64{
		"no number":        func(float64) float64 { return math.NaN() },
		"above all bounds": func(factor float64) float64 { return map[bool]float64{true: math.Inf(1), false: 1}[factor > 1.5] },
		"below":            func(factor float64) float64 { return map[bool]float64{true: math.Inf(-1), false: 1}[factor > 1.5] },
	} {
		tm := NewTemperature(1.5)
		tm.Learn(lost)
		if tm != NewTemperature(1.5) {
			t.Errorf("%s: %+v", name, tm)
		}
		for range 100 {
			tm.Learn(func(factor float64) float64 { return factor })
		}
		if !(tm.Factor() < 1.4 && tm.Factor() > 0) {
			t.Errorf("%s: afterwards the factor is %v", name, tm.Factor())
		}
	}
}
