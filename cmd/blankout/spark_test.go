package main

import (
	"math"
	"testing"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, ""}, {[]float64{0, 0}, "▁▁"}, {[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8}, "▁▂▃▄▅▆▇██"},
		{[]float64{-1, 5}, "▁█"}, {[]float64{1e-300, 1e300}, "▁█"}, {[]float64{2}, "█"}, {[]float64{math.NaN()}, "▁"},
	} {
		if got := sparkline(c.values); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}
