package main

import (
	"testing"

	"blankout/internal/must"
)

// TestTrainingIsSilent checks that silent noise is recognized by its kind. Group noise on a group named "silent" must
// not count as silent.
func TestTrainingIsSilent(t *testing.T) {
	for _, c := range []struct {
		noise string
		want  bool
	}{
		{"none", false},
		{"silent:0.5", true},
		{"silent-group:0", true},
		{"group:silent=0.3", false},
	} {
		var o trainFlags
		o.config.Noise = c.noise
		must.Equal(t, o.silent(), c.want, "noise", c.noise)
	}
	var o trainFlags
	o.online.config.SilentMissing = 0.1
	must.True(t, o.silent(), "silent_missing is not silent")
}
