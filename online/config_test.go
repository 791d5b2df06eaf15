package online_test

import (
	"math"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/rules"
	"blankout/online/synthetic"
)

// Two configurations that differ only in spelling have the same fingerprint. A difference names the key.
func TestFingerprintInOtherWords(t *testing.T) {
	c := online.DefaultConfig()
	s := event.NewSchema(4, nil, 2)
	was := online.FingerprintOf(c, s)
	c.Loss, c.IRLSWindow = "logistic", 0
	if diff := online.FingerprintOf(c, s).Diff(was); len(diff) > 0 {
		t.Errorf("in other words: %q", diff)
	}
	c.LearningRate = math.Pi
	if diff := online.FingerprintOf(c, s).Diff(was); len(diff) != 1 {
		t.Errorf("another rate: %q", diff)
	}
	was["gone"] = "x"
	if diff := online.FingerprintOf(c, s).Diff(was); len(diff) != 2 {
		t.Errorf("a key that is unknown: %q", diff)
	}
}

// At the limits of the learning rate and the cost every rule keeps its numbers finite. Beyond the limits the
// configuration is rejected with the limit.
func TestBounds(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	refused := []struct {
		eta, c float64
		want   string
	}{{1e200, 1, "1e+06"}, {2e6, 1, "1e+06"}, {1e-300, 1, "1e-12"}, {-1, 1, "1e-12"}, {math.NaN(), 1, "1e-12"}, {math.Inf(1), 1, "1e+06"},
		{0, 5e-324, "1e-30"}, {0, 1e300, "1e+30"}, {0, 0, "1e-30"}, {0, -1, "1e-30"}, {0, math.NaN(), "1e-30"}}
	for _, x := range refused {
		c := online.DefaultConfig()
		c.LearningRate, c.C = x.eta, x.c
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("eta %v, c %v: %v, want the bound %s", x.eta, x.c, err, x.want)
		}
	}
	combined := 0
	for _, rule := range rules.Names() {
		for i, eta := range []float64{0, 1e-12, 1, 1e6} {
			for j, cost := range []float64{1e-30, 1e-12, 1e-5, 1e-3, 1, 1e30, math.Inf(1)} {
				for k, intercept := range []string{"free", "penalized"} {
					for m, name := range []string{"logistic", "hinge"} {
						if (i+j)%4 != k+2*m { // each eta and each cost with every intercept and loss
							continue
						}
						c := online.DefaultConfig()
						c.Optimizer, c.LearningRate, c.C, c.Intercept, c.Loss = rule, eta, cost, intercept, name
						if c.Optimizer == "dropout-descent" {
							c.Noise = "dropout:0.3"
						}
						if c.Optimizer == "irls" {
							c.IRLSBatch = 20
						}
						if combined++; c.Check() != nil || !longtest.Some(combined, 2) {
							continue
						}
						l, s := streamLearner(t, c, 2), synthetic.NewStream(7, 2)
						for range 100 {
							l.Learn(s.Next(), nil)
						}
						m := l.Snapshot().Model() // the model exists only if its numbers are finite
						for range 20 {
							if score := m.Score(s.Next(), make([]float64, 2))[0]; score-score != 0 {
								t.Errorf("%s, %s, eta %v, c %v, %s: score %v", rule, name, eta, cost, intercept, score)
								break
							}
						}
					}
				}
			}
		}
	}
}
