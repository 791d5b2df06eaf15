package online_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/encode"
	"blankout/online/mixture"
)

// plain returns settings with one noise level and the optimizer adagrad.
func plain() online.Config {
	c := online.DefaultConfig()
	c.Optimizer, c.Calibrate, c.OnDrift, c.Presence = "adagrad", "off", "log", "none"
	return c
}

// configs has changes of the plain settings by name. Together they cover every kind of setting.
var configs = map[string]func(*online.Config){
	"default":           func(*online.Config) {},
	"none":              func(c *online.Config) { c.Noise = "none" },
	"dropout":           func(c *online.Config) { c.Noise = "dropout:0.5" },
	"expected":          func(c *online.Config) { c.ExpectedMissing = 0.6 },
	"hinge":             func(c *online.Config) { c.Loss = "hinge" },
	"chen":              func(c *online.Config) { c.Loss, c.Noise = "logistic:chen", "dropout:0.3" },
	"probit":            func(c *online.Config) { c.Loss = "probit" },
	"quadratic":         func(c *online.Config) { c.Loss, c.Noise = "logistic:quadratic-noising", "dropout:0.2" },
	"ridge":             func(c *online.Config) { c.C = 0.01 },
	"no ridge":          func(c *online.Config) { c.C = math.Inf(1) },
	"penalized":         func(c *online.Config) { c.Intercept, c.C = "penalized", 0.1 },
	"unadapted":         func(c *online.Config) { c.Adapt = false },
	"no average":        func(c *online.Config) { c.Average = 0 },
	"no scales":         func(c *online.Config) { c.Standardize = "none" },
	"divided":           func(c *online.Config) { c.Standardize = "scale" },
	"all scaled":        func(c *online.Config) { c.Standardize = "all" },
	"weighted":          func(c *online.Config) { c.ClassWeight = map[string]float64{"yes": 3, "1": 0.2} },
	"half-life":         func(c *online.Config) { c.HalfLife = 3 },
	"presence":          func(c *online.Config) { c.Presence = "auto" },
	"unlabeled":         func(c *online.Config) { c.UnlabeledWeight = 0.1 },
	"silent":            func(c *online.Config) { c.Noise = "silent:0.5" },
	"groups die":        func(c *online.Config) { c.Noise, c.C = "silent-group:0.4", 0.05 },
	"no intercept":      func(c *online.Config) { c.Intercept = "none" },
	"gaussian":          func(c *online.Config) { c.Noise = "gaussian:0.3" },
	"laplace":           func(c *online.Config) { c.Noise, c.Standardize = "laplace:0.1", "scale" },
	"poisson":           func(c *online.Config) { c.Noise, c.Standardize = "poisson", "scale" },
	"group":             func(c *online.Config) { c.Noise = "group:0.4" },
	"dropout in groups": func(c *online.Config) { c.Noise, c.Presence = "dropout:0.2+group:0.3", "auto" },
	"groups of rates":   func(c *online.Config) { c.Noise = "group:age=0.2,shop=0.5" },
	"groups expected":   func(c *online.Config) { c.ExpectedMissingGroups = 0.3 },
	"observed":          func(c *online.Config) { c.Noise = "observed" },
	"descent":           func(c *online.Config) { c.Optimizer, c.Noise, c.Presence = "dropout-descent", "dropout:0.3", "auto" },
	"descent in groups": func(c *online.Config) { c.Optimizer, c.Noise = "dropout-descent", "group:0.3" },
	"descent, clean": func(c *online.Config) {
		c.Optimizer, c.Noise, c.NoisyGradient = "dropout-descent", "gaussian:0.3", "false"
	},
	"ftrl": func(c *online.Config) { c.Optimizer, c.L1 = "ftrl", 0.01 },
	"irls": func(c *online.Config) {
		c.Optimizer, c.IRLSBatch, c.Noise, c.Presence = "irls", 40, "dropout:0.3", "auto"
	},
	"irls window": func(c *online.Config) {
		c.Optimizer, c.IRLSBatch, c.IRLSWindow, c.HalfLife, c.Noise = "irls", 60, 120, 2, "dropout:0.2"
	},
	"window too":           func(c *online.Config) { c.IRLSBatch, c.IRLSWindow, c.Noise = 60, 120, "none" },
	"silent window":        func(c *online.Config) { c.Noise, c.IRLSBatch, c.IRLSWindow = "silent:0.4", 100, 200 },
	"silent, presence":     func(c *online.Config) { c.Noise, c.Presence = "silent:0.5", "auto" },
	"groups die, presence": func(c *online.Config) { c.Noise, c.Presence = "silent-group:0.5", "auto" },
	"silent too, presence": func(c *online.Config) { c.SilentMissing, c.Presence = 0.4, "auto" },
	"silent too":           func(c *online.Config) { c.SilentMissing = 0.4 },
	"imputed":              func(c *online.Config) { c.MissingPolicy = "impute" },
	"as it is":             func(c *online.Config) { c.MissingPolicy = "none" },
	"few imputed":          func(c *online.Config) { c.CovarianceMaxFields = 3 },
	"not imputed":          func(c *online.Config) { c.CovarianceMaxFields = 0 },
	"corrected":            func(c *online.Config) { c.Optimizer = "auto" },
	"corrected, presence":  func(c *online.Config) { c.Optimizer, c.Presence = "auto", "auto" },
	"corrected, all": func(c *online.Config) {
		c.Optimizer, c.SilentMissing, c.Presence, c.HalfLife, c.OnDrift = "auto", 0.4, "auto", 300, "expert"
	},
	"calibrated": func(c *online.Config) { c.Calibrate, c.Threshold, c.OnDrift = "on", 0.3, "expert" },
}

