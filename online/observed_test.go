package online_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
	"blankout/online/watch"
)

func observedConfig() online.Config {
	c := online.DefaultConfig()
	c.Noise = loss.ObservedNoise
	return c
}

// Rates by group belong to one noise: other settings reject them. There are warnings for names that no event has and
// for streams without missing fields.
func TestObservedIsRefused(t *testing.T) {
	for name, change := range map[string]func(*online.Config){
		"dropout-descent":      func(c *online.Config) { c.Optimizer = "dropout-descent" },
		"group noise needs":    func(c *online.Config) { c.Loss = "squared" },
		"support group noise":  func(c *online.Config) { c.IRLSBatch = 200 },
		"an exact solver":      func(c *online.Config) { c.Noise = "dropout:0.1+group:a=0.3" },
		"\"a\" has no rate":    func(c *online.Config) { c.Noise = "group:b=0.1,a" },
		"observed\": want one": func(c *online.Config) { c.Noise = "not observed" },
	} {
		c := observedConfig()
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), name) {
			t.Errorf("%s: %v", name, c.Check())
		}
	}
	if err := observedConfig().CheckShared(); err == nil || !strings.Contains(err.Error(), "not supported in a group") {
		t.Errorf("several learners: %v", err)
	}
	for noise, want := range map[string]string{
		"observed": "prepare for the first loss", "group:a=0.1,b=0.2": "", "group:a=0.1,wheels=0.3,engine=0.1": `rate for "engine", "wheels"`,
	} {
		c := online.DefaultConfig()
		c.Noise = noise
		l := must.Get(online.New(c, synthetic.SensorSchema()))
		s := &synthetic.MortalSensors{R: rand.New(rand.NewPCG(1, 2))}
		for range 2000 {
			l.Learn(s.Next(), nil)
		}
		got := ""
		for _, w := range l.Warnings(online.Fingerprint{}, false) {
			if w.Kind == watch.WarnNoRate {
				got = w.Text
			}
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warning %q, want one of %q", noise, got, want)
		}
	}
}
