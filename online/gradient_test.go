package online_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
	"blankout/online/synthetic"
)

// By default dropout-descent uses the clean gradient with the quadratic noising penalty, and the noisy one with other
// bounds.
func TestNoisyGradientByBound(t *testing.T) {
	scores := func(bound string, n online.NoisyGradient) (out []float64) {
		c := online.DefaultConfig()
		c.Loss, c.Optimizer, c.Noise, c.NoisyGradient, c.Calibrate = "logistic:"+bound, "dropout-descent", "dropout:0.3", n, "off"
		l, r := streamLearner(t, c, 2), rand.New(rand.NewPCG(8, 8))
		for range 300 {
			out = append(out, l.Learn(synthetic.Drawn(r), nil).Scores[0])
		}
		return out
	}
	same := func(a, b []float64) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	for bound, want := range map[string]online.NoisyGradient{"gaussian": "true", "chen": "true", "quadratic-noising": "false"} {
		noisy, clean := scores(bound, "true"), scores(bound, "false")
		if same(noisy, clean) {
			t.Errorf("%s: both gradients are one", bound)
		}
		if got := scores(bound, online.AutoGradient); !same(got, map[online.NoisyGradient][]float64{"true": noisy, "false": clean}[want]) {
			t.Errorf("%s: auto is not %s", bound, want)
		}
	}
}

// Other rules reject the key.
func TestNoisyGradientIsOfOneRule(t *testing.T) {
	for _, c := range []struct {
		rule string
		n    online.NoisyGradient
		ok   bool
	}{{"dropout-descent", "true", true}, {"dropout-descent", "false", true}, {"dropout-descent", "maybe", false}, {"adagrad", "true", false}, {"auto", "false", false}, {"sgd", "auto", true}, {"auto", "auto", true}} {
		config := online.DefaultConfig()
		config.Optimizer, config.NoisyGradient, config.Noise = c.rule, c.n, "dropout:0.3"
		var key *event.KeyError
		if err := config.Check(); (err == nil) != c.ok || err != nil && (!errors.As(err, &key) || key.Key != "noisy_gradient") {
			t.Errorf("%s, %s: %v", c.rule, c.n, err)
		}
	}
}
