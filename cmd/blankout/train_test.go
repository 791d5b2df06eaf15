package main

import "testing"

// TestTrainingIsSilent checks that silent noise is recognized by its kind. Group noise on a group named "silent" must
// not count as silent.
func TestTrainingIsSilent(t *testing.T) {
	for _, c := range []struct {
		noise string
		grid  []string
		want  bool
	}{
		{"none", nil, false},
		{"silent:0.5", nil, true},
		{"silent-group:0", nil, true},
		{"group:silent=0.3", nil, false},
		{"none", []string{"c=1,10", "noise=none,silent:0.3"}, true},
		{"none", []string{"noise=none,dropout:0.3"}, false},
		{"none", []string{"loss=silent:1"}, false},
	} {
		var o trainFlags
		o.config.Noise, o.grid = c.noise, c.grid
		if got := o.silent(); got != c.want {
			t.Errorf("noise %s, grid %q: %v", c.noise, c.grid, got)
		}
	}
	var o trainFlags
	if o.online.config.SilentMissing = 0.1; !o.silent() {
		t.Error("silent_missing is not silent")
	}
}