// Names of streams with missing fields, and of the settings that are tested with these streams.
var (
	lackingStreams  = []string{"nulls", "sensors", "columns"}
	lackingSettings = []string{"default", "dropout", "observed", "half-life", "all scaled", "unlabeled", "silent too", "corrected", "corrected, presence", "corrected, all", "imputed", "as it is", "few imputed", "not imputed"}
)

func TestMain(m *testing.M) {
	longtest.CollectRarely()
	m.Run()
}

// matters reports whether the settings with this name are tested with a kind of stream.
func matters(name, kind string) bool {
	if strings.Contains(name, "window") && kind != "records" {
		return false // solving is slow with many columns
	}
	if slices.Contains(lackingStreams, kind) {
		return slices.Contains(lackingSettings, name)
	}
	return !slices.Contains(lackingSettings[10:], name)
}

// vary changes the weights of some events, and removes the labels of some.
func vary(r *rand.Rand, e *event.Example) *event.Example {
	switch r.IntN(12) {
	case 0:
		e.Weight = float64(r.IntN(5))
	case 1:
		e.Weight = 40 * r.Float64()
	case 2:
		e.Label = event.Unlabeled
	}
	return e
}

// TestRestart checks that a restored Learner continues bit by bit. It checks each combination of settings and stream
// for which matters is true.
func TestRestart(t *testing.T) {
	t.Parallel()
	for j, name := range slices.Sorted(maps.Keys(configs)) {
		n := j
		for _, kind := range slices.Sorted(maps.Keys(streams)) {
			if !matters(name, kind) {
				continue
			}
			if n++; !longtest.Some(n, 4) {
				continue
			}
			c, draw := plain(), streams[kind]
			configs[name](&c)
			s, r := draw(3), rand.New(rand.NewPCG(5, 5))
			l := newTwins(t, c, s.schema)
			for n := range must.Either(longtest.Asked(), 1300, 850) {
				if n == 1 || n == 37 || n%250 == 249 {
					l.restart()
				}
				l.Learn(vary(r, s.next()), nil)
			}
			l.same(t, kind+", "+name)
		}
	}
}

// TestPresenceInMasks checks that masks remove a number and its presence column together, in formats with and without
// fields.
func TestPresenceInMasks(t *testing.T) {
	for kind, draw := range map[string]func(uint64) stream{"seldom": seldom, "table": table} {
		c := plain()
		c.Presence = "auto"
		s := draw(3)
		l, looked := newLearner(t, c, s.schema), 0
		for range 2500 {
			l.Learn(s.next(), nil)
			last := l.MaskLast()
			for _, p := range l.Pairs() {
				if last == nil {
					continue
				}
				looked++
				must.Require(t, last[p[0]] == last[p[1]], "%s: a number survives point %d, that it is there %d", kind, last[p[0]], last[p[1]])
			}
		}
		must.True(t, looked >= 20, "%s: %d pairs in masks", kind, looked)
	}
}

