package online_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/memory"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
)

// TestSettingsAreRefused checks that invalid settings and invalid combinations are rejected with an error that contains
// the key and the limit.
func TestSettingsAreRefused(t *testing.T) {
	type test struct {
		change func(*online.Config)
		want   string // part of the error
	}
	regression := func(change func(*online.Config)) func(*online.Config) {
		return func(c *online.Config) {
			c.Loss = "squared"
			change(c)
		}
	}
	observed := func(change func(*online.Config)) func(*online.Config) {
		return func(c *online.Config) {
			c.Noise = loss.ObservedNoise
			change(c)
		}
	}
	gradient := func(rule string, n online.NoisyGradient) func(*online.Config) {
		return func(c *online.Config) { c.Optimizer, c.NoisyGradient, c.Noise = rule, n, "dropout:0.3" }
	}
	tests := []test{
		{func(c *online.Config) { c.C = -1 }, "c = -1: must lie in 1e-30 to 1e+30, or be inf for no ridge"},
		{func(c *online.Config) { c.Doubt = "perhaps" }, `doubt "perhaps"`},
		{func(c *online.Config) { c.UnlabeledWeight = -0.1 }, "unlabeled_weight"},
		{func(c *online.Config) { c.UnlabeledWeight = 1.1 }, "unlabeled_weight"},
		{regression(func(c *online.Config) { c.Optimizer, c.IRLSBatch = "irls", 100 }), "irls"},
		{regression(func(c *online.Config) { c.IRLSBatch = 100 }), "irls_batch"},
		{regression(func(c *online.Config) { c.Noise = "group:0.3" }), "group"},
		{regression(func(c *online.Config) { c.ClassWeight = map[string]float64{"1": 2} }), "class_weight"},
		{regression(func(c *online.Config) { c.Calibrate = "on" }), "calibrate"},
		{regression(func(c *online.Config) { c.Threshold = 0.4 }), "threshold"},
		{regression(func(c *online.Config) { c.MissingPolicy = "rescale" }), "missing_policy"},
		{observed(func(c *online.Config) { c.Optimizer = "dropout-descent" }), "dropout-descent"},
		{observed(func(c *online.Config) { c.Loss = "squared" }), "group noise needs"},
		{observed(func(c *online.Config) { c.IRLSBatch = 200 }), "support group noise"},
		{func(c *online.Config) { c.Noise = "dropout:0.1+group:a=0.3" }, "an exact solver"},
		{func(c *online.Config) { c.Noise = "group:b=0.1,a" }, `"a" has no rate`},
		{func(c *online.Config) { c.Noise = "not observed" }, `observed": want one`},
		{gradient("dropout-descent", "maybe"), "noisy_gradient"},
		{gradient("adagrad", "true"), "noisy_gradient"},
		{gradient("auto", "false"), "noisy_gradient"},
	}
	for _, x := range []float64{-1, 0.5, math.NaN(), math.Inf(1)} {
		tests = append(tests, test{func(c *online.Config) { c.HalfLife = x }, "half_life = "}, test{func(c *online.Config) { c.HalfLifeTime = x }, "half_life_time = "})
	}
	for _, x := range []int{-1, 1, int(memory.Least) - 1, math.MinInt} {
		tests = append(tests, test{func(c *online.Config) { c.MaxMemory = x }, "max_memory"})
	}
	for _, x := range []struct {
		eta, c float64
		want   string
	}{{1e200, 1, "1e+06"}, {2e6, 1, "1e+06"}, {1e-300, 1, "1e-12"}, {-1, 1, "1e-12"}, {math.NaN(), 1, "1e-12"}, {math.Inf(1), 1, "1e+06"},
		{0, 5e-324, "1e-30"}, {0, 1e300, "1e+30"}, {0, 0, "1e-30"}, {0, -1, "1e-30"}, {0, math.NaN(), "1e-30"}} {
		tests = append(tests, test{func(c *online.Config) { c.LearningRate, c.C = x.eta, x.c }, x.want})
	}
	for i, test := range tests {
		c := with(test.change)
		err := c.Check()
		_, made := online.New(c, event.NewSchema(8, nil, 2))
		must.True(t, err != nil && strings.Contains(err.Error(), test.want) && made != nil && strings.HasPrefix(made.Error(), "learner: "),
			"case %d: error %v, and %v for a learner; want %q", i, err, made, test.want)
		key := (*event.KeyError)(nil)
		must.True(t, test.want != "noisy_gradient" || errors.As(err, &key) && key.Key == test.want, "case %d: %v has no key", i, err)
	}
	for _, change := range []func(*online.Config){gradient("dropout-descent", "true"), gradient("dropout-descent", "false"), gradient("ftrl", "auto"), gradient("auto", "auto")} {
		c := with(change)
		must.True(t, c.Check() == nil, "%s, %s: %v", c.Optimizer, c.NoisyGradient, c.Check())
	}
}

