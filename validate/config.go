package validate

// This file holds the settings of validations.

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"blankout"
	"blankout/online"
)

// Config is the section [validate] of the configuration: how a run
// compares its live model with the exact solution. config/blankout.toml says what each
// key means; the comments here say what a program needs beyond that.
type Config struct {
	// Holdout is k of HeldOut.
	Holdout      uint64        `toml:"holdout"`
	Events       uint64        `toml:"events"`
	Interval     time.Duration `toml:"interval"`
	HoldoutTopic string        `toml:"holdout_topic"`
	// WindowTime counts by the events' own time, back from the newest.
	Window     uint64        `toml:"window"`
	WindowTime time.Duration `toml:"window_time"`
	// Reservoir is the size of a Reservoir.
	Reservoir int `toml:"reservoir"`
	// CPU is in (0, 1].
	CPU float64 `toml:"validation_cpu"`
	// Policy is observe, alarm or adopt.
	Policy string  `toml:"policy"`
	MaxGap float64 `toml:"max_gap"`
	// AdoptMargin is about the difference on the newest events (batch.Newest).
	AdoptMargin float64       `toml:"adopt_margin"`
	AdoptWait   time.Duration `toml:"adopt_wait"`
	Tol         float64       `toml:"tol"`
	Top         int           `toml:"top"`
}

// DefaultConfig returns the values of an empty section.
func DefaultConfig() Config {
	return Config{Window: 1_000_000, Reservoir: 1000, CPU: 0.5, Policy: "observe", MaxGap: 0.1, AdoptMargin: 1, AdoptWait: 10 * time.Minute, Tol: 1e-6, Top: 20}
}

// Check reports the first value that makes no sense, with its name in front.
func (c Config) Check() error {
	switch {
	case c.Holdout == 1:
		return blankout.KeyErrorf("holdout", "holdout 1: nothing would be learned; want 0 (none) or at least 2")
	case !(c.CPU > 0 && c.CPU <= 1):
		return blankout.KeyErrorf("validation_cpu", "validation_cpu %v: want a share in (0, 1]", c.CPU)
	case c.Policy != "observe" && c.Policy != "alarm" && c.Policy != "adopt":
		return blankout.KeyErrorf("policy", "policy %q: want observe, alarm or adopt", c.Policy)
	case c.Policy == "adopt" && c.Events == 0:
		return blankout.KeyErrorf("policy", "policy adopt: set events, the number of records after which each exact solution is adopted")
	case c.Interval < 0:
		return blankout.KeyErrorf("interval", "interval %v is negative", c.Interval)
	case c.WindowTime < 0:
		return blankout.KeyErrorf("window_time", "window_time %v is negative", c.WindowTime)
	case c.Reservoir < 0 || c.Reservoir > 1_000_000:
		return blankout.KeyErrorf("reservoir", "reservoir %d: want 0 to 1000000", c.Reservoir)
	case c.Policy == "adopt" && c.Interval > 0:
		return blankout.KeyErrorf("policy", "policy adopt: what is adopted must not depend on the clock; set interval = 0 and events")
	case c.Policy == "adopt" && c.WindowTime > 0:
		return blankout.KeyErrorf("policy", "policy adopt: only a solution over all records is adopted, window_time %v leaves some out; set window_time = 0", c.WindowTime)
	case c.Policy == "adopt" && c.Window > 0:
		return blankout.KeyErrorf("policy", "policy adopt: only a solution over all records is adopted, window %d leaves some out; set window = 0", c.Window)
	case !(c.MaxGap >= 0):
		return blankout.KeyErrorf("max_gap", "max_gap %v: want a number, at least 0", c.MaxGap)
	case math.IsNaN(c.AdoptMargin):
		return blankout.KeyErrorf("adopt_margin", "adopt_margin %v: want a number of standard errors", c.AdoptMargin)
	case c.AdoptWait < 0:
		return blankout.KeyErrorf("adopt_wait", "adopt_wait %v is negative", c.AdoptWait)
	case !(c.Tol > 0 && c.Tol < 1):
		return blankout.KeyErrorf("tol", "tol %v: want a number between 0 and 1", c.Tol)
	case c.Top < 1:
		return blankout.KeyErrorf("top", "top %d: want at least 1", c.Top)
	}
	return nil
}

// Fingerprint returns what of c gives weights their meaning: which records are
// held out, and which exact solutions are adopted.
func (c Config) Fingerprint() online.Fingerprint {
	f := online.Fingerprint{}
	if c.Holdout > 0 {
		f["holdout"] = fmt.Sprint(c.Holdout)
	}
	if c.Policy == "adopt" {
		f["adopt"] = fmt.Sprintf(adoptText, c.Events, c.Tol)
		if c.AdoptMargin != 1 {
			f["adopt_margin"] = fmt.Sprint(c.AdoptMargin)
		}
	}
	return f
}

// As returns c with what a Fingerprint says of such settings. Other settings are made
// to fit them.
func (c Config) As(f online.Fingerprint) (Config, error) {
	if text := f["holdout"]; text != "" {
		var err error
		if c.Holdout, err = strconv.ParseUint(text, 10, 64); err != nil {
			return c, fmt.Errorf("holdout: %w", err)
		}
	}
	if text := f["adopt"]; text != "" {
		if _, err := fmt.Sscanf(text, adoptText, &c.Events, &c.Tol); err != nil {
			return c, fmt.Errorf("adopt %q: %w", text, err)
		}
		c.Policy, c.Interval, c.Window, c.WindowTime = "adopt", 0, 0, 0
	}
	if text := f["adopt_margin"]; text != "" {
		var err error
		if c.AdoptMargin, err = strconv.ParseFloat(text, 64); err != nil {
			return c, fmt.Errorf("adopt_margin: %w", err)
		}
	}
	return c, c.Check()
}

// adoptText is how a Fingerprint tells after how many records, and to which gap,
// solutions are adopted.
const adoptText = "after every %d records, to %g"
