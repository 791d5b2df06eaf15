package online

import (
	"math"
	"strings"
	"testing"
	"time"
)

// What makes no sense is refused by its name, what is at the bounds is taken.
func TestValidateConfigCheck(t *testing.T) {
	adopt := func(c *ValidateConfig) { c.Policy, c.Events, c.Window = "adopt", 1000, 0 }
	for _, tt := range []struct {
		want string // "" is taken
		edit func(c *ValidateConfig)
	}{
		{"", func(*ValidateConfig) {}},
		{"", func(c *ValidateConfig) { c.Holdout, c.CPU, c.Reservoir, c.MaxGap, c.Top = 2, 1, 1_000_000, 0, 1 }},
		{"", func(c *ValidateConfig) { c.Reservoir, c.CPU = 0, 0.01 }},
		{"", adopt},
		{"holdout 1", func(c *ValidateConfig) { c.Holdout = 1 }},
		{"validation_cpu 0", func(c *ValidateConfig) { c.CPU = 0 }},
		{"validation_cpu 1.1", func(c *ValidateConfig) { c.CPU = 1.1 }},
		{`policy "hope"`, func(c *ValidateConfig) { c.Policy = "hope" }},
		{"interval", func(c *ValidateConfig) { c.Interval = -1 }},
		{"window_time", func(c *ValidateConfig) { c.WindowTime = -1 }},
		{"reservoir -1", func(c *ValidateConfig) { c.Reservoir = -1 }},
		{"reservoir 1000001", func(c *ValidateConfig) { c.Reservoir = 1_000_001 }},
		{"max_gap", func(c *ValidateConfig) { c.MaxGap = math.NaN() }},
		{"tol 0", func(c *ValidateConfig) { c.Tol = 0 }},
		{"tol 1", func(c *ValidateConfig) { c.Tol = 1 }},
		{"top 0", func(c *ValidateConfig) { c.Top = 0 }},
		{"policy adopt: set events", func(c *ValidateConfig) { adopt(c); c.Events = 0 }},
		{"policy adopt: what is adopted", func(c *ValidateConfig) { adopt(c); c.Interval = time.Second }},
		{"policy adopt: only a solution over all records is adopted, window_time", func(c *ValidateConfig) { adopt(c); c.WindowTime = time.Second }},
		{"policy adopt: only a solution over all records is adopted, window 5", func(c *ValidateConfig) { adopt(c); c.Window = 5 }},
	} {
		c := DefaultValidateConfig()
		tt.edit(&c)
		if err := c.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", c, err, tt.want)
		}
	}
}

// A forecast is a mean over its first samples and then over about the latest
// forecastMemory of them.
func TestForecastKeeps(t *testing.T) {
	var f forecast
	last := 0.0
	for _, samples := range []float64{0, 100, 1000, 10_000} {
		f.samples[3] = samples
		keep := f.keep(3)
		if want := 1 - 1/(8+samples/forecastShare); math.Abs(keep-want) > 1e-15 || !(keep > last) {
			t.Errorf("after %v samples the next one leaves %v, want %v", samples, keep, want)
		}
		last = keep
	}
	f.samples[3] = 1e12
	if keep := f.keep(3); keep != 1-1.0/forecastMemory {
		t.Errorf("in the end a sample leaves %v", keep)
	}
}