// TestFieldsAhead checks that a field of the Schema has no effect before the first event that has it.
func TestFieldsAhead(t *testing.T) {
	c := plain()
	s, ahead := records(11), records(11)
	names := ahead.schema.Fields[1:]
	s.schema.Fields = s.schema.Fields[:3] // starts with only the first two fields
	l, other := newLearner(t, c, s.schema), newLearner(t, c, ahead.schema)
	for n := range 1500 {
		e, same := s.next(), ahead.next()
		if n < 700 {
			e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:2], e.Features.Value[:2], e.Field[:2]
			same.Features.Index, same.Features.Value, same.Field = same.Features.Index[:2], same.Features.Value[:2], same.Field[:2]
		} else if n == 700 {
			s.schema.Fields = append(s.schema.Fields[:1:1], names...)
		}
		if n == 350 {
			other = restart(t, c, other)
		}
		got, want := other.Learn(same, nil).Scores[0], l.Learn(e, nil).Scores[0]
		must.Require(t, got == want, "event %d: %v with a Schema of later events, %v without", n, got, want)
	}
	sameState(t, "with a Schema of later events", blocksOf(t, l)[:1], blocksOf(t, other)[:1])
}

// TestOtherVersion checks that the state of another version is rejected with an error that names a remedy.
func TestOtherVersion(t *testing.T) {
	c := plain()
	s := records(12)
	l := newLearner(t, c, s.schema)
	l.Learn(s.next(), nil)
	blocks := blocksOf(t, l)
	for i, b := range blocks {
		if b.Name == "learner" {
			blocks[i].Data = append([]byte{b.Data[0] + 1}, b.Data[1:]...)
		}
	}
	_, err := online.Restore(c, blocks)
	must.True(t, err != nil && strings.HasPrefix(err.Error(), "restoring the learner: block learner has version ") && strings.Contains(err.Error(), "restart with --reset"), "%v", err)
}

// TestLearnReturnsPrediction checks that Learn returns the same bits as Predict for each event if no number is corrected
// (Learn takes numbers as they are). The events include
// events that change scales, add columns, or change which experts are used. The model of a Snapshot must give the same
// scores and decisions.
func TestLearnReturnsPrediction(t *testing.T) {
	t.Parallel()
	all := map[string]func(*online.Config){
		"calibrated": func(c *online.Config) { *c = plain(); c.Calibrate, c.Threshold = "on", 0.3 },
		"experts":    func(*online.Config) {}, "all scaled": func(c *online.Config) { c.Standardize = "all" },
		"silent": func(c *online.Config) { c.Noise = "silent:0.5" }, "groups": func(c *online.Config) { c.Noise = "group:0.3" },
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		for j, kind := range slices.Sorted(maps.Keys(streams)) {
			if longtest.Some(i+j, 4) {
				s := streams[kind](5)
				learnsAsPredicted(t, name+", "+kind, newLearner(t, asIs(with(all[name])), s.schema), s.next)
			}
		}
		for _, classes := range longtest.Few([]int{0, 2, 4}, i, 2) {
			s, draw := readingsOf(5, classes)
			c := with(all[name])
			if classes == 0 && (name == "groups" || name == "calibrated") {
				continue // both settings are for classification
			}
			if classes == 0 {
				c.Loss = "squared"
			}
			learnsAsPredicted(t, fmt.Sprint(name, ", readings of ", classes, " classes"), newLearner(t, asIs(c), s), draw)
		}
	}
}

// asIs returns a Config with which doubted numbers are only reported.
func asIs(c online.Config) online.Config {
	c.Doubt = "log"
	return c
}

func learnsAsPredicted(t *testing.T, name string, l *online.Learner, draw func() *event.Example) {
	t.Helper()
	for n := range 1500 {
		e := draw()
		p := l.Predict(e)
		want := slices.Clone(p.Scores)
		p = alone(p)
		lacks := slices.Contains(p.Scores, mixture.NoClass)
		if n%100 == 99 {
			agree(t, l, e)
			of := l.Snapshot().Model().Decision()
			on := l.Config().Calibrate == "on"
			must.Require(t, of.Threshold == p.Decision.Threshold && (!on || n <= 600 || p.Decision.Link != nil), "%s: event %d: the snapshot decides by %+v, Predict by %+v", name, n, of, p.Decision)
			if f := p.Scores[0]; len(want) == 1 && of.Probability(f) != p.Decision.Probability(f) {
				t.Fatalf("%s: event %d: probability %v in the snapshot, %v in Predict", name, n, of.Probability(f), p.Decision.Probability(f))
			}
		}
		got := l.Learn(e, nil).Scores
		if len(got) != len(want) || lacks {
			continue // this event added a class
		}
		for k := range want {
			if n == encode.KnotEvents && math.Abs(got[k]-want[k]) < 1e-12 {
				continue // new pairs of features change the order of the sum
			}
			if math.Float64bits(got[k]) != math.Float64bits(want[k]) {
				t.Errorf("%s: event %d, output %d: Predict says %v, Learn %v", name, n, k, want[k], got[k])
				return
			}
		}
	}
}
