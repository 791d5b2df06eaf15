package main

import "testing"

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
		if got := o.silent(); got != c.want {
			t.Errorf("noise %s: %v", c.noise, got)
		}
	}
	var o trainFlags
	if o.online.config.SilentMissing = 0.1; !o.silent() {
		t.Error("silent_missing is not silent")
	}
}
