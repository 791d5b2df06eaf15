package online_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
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
	for _, x := range []int{-1, 1, online.LeastMemory - 1, math.MinInt} {
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
						if combined++; c.Check() != nil || !longtest.Some(combined, 3) {
							continue
						}
						l, s := streamLearner(t, c, 2), synthetic.NewStream(7, 2)
						learnNext(l, 100, s.Next)
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

// crowd returns a Learner for events with 100 columns each. The columns of event n start at 100 n.
func crowd(t *testing.T, change func(*online.Config), classes ...string) *online.Learner {
	t.Helper()
	c := with(func(c *online.Config) { c.MaxMemory = online.LeastMemory })
	if change != nil {
		change(&c)
	}
	s := event.NewSchema(20, nil, 40)
	s.Classes = classes
	s.NumericIndices = true
	s.AddField(event.Field{Name: "words", Kind: event.Words})
	return newLearner(t, c, s)
}

func crowded(n, label int) *event.Example {
	e := &event.Example{Label: label, Weight: 1, Offset: int64(n)}
	for i := range 100 {
		eventtest.Put(e, uint32(100*n+i), 1, 1)
	}
	return e
}

// fill learns events of the first two classes until an event is rejected, and returns the number of that event.
func fill(t *testing.T, l *online.Learner) int {
	t.Helper()
	for n := range 1000 {
		if r := l.Refusal(crowded(n, n%2)); r != nil {
			return n
		}
		must.Require(t, l.Learn(crowded(n, n%2), nil).Scores != nil, "event %d is refused", n)
	}
	t.Fatal("none is refused")
	return 0
}

// TestColumnRefused checks that an event is rejected if its columns would exceed the memory limit, at the number of
// rows that the formula gives. Such columns must be reported by name and counted, for events with and without a label.
// Events with known columns must still be learned, and rejected events must have no effect.
func TestColumnRefused(t *testing.T) {
	l := crowd(t, nil, "no", "yes")
	last := fill(t, l)
	rows := online.LeastMemory / 8 / l.Snapshot().Model().Layout.Width
	must.Require(t, last == rows/100 && l.Report().Rows == 100*last, "event %d with %d rows is refused, of %d", last, l.Report().Rows, rows)
	other := crowd(t, nil, "no", "yes")
	fill(t, other)
	e := crowded(last, 1)
	for i, label := range []int{1, event.Unlabeled} {
		e.Label = label
		must.True(t, l.Learn(e, nil).Scores == nil && e.Refused == nil, "event %d is learned", i)
	}
	m := l.Report()
	by := m.RefusedBy[event.ReasonMemory]
	must.True(t, m.Refused == 2 && by.Count == 2 && strings.HasPrefix(by.First, `field "words", feature "`) && strings.Contains(by.First, "raise learner.max_memory = 1048576"),
		"refused %d: %+v", m.Refused, m.RefusedBy)
	e.Weight = 0
	must.True(t, l.Refusal(e) == nil && l.Learn(e, nil).Scores != nil, "an event of no weight, which is not learned, is refused")
	known := crowded(0, 0)
	got, want := l.Learn(known, nil).Scores, other.Learn(known, nil).Scores
	must.True(t, got != nil && slices.Equal(got, want) && l.Report().Events == other.Report().Events, "known columns are told %v, want %v", got, want)
	fits := crowded(last, 0)
	n := rows - 100*last
	fits.Features.Index, fits.Features.Value, fits.Field = fits.Features.Index[:n], fits.Features.Value[:n], fits.Field[:n]
	must.True(t, l.Learn(fits, nil).Scores != nil && l.Report().Rows == rows, "%d rows, where there is room for %d", l.Report().Rows, rows)
}

// TestClassRefused checks that a class is rejected by name if its output would exceed the memory limit, with two
// classes and with several. Events of known classes must still be learned. A restart must give the same bits, and with
// a larger limit the class must be accepted.
func TestClassRefused(t *testing.T) {
	for _, classes := range [][]string{{"no", "yes"}, {"no", "yes", "perhaps"}} {
		l := crowd(t, nil, classes...)
		outputs := func(l *online.Learner) int { return len(l.Predict(crowded(0, 0)).Scores) }
		last := fill(t, l)
		k := outputs(l)
		l.Schema().Classes = append(l.Schema().Classes, "again", "fire")
		e := crowded(0, len(l.Schema().Classes)-1)
		r := l.Refusal(e)
		must.Require(t, r != nil && r.Reason == event.ReasonMemory && strings.HasPrefix(r.Detail, `class "fire": `), "of %d classes: %v", len(classes), r)
		again := restart(t, l.Config(), l)
		for i, e := range []*event.Example{e, crowded(1, 1), crowded(last, 0), crowded(2, 0), e} {
			a, b := l.Learn(e, nil).Scores, again.Learn(e, nil).Scores
			must.True(t, slices.Equal(a, b) && (a == nil) == (i%4 == 0 || i == 2), "of %d classes, event %d: %v, after a restart %v", len(classes), i, a, b)
		}
		must.True(t, outputs(l) == k && l.Report().RefusedBy[event.ReasonMemory].Count == 3, "of %d classes: %d outputs, refused %+v", len(classes), outputs(l), l.Report().RefusedBy)
		sameState(t, "after a restart", blocksOf(t, l), blocksOf(t, again))
		c := l.Config()
		c.MaxMemory *= 20
		again = restart(t, c, l)
		must.True(t, again.Learn(e, nil).Scores != nil && outputs(again) == len(l.Schema().Classes), "of %d classes: refused under a larger bound", len(classes))
	}
}

// TestFarFromBound checks that a limit that is never reached has no effect.
func TestFarFromBound(t *testing.T) {
	near, far, none := crowd(t, nil, "no", "yes"), crowd(t, func(c *online.Config) { c.MaxMemory = 4 << 30 }, "no", "yes"), crowd(t, func(c *online.Config) { c.MaxMemory = 0 }, "no", "yes")
	last := fill(t, near)
	for n := range last {
		far.Learn(crowded(n, n%2), nil)
		none.Learn(crowded(n, n%2), nil)
	}
	rest := func(l *online.Learner) []event.Block { // the block "learner" contains the limit
		return slices.DeleteFunc(blocksOf(t, l), func(b event.Block) bool { return b.Name == "learner" })
	}
	sameState(t, "with a limit that nothing reaches", rest(near), rest(far))
	sameState(t, "without a limit", rest(near), rest(none))
	must.True(t, none.Learn(crowded(last, 0), nil).Scores != nil && far.Learn(crowded(last, 0), nil).Scores != nil, "refused without need")
	e := crowded(0, 0)
	n := testing.AllocsPerRun(100, func() { far.Refusal(e) })
	must.True(t, n <= 0, "the question allocates %v times", n)
}

// TestBoundIsKept checks that the memory limit is in the checkpoint, for readers without a configuration. Changing it
// between runs must be allowed, and an invalid limit must be rejected.
func TestBoundIsKept(t *testing.T) {
	for _, bound := range []int{0, online.LeastMemory, online.DefaultConfig().MaxMemory, 1 << 33} {
		l := crowd(t, func(c *online.Config) { c.MaxMemory = bound }, "no", "yes")
		l.Learn(crowded(0, 0), nil)
		blocks := blocksOf(t, l)
		c, err := online.ReadConfig(blocks)
		must.True(t, err == nil && c.MaxMemory == bound, "kept %d of %d: %v", c.MaxMemory, bound, err)
		must.Do(t, must.Err(online.Restore(online.DefaultConfig(), blocks)))
	}
}
