package validate

// This file holds the settings of validations.

import (
	"fmt"
	"math"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/online"
)

// Config is the section [validate] of the configuration: how a run compares its live model with the exact solution.
// config/blankout.toml explains each key. The comments here add what Go callers need.
type Config struct {
	// Holdout is the argument k of the function HeldOut.
	Holdout      uint64 `toml:"holdout"`
	Events       Events `toml:"events"`
	HoldoutTopic string `toml:"holdout_topic"`
	Window       uint64 `toml:"window"`
	// Reservoir is the size of a Reservoir in events. The events of the Reservoir replace the log if the log has fewer
	// than half of the learned events. 0 means no Reservoir.
	Reservoir int `toml:"-"`
	// CPU is the fraction of one processor that validation may use while learning proceeds, in (0, 1].
	CPU float64 `toml:"-"`
	// Policy is "observe" or "alarm".
	Policy string  `toml:"policy"`
	MaxGap float64 `toml:"max_gap"`
	Tol    float64 `toml:"-"`
}

// Events is the number of records between validations. 0 means no validations; AutoEvents means the schedule of Auto.
type Events uint64

// AutoEvents is the value that is written as "auto".
const AutoEvents Events = math.MaxUint64

// MarshalTOML writes "auto" or a number.
func (n Events) MarshalTOML() ([]byte, error) {
	if n == AutoEvents {
		return []byte(`"auto"`), nil
	}
	return strconv.AppendUint(nil, uint64(n), 10), nil
}

// UnmarshalTOML parses the forms that MarshalTOML writes, and a number in quotes.
func (n *Events) UnmarshalTOML(value any) error {
	text := fmt.Sprint(value)
	if text == "auto" {
		*n = AutoEvents
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf(`%v: want "auto", or a number of records, 0 for never`, value)
	}
	*n = Events(number)
	return nil
}

// reported is the number of features in a report.
const reported = 20

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config {
	return Config{Events: AutoEvents, Window: 1_000_000, Reservoir: 1000, CPU: failpoint.Number("validate.cpu", 0.5), Policy: "observe", MaxGap: 0.1, Tol: failpoint.Number("validate.tol", 1e-6)}
}

// Check returns an error for the first invalid value, with its key.
func (c Config) Check() error {
	switch {
	case c.Holdout == 1:
		return event.KeyErrorf("holdout", "holdout 1: nothing would be learned; want 0 (none) or at least 2")
	case c.Policy != "observe" && c.Policy != "alarm":
		return event.KeyErrorf("policy", "policy %q: want observe or alarm", c.Policy)
	case !(c.MaxGap >= 0):
		return event.KeyErrorf("max_gap", "max_gap %v: want a number, at least 0", c.MaxGap)
	}
	return nil
}

// Fingerprint returns the settings that define the meaning of the weights. They determine which records are held out.
func (c Config) Fingerprint() online.Fingerprint {
	f := online.Fingerprint{}
	if c.Holdout > 0 {
		f["holdout"] = fmt.Sprint(c.Holdout)
	}
	return f
}

// As returns c with the settings of a Fingerprint.
func (c Config) As(f online.Fingerprint) (Config, error) {
	if text := f["holdout"]; text != "" {
		var err error
		if c.Holdout, err = strconv.ParseUint(text, 10, 64); err != nil {
			return c, fmt.Errorf("holdout: %w", err)
		}
	}
	return c, c.Check()
}
