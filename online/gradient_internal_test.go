package online

import (
	"testing"
)

// Of counts the clean gradient is that of the same bound's loss.
func TestNoisyGradientOfCounts(t *testing.T) {
	for bound, want := range map[string]bool{"gaussian": true, "quadratic-noising": false} {
		c := DefaultConfig()
		c.Loss, c.Optimizer, c.Noise = "poisson:"+bound, "dropout-descent", "dropout:0.3"
		if got := c.Noisy(); got != want {
			t.Errorf("%s: noisy %v", bound, got)
		}
	}
}
