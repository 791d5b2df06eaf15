package online

import (
	"fmt"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// This file selects the gradient of the optimizer dropout-descent.

// NoisyGradient selects the gradient of the optimizer dropout-descent: "auto", "true" or "false".
type NoisyGradient string

// AutoGradient selects the gradient without noise for the quadratic noising penalty, and the noisy gradient for other
// losses.
const AutoGradient NoisyGradient = "auto"

// MarshalTOML returns "auto" or a boolean.
func (n NoisyGradient) MarshalTOML() ([]byte, error) {
	if n == AutoGradient {
		return []byte(`"auto"`), nil
	}
	return []byte(n), nil
}

// UnmarshalTOML accepts the result of MarshalTOML, and a boolean as a string.
func (n *NoisyGradient) UnmarshalTOML(value any) error {
	text := fmt.Sprint(value)
	if text != "auto" && text != "true" && text != "false" {
		return fmt.Errorf(`%v: want "auto", true or false`, value)
	}
	*n = NoisyGradient(text)
	return nil
}

// Noisy reports whether the optimizer uses the gradient of the expected loss under the noise. If not, it works as in
// Wager et al.: with the gradient without noise, and a preconditioner that depends on the noise. Under the quadratic
// noising penalty the noisy gradient diverges, because it grows faster with the weights than the preconditioner.
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

// checkGradient rejects a noisy_gradient that has no effect.
func (c *Config) checkGradient() error {
	switch c.NoisyGradient {
	case AutoGradient:
		return nil
	case "true", "false":
		if c.Optimizer == "dropout-descent" {
			return nil
		}
		return event.KeyErrorf("noisy_gradient", "noisy_gradient = %s: needs optimizer dropout-descent; %s minimizes the expected loss under the noise (use noise = \"none\" for the clean loss)", c.NoisyGradient, c.Optimizer)
	}
	return event.KeyErrorf("noisy_gradient", "noisy_gradient = %q: want \"auto\", true or false", c.NoisyGradient)
}
