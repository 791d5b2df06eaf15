package validate

import (
	"math"
	"strings"
	"testing"
)

// TestConfigCheck checks that invalid settings are rejected with an error that names the setting. The limits of the
// valid ranges must be accepted.
func TestConfigCheck(t *testing.T) {
	for _, tt := range []struct {
		want string // "" if the settings are valid
		edit func(c *Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Holdout, c.MaxGap = 2, 0 }},
		{"", func(c *Config) { c.Policy = "alarm" }},
		{"holdout 1", func(c *Config) { c.Holdout = 1 }},
		{`policy "hope"`, func(c *Config) { c.Policy = "hope" }},
		{"max_gap", func(c *Config) { c.MaxGap = math.NaN() }},
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
	c.Holdout = 7
	with := DefaultConfig()
	if got, err := with.As(c.Fingerprint()); err != nil || got != c {
		t.Errorf("got %+v, %v\nwant %+v", got, err, c)
	}
	if _, err := with.As(map[string]string{"holdout": "x"}); err == nil {
		t.Error("holdout = x is taken")
	}
}
