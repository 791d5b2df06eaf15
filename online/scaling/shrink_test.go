package scaling

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/model"
)

// TestCounterDoesNotShrink checks that a column restarts if samples span a thousandth of its scale. A column must not
// restart if the readings in its samples ascend or descend, like the readings of a counter that is often reset.
func TestCounterDoesNotShrink(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(r *rand.Rand, i int) float64
		want  bool
	}{
		{"readings", func(r *rand.Rand, _ int) float64 { return r.Float64() }, true},
		{"ascending", func(_ *rand.Rand, i int) float64 { return float64(i%model.FirstReadings) / model.FirstReadings }, false},
		{"descending", func(_ *rand.Rand, i int) float64 { return -float64(i%model.FirstReadings) / model.FirstReadings }, false},
		{"drifting", func(r *rand.Rand, i int) float64 { return r.Float64() + float64(i)/8 }, false},
	} {
		s, r := New(Settings{}, model.StandardizeAuto, false), rand.New(rand.NewPCG(1, 2))
		stats, shrinks := make([]float64, model.ScalerWidth), false
		s.Scaler.Set(stats, 2100, 0, 2100*1e6, 0)
		for i := range 20 * model.FirstReadings {
			shrinks = s.sample(5, stats, c.value(r, i)) != nil || shrinks
		}
		if shrinks != c.want {
			t.Errorf("%s: shrinks: %v", c.name, shrinks)
		}
	}
}
