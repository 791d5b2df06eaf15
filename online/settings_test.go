package online_test

import (
	"math"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// A half-life is at least one event, or 0 for never.
func TestHalfLivesAreChecked(t *testing.T) {
	for _, x := range []float64{-1, 0.5, math.NaN(), math.Inf(1)} {
		for key, set := range map[string]func(*online.Config){
			"half_life": func(c *online.Config) { c.HalfLife = x }, "half_life_time": func(c *online.Config) { c.HalfLifeTime = x },
		} {
			c := online.DefaultConfig()
			set(&c)
			if _, err := online.New(c, event.NewSchema(8, nil, 2)); err == nil || !strings.Contains(err.Error(), key+" = ") {
				t.Errorf("%s = %v: %v", key, x, err)
			}
		}
	}
}
