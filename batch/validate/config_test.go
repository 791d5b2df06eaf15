package validate

import (
	"math"
	"strings"
	"testing"
)

// TestConfigCheck checks that invalid settings are rejected with an error that names the setting. The limits of the
// valid ranges must be accepted.
func TestConfigCheck(t *testing.T) {
	adopt := func(c *Config) { c.Policy, c.Events, c.Window = "adopt", 1000, 0 }
	for _, tt := range []struct {
		want string // "" if the settings are valid
		edit func(c *Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Holdout, c.MaxGap = 2, 0 }},
		{"", adopt},
		{"holdout 1", func(c *Config) { c.Holdout = 1 }},
		{`policy "hope"`, func(c *Config) { c.Policy = "hope" }},
		{"max_gap", func(c *Config) { c.MaxGap = math.NaN() }},
		{"adopt_wait", func(c *Config) { c.AdoptWait = -1 }},
		{"policy adopt: set events", func(c *Config) { adopt(c); c.Events = 0 }},
		{"policy adopt: needs a solution over all records; set window = 0, not 5", func(c *Config) { adopt(c); c.Window = 5 }},
	} {
		c := DefaultConfig()
		tt.edit(&c)
		if err := c.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", c, err, tt.want)
		}
	}
}

// TestAs checks that As restores the settings from which a fingerprint was made.
func TestAs(t *testing.T) {
	c := DefaultConfig()
	c.Holdout, c.Policy, c.Events, c.Tol, c.AdoptMargin, c.Window = 7, "adopt", 5000, 1e-9, -1.5, 0
	with := DefaultConfig()
	if got, err := with.As(c.Fingerprint()); err != nil || got != c {
		t.Errorf("got %+v, %v\nwant %+v", got, err, c)
	}
	for key, value := range map[string]string{"holdout": "x", "adopt": "often", "adopt_margin": "x"} {
		if _, err := with.As(map[string]string{key: value}); err == nil {
			t.Errorf("%s = %s is taken", key, value)
		}
	}
}