// TestFingerprintInOtherWords checks that two configurations have the same Fingerprint if they differ only in the
// spelling of values. For other differences, Diff must name the key.
func TestFingerprintInOtherWords(t *testing.T) {
	c := online.DefaultConfig()
	s := event.NewSchema(4, nil, 2)
	was := online.FingerprintOf(c, s)
	c.Loss, c.IRLSWindow = "logistic", 0
	diff := online.FingerprintOf(c, s).Diff(was)
	must.True(t, len(diff) <= 0, "in other words: %q", diff)
	c.LearningRate = math.Pi
	diff = online.FingerprintOf(c, s).Diff(was)
	must.True(t, len(diff) == 1, "another rate: %q", diff)
	was["gone"] = "x"
	diff = online.FingerprintOf(c, s).Diff(was)
	must.True(t, len(diff) == 2, "a key that is unknown: %q", diff)
}

// TestBounds checks that the numbers in every optimizer are finite at the limits of the learning rate and the cost.
func TestBounds(t *testing.T) {
	longtest.Numeric(t)
	combined := 0
	for _, rule := range optimizers.Names() {
		for i, eta := range []float64{0, 1e-12, 1, 1e6} {
			for j, cost := range []float64{1e-30, 1e-12, 1e-5, 1e-3, 1, 1e30, math.Inf(1)} {
				for k, intercept := range []string{"free", "penalized"} {
					for m, name := range []string{"logistic", "hinge"} {
						if (i+j)%4 != k+2*m { // combines each learning rate and each cost with each intercept and loss
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
						m := l.Snapshot().Model() // a Snapshot has a model only if its numbers are finite
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

// TestPreset checks that a preset is an abbreviation of its keys, that it does not replace a key that is set, and that an
// unknown preset is refused.
func TestPreset(t *testing.T) {
	short, long := online.DefaultConfig(), online.DefaultConfig()
	short.Preset = "quadratic-noising"
	long.Optimizer, long.Loss, long.Noise, long.IRLSBatch, long.IRLSWindow = "dropout-descent", "logistic:quadratic-noising", "dropout:0.5", 200, 1000
	schema := func() *event.Schema { return event.NewSchema(10, []string{"a", "b"}, 2) }
	diff := online.FingerprintOf(short, schema()).Diff(online.FingerprintOf(long, schema()))
	must.True(t, len(diff) <= 0, "%v", diff)
	l := must.Get(online.New(short, schema()))(t)
	long.Preset = short.Preset
	got := l.Config()
	must.True(t, reflect.DeepEqual(got, long), "the learner has %+v", got)
	short.IRLSBatch, short.Noise = 100, "dropout:0.3"
	got = short.WithPreset()
	must.True(t, got.IRLSBatch == 100 && got.Noise == "dropout:0.3" && got.IRLSWindow == 1000, "keys that are set: %+v", got)
	short.Preset = "cubic"
	must.ErrorContains(t, short.Check(), `preset "cubic": want quadratic-noising`)
}
