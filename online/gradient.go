package online

import (
	"fmt"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// This file chooses the gradient of the optimizer dropout-descent.

// NoisyGradient says which gradient the optimizer dropout-descent takes: "auto", "true" or "false".
type NoisyGradient string

// AutoGradient is what suits the loss: the clean gradient under the quadratic noising penalty, else
// the noisy one.
const AutoGradient NoisyGradient = "auto"

// MarshalTOML writes "auto" or a truth value.
func (n NoisyGradient) MarshalTOML() ([]byte, error) {
	if n == AutoGradient {
		return []byte(`"auto"`), nil
	}
	return []byte(n), nil
}

// UnmarshalTOML reads what MarshalTOML writes, and a truth value as text.
func (n *NoisyGradient) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case bool:
		*n = NoisyGradient(strconv.FormatBool(v))
		return nil
	case string:
		if v == "auto" || v == "true" || v == "false" {
			*n = NoisyGradient(v)
			return nil
		}
	}
	return fmt.Errorf(`%v: want "auto", true or false`, value)
}

// Noisy reports whether the gradient is that of the loss's expectation under the noise. The clean one
// is Wager's rule: the noise is in the preconditioner alone. Under the quadratic noising penalty
// the noisy gradient grows with the weights faster than that preconditioner, and diverges.
func (c *Config) Noisy() bool {
	switch {
	case c.Optimizer != "dropout-descent":
		return true
	case c.NoisyGradient != AutoGradient:
		return c.NoisyGradient == "true"
	}
	l, err := loss.Parse(c.Loss)
	return err != nil || l != loss.Loss(loss.LogisticQuadratic{}) && l != loss.Loss(loss.PoissonQuadratic{})
}

// checkGradient refuses a choice that means nothing.
func (c *Config) checkGradient() error {
	switch c.NoisyGradient {
	case AutoGradient:
		return nil
	case "true", "false":
		if c.Optimizer == "dropout-descent" {
			return nil
		}
		return event.KeyErrorf("noisy_gradient", "noisy_gradient = %s: it is for rule dropout-descent; rule %s learns the loss's expectation under the noise (noise = \"none\" for the clean loss)", c.NoisyGradient, c.Optimizer)
	}
	return event.KeyErrorf("noisy_gradient", "noisy_gradient = %q: want \"auto\", true or false", c.NoisyGradient)
}
