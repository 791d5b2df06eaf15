package online

// This file has the settings of a Learner, their limits, and the Fingerprint of a saved state.

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/experts/levels"
	"blankout/online/optimizers"
	"blankout/online/refresh"
)

// Config holds the settings of a Learner: the section [learner] of the configuration. config/blankout.toml describes
// each key; the comments here add what callers of this package need. Decode a file into the result of DefaultConfig, so
// that an absent key keeps its default. A field with the tag "fixed" has no key in the file. Only programs set it, and
// the tag is its key in the Fingerprint.
type Config struct {
	// Preset is "" or a name in presets, see WithPreset. It is not part of the Fingerprint.
	Preset string `toml:"preset"`
	// Loss is an argument of loss.Parse.
	Loss string `toml:"loss"`
	// Noise is an argument of loss.ParseNoise. "auto" selects the noise levels that noiseLevels returns. "observed"
	// selects loss.ObservedNoise.
	Noise  string    `toml:"noise"`
	Levels []float64 `toml:"-" fixed:"levels"` // nil for the result of noiseLevels
	// ExpectedMissing is the expected fraction of missing features. It selects the noise levels of a new Learner, and
	// is not part of the Fingerprint.
	ExpectedMissing float64 `toml:"expected_missing"`
	// ExpectedMissingGroups is the expected fraction of missing groups. It selects the noise levels of groups if
	// GroupLevels is empty, see noiseLevels. It is not part of the Fingerprint.
	ExpectedMissingGroups float64   `toml:"expected_missing_groups"`
	GroupLevels           []float64 `toml:"-" fixed:"group_levels"`
	// SilentMissing is the expected fraction of silently missing features. If it is not 0, there is an additional noise
	// level with the noise loss.Silent.
	SilentMissing float64 `toml:"silent_missing"`
	// SilentGroups is true if whole groups can be silently missing, see Among.
	SilentGroups bool `toml:"-" fixed:"silent_groups"`
	// MissingPolicy is parsed by model.ParseMissingPolicy. It is not part of the Fingerprint.
	MissingPolicy string `toml:"missing_policy"`
	// CovarianceMaxFields is the largest number of numeric columns whose covariance is estimated for imputation. It is
	// at most event.MaxCovariance; 0 disables the covariance. In a sparse text format with declared missing columns,
	// the most frequent columns are used. CovarianceMaxFields is not part of the Fingerprint.
	CovarianceMaxFields int `toml:"covariance_max_fields"`
	// C is the weight of the losses in the batch objective |w|^2 + kappa sum loss (see loss.Cost). If C is +Inf, there
	// is no ridge.
	C float64 `toml:"c"`
	// Optimizer is a name in optimizers.Table.
	Optimizer string            `toml:"optimizer"`
	custom    *optimizers.Entry // see Use
	// NoisyGradient holds settings of the optimizer dropout-descent.
	NoisyGradient NoisyGradient `toml:"noisy_gradient"`
	LearningRate  float64       `toml:"learning_rate"`
	// Start is the initial value of the accumulators. If sqrt(Start)/LearningRate is at least the ridge h0 and there is
	// one output, the first pass omits the ridge's gradient. Otherwise the ridge would count twice: the n-th event of a
	// feature would shrink its weight by the fraction h0/n, which removes most of the weight of rare features.
	Start      float64 `toml:"-" fixed:"start"`
	L1         float64 `toml:"l1"`
	IRLSBatch  int     `toml:"irls_batch"`
	IRLSWindow int     `toml:"irls_window"`
	Intercept  string  `toml:"-" fixed:"intercept"`
	// Average is the fraction of the learned events that the weight average covers, in [0, 1]. 0 disables averaging.
	Average float64 `toml:"-" fixed:"average"`
	// Adapt makes AdaGrad's steps proximal also for one output. A proximal step cannot overshoot.
	Adapt bool `toml:"-" fixed:"adapt"`
	// Standardize is parsed by model.ParseStandardize.
	Standardize string `toml:"standardize"`
	// Presence is "auto" or "none". With "auto", a numeric column that is absent from many events gets a second column
	// with its own weight, for its presence (event.Present). The setting cannot change after a Learner is created.
	Presence        string             `toml:"-" fixed:"presence"`
	UnlabeledWeight float64            `toml:"unlabeled_weight"`
	ClassWeight     map[string]float64 `toml:"class_weight"`
	// HalfLife is in events, HalfLifeTime is in seconds of event time.
	HalfLife     float64 `toml:"half_life"`
	HalfLifeTime float64 `toml:"half_life_time"`
	OnDrift      string  `toml:"on_drift"`
	// Doubt is "auto", "log" or "off". It is not part of the Fingerprint.
	Doubt string `toml:"doubt"`
	// Calibrate is "auto", "on" or "off". It is not part of the Fingerprint.
	Calibrate string `toml:"calibrate"`
	// MislabeledBelow is a probability in [0, 1).
	MislabeledBelow float64 `toml:"mislabeled_below"`
	Threshold       float64 `toml:"threshold"`
	// Positive is the name of the positive class, if there are two classes. If Positive is empty, a known pair of
	// labels such as "no" and "yes" determines the positive class. For other labels it is the rarer class of the first
	// 1,000 labeled events. No weight depends on Positive, and it is not part of the Fingerprint.
	Positive string `toml:"-" fixed:"positive"`
	// Coverage is the probability with which a prediction set must contain the label. It is not part of the
	// Fingerprint.
	Coverage float64 `toml:"coverage"`
	// MaxMemory is the largest number of bytes of rows, see Learner.Refusal; 0 means no limit. It is part of the
	// Fingerprint, so that a program can read it from a checkpoint. It may nevertheless change between runs.
	MaxMemory int `toml:"max_memory"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Loss:                "logistic:gaussian",
		Noise:               "auto",
		MissingPolicy:       "auto",
		CovarianceMaxFields: 256,
		C:                   1,
		Optimizer:           "auto",
		NoisyGradient:       AutoGradient,
		Start:               1,
		Intercept:           "free",
		Average:             0.15,
		Adapt:               true,
		Standardize:         "auto",
		Presence:            "auto",
		OnDrift:             "expert",
		Doubt:               "auto",
		Calibrate:           "auto",
		Threshold:           0.5,
		Coverage:            0.9,
		MaxMemory:           defaultMemory,
	}
}

// presets has the functions that set the keys of each preset.
var presets = map[string]func(c *Config){
	// The method of Wager, Wang & Liang 2013, section 5, with IRLS refreshes of the same penalty.
	"quadratic-noising": func(c *Config) {
		c.Optimizer, c.Loss, c.Noise, c.IRLSBatch, c.IRLSWindow = "dropout-descent", "logistic:quadratic-noising", "dropout:0.5", 200, 1000
	},
}

// WithPreset returns the Config in which the keys of the preset that have their default have the values of the preset.
// All methods and New do this themselves; only a caller that reads these keys needs it.
func (c Config) WithPreset() Config {
	set := presets[c.Preset]
	if set == nil {
		return c
	}
	preset, was := DefaultConfig(), reflect.ValueOf(DefaultConfig())
	set(&preset)
	for i, v := 0, reflect.ValueOf(&c).Elem(); i < v.NumField(); i++ {
		if v.Field(i).CanSet() && reflect.DeepEqual(v.Field(i).Interface(), was.Field(i).Interface()) {
			v.Field(i).Set(reflect.ValueOf(preset).Field(i))
		}
	}
	return c
}

// Larger values could overflow weights.
const (
	leastC, mostC     = 1e-30, 1e30
	leastEta, mostEta = 1e-12, 1e6
)

// checked holds the parsed settings of a Config.
type checked struct {
	loss          loss.Loss
	noises        []loss.Noise // the noise of each level
	observed      bool         // the noise uses the observed rates at which groups are missing
	optimizer     optimizers.Entry
	standardize   model.Standardize
	ridge         float64
	numbers       bool // regression
	missingPolicy model.MissingPolicy
}

func (c Config) checked() (checked, error) {
	var s checked
	if _, known := presets[c.Preset]; c.Preset != "" && !known {
		return s, event.KeyErrorf("preset", "preset %q: want %s, or leave it empty", c.Preset, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	}
	c = c.WithPreset()
	for _, part := range []func(Config) error{s.parseParts, s.parseSteps, s.parseForgetting, s.parseClasses, s.parseRefresh, s.parseTogether} {
		if err := part(c); err != nil {
			return s, err
		}
	}
	return s, nil
}

// parseParts parses and checks the loss, the noise, the optimizer, and the settings of numeric fields.
func (s *checked) parseParts(c Config) error {
	var err error
	if s.loss, err = loss.Parse(c.Loss); err != nil {
		return &event.KeyError{Key: "loss", Err: err}
	}
	if err := s.parseNoise(c); err != nil {
		return err
	}
	var known bool
	if s.optimizer, known = c.entry(); !known {
		return event.KeyErrorf("optimizer", "optimizer %q: want one of %s", c.Optimizer, strings.Join(optimizers.Names(), ", "))
	}
	if s.standardize, err = model.ParseStandardize(c.Standardize); err != nil {
		return &event.KeyError{Key: "standardize", Err: err}
	}
	if s.missingPolicy, err = model.ParseMissingPolicy(c.MissingPolicy); err != nil {
		return event.KeyErrorf("missing_policy", "missing_policy %w", err)
	}
	s.numbers = s.loss.Facts().Regression
	if c.CovarianceMaxFields < 0 || c.CovarianceMaxFields > model.MaxCovariance {
		return event.KeyErrorf("covariance_max_fields", "covariance_max_fields = %d: must lie in 0 to %d", c.CovarianceMaxFields, model.MaxCovariance)
	}
	fills := c.CovarianceMaxFields > 0 && (s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll)
	if s.missingPolicy.Imputes() && !fills {
		return event.KeyErrorf("missing_policy", "missing_policy %q: imputation needs covariance_max_fields above 0 and standardize = \"auto\" or \"all\"; use auto, none or rescale", c.MissingPolicy)
	}
	return nil
}

// parseSteps parses and checks step sizes and regularization.
func (s *checked) parseSteps(c Config) error {
	if !(c.C >= leastC && c.C <= mostC) && !math.IsInf(c.C, 1) {
		return event.KeyErrorf("c", "c = %v: must lie in %v to %v, or be inf for no ridge", c.C, leastC, mostC)
	}
	s.ridge = 2 / loss.Cost(s.loss, c.C)
	if c.LearningRate != 0 && !(c.LearningRate >= leastEta && c.LearningRate <= mostEta) {
		return event.KeyErrorf("learning_rate", "learning_rate = %v: must lie in %v to %v, or be 0 for the optimizer's default", c.LearningRate, leastEta, mostEta)
	}
	if !(c.Start >= 0) || math.IsInf(c.Start, 0) {
		return event.KeyErrorf("start", "start = %v: must be a number, at least 0", c.Start)
	}
	if !slices.Contains([]string{"free", "penalized", "none"}, c.Intercept) {
		return event.KeyErrorf("intercept", "intercept %q: want free, penalized or none", c.Intercept)
	}
	if c.Intercept == "none" && s.standardize == model.StandardizeAll {
		return event.KeyErrorf("intercept", "intercept none: standardize = \"all\" needs an intercept; set intercept = \"free\"")
	}
	if !(c.Average >= 0 && c.Average <= 1) {
		return event.KeyErrorf("average", "average = %v: must lie in [0, 1]", c.Average)
	}
	if !(c.UnlabeledWeight >= 0 && c.UnlabeledWeight <= 1) {
		return event.KeyErrorf("unlabeled_weight", "unlabeled_weight = %v: must lie in [0, 1]", c.UnlabeledWeight)
	}
	if facts := s.loss.Facts(); c.UnlabeledWeight > 0 && !facts.LabelFree && !facts.Probability {
		return event.KeyErrorf("unlabeled_weight", "unlabeled_weight = %v: the curvature of loss %s needs a label; set unlabeled_weight = 0 or loss = \"logistic\"", c.UnlabeledWeight, c.Loss)
	}
	if s.loss.Facts().Falls && c.Optimizer == "dropout-descent" {
		return event.KeyErrorf("optimizer", "optimizer dropout-descent: loss %s has no curvature, which it needs; set optimizer = \"adagrad\"", c.Loss)
	}
	if c.UnlabeledWeight > 0 && !s.optimizer.Sums {
		return event.KeyErrorf("unlabeled_weight", "unlabeled_weight = %v: optimizer %s cannot use unlabeled events; set unlabeled_weight = 0", c.UnlabeledWeight, c.Optimizer)
	}
	return nil
}

// parseForgetting checks the half-lives and the other settings of forgetting.
func (s *checked) parseForgetting(c Config) error {
	for name, x := range map[string]float64{"half_life": c.HalfLife, "half_life_time": c.HalfLifeTime} {
		if !(x >= 0) || math.IsInf(x, 0) || x > 0 && x < 1 {
			return event.KeyErrorf(name, "%s = %v: must be at least 1, or 0 for never", name, x)
		}
		if x > 0 && !s.optimizer.Sums {
			return event.KeyErrorf(name, "%s = %v: optimizer %s cannot forget; use adagrad or dropout-descent", name, x, c.Optimizer)
		}
	}
	if c.Doubt != "auto" && c.Doubt != "log" && c.Doubt != "off" {
		return event.KeyErrorf("doubt", "doubt %q: want auto, log or off", c.Doubt)
	}
	if c.OnDrift != "expert" && c.OnDrift != "log" && c.OnDrift != "forget" {
		return event.KeyErrorf("on_drift", "on_drift %q: want expert, forget or log", c.OnDrift)
	}
	return nil
}

// WeightOf returns the class_weight of a class, which is 1 by default.
func (c *Config) WeightOf(class string) float64 {
	if w, ok := c.ClassWeight[class]; ok {
		return w
	}
	for _, name := range slices.Sorted(maps.Keys(c.ClassWeight)) {
		if event.SameLabel(name, class) {
			return c.ClassWeight[name]
		}
	}
	return 1
}

// parseClasses parses and checks the settings of classes and of mislabeled events.
func (s *checked) parseClasses(c Config) error {
	if !(c.MislabeledBelow >= 0 && c.MislabeledBelow < 1) {
		return event.KeyErrorf("mislabeled_below", "mislabeled_below = %v: must lie in [0, 1)", c.MislabeledBelow)
	}
	if _, ok := s.loss.(loss.TLogistic); c.MislabeledBelow > 0 && !ok {
		return event.KeyErrorf("mislabeled_below", "mislabeled_below = %v: only loss = \"t-logistic:T\" gives events an influence", c.MislabeledBelow)
	}
	for name, w := range c.ClassWeight {
		if !(w >= 0 && w <= event.MaxMagnitude) {
			return event.KeyErrorf("class_weight", "class_weight of %q = %v: must be a number from 0 to 1e30", name, w)
		}
	}
	if !(c.Threshold > 0 && c.Threshold < 1) {
		return event.KeyErrorf("threshold", "threshold = %v: must lie between 0 and 1", c.Threshold)
	}
	if c.Calibrate != "auto" && c.Calibrate != "on" && c.Calibrate != "off" {
		return event.KeyErrorf("calibrate", "calibrate %q: want auto, on or off", c.Calibrate)
	}
	if c.Coverage != 0 && !(c.Coverage >= 0.5 && c.Coverage < 1) {
		return event.KeyErrorf("coverage", "coverage = %v: must lie in [0.5, 1), or be 0 for no sets", c.Coverage)
	}
	if c.MaxMemory != 0 && c.MaxMemory < LeastMemory {
		return event.KeyErrorf("max_memory", "max_memory = %d: must be at least %d bytes, or 0 for no bound", c.MaxMemory, LeastMemory)
	}
	return nil
}

// parseRefresh parses and checks the L1 penalty and the IRLS batches.
func (s *checked) parseRefresh(c Config) error {
	if !(c.L1 >= 0) || math.IsInf(c.L1, 0) {
		return event.KeyErrorf("l1", "l1 = %v: must be a number, at least 0", c.L1)
	}
	if c.L1 > 0 && c.Optimizer != "ftrl" {
		return event.KeyErrorf("l1", "l1 = %v: needs optimizer = \"ftrl\"", c.L1)
	}
	if c.IRLSBatch < 0 || c.IRLSBatch > 100_000 {
		return event.KeyErrorf("irls_batch", "irls_batch = %d: must lie in 0 to 100000", c.IRLSBatch)
	}
	if n := c.IRLSWindow; n != 0 && (c.IRLSBatch == 0 || n < 0 || n > 100_000 || n%c.IRLSBatch != 0) {
		return event.KeyErrorf("irls_window", "irls_window = %d: must be a multiple of irls_batch (%d), at most 100000, or 0", n, c.IRLSBatch)
	}
	if c.Optimizer == "irls" && c.IRLSBatch == 0 {
		return event.KeyErrorf("optimizer", "optimizer irls: set irls_batch to a number of events, such as 200")
	}
	if c.IRLSBatch > 0 {
		switch {
		case !refresh.Solvable(s.loss):
			return event.KeyErrorf("irls_batch", "irls_batch: loss %q is not convex", c.Loss)
		case s.levels().Grouped() || slices.ContainsFunc(s.noises, isSilentGroups):
			return event.KeyErrorf("irls_batch", "irls_batch: does not support group noise %q; use dropout, auto or none", c.Noise)
		case !s.levels().Square():
			return event.KeyErrorf("irls_batch", "irls_batch: does not support noise %q; use dropout, auto or none", c.Noise)
		case c.Optimizer == "ftrl":
			return event.KeyErrorf("irls_batch", "irls_batch: does not support optimizer %s; use adagrad, dropout-descent or irls", c.Optimizer)
		case (c.Optimizer == "adagrad" || c.Optimizer == "auto") && c.IRLSWindow <= c.IRLSBatch:
			return event.KeyErrorf("irls_batch", "irls_batch = %d without a window makes AdaGrad's weights worse; set irls_window to a multiple of it, such as %d, or optimizer = \"irls\"", c.IRLSBatch, 10*c.IRLSBatch)
		}
	}
	return nil
}

// parseTogether checks the setting presence, and combinations of settings.
func (s *checked) parseTogether(c Config) error {
	if c.Presence != "auto" && c.Presence != "none" {
		return event.KeyErrorf("presence", "presence = %q: want auto or none", c.Presence)
	}
	if err := c.checkGradient(); err != nil {
		return err
	}
	if c.Optimizer == "dropout-descent" && (len(s.noises) > 1 || s.observed || s.noises[0] == loss.Noise(loss.NoNoise{})) {
		return event.KeyErrorf("noise", "noise %q: the metric of optimizer dropout-descent is made of one fixed noise; set it, or optimizer = \"adagrad\"", c.Noise)
	}
	if c.Optimizer == "dropout-descent" && s.ridge == 0 {
		return event.KeyErrorf("c", "c = %v: the metric of optimizer dropout-descent starts at the ridge, which must not be 0", c.C)
	}
	if s.numbers {
		if err := c.checkNumbers(*s); err != nil {
			return err
		}
	}
	if key := c.silentKey(); key != "" && c.Optimizer != "auto" && c.Optimizer != "adagrad" {
		return event.KeyErrorf(key, "silent noise needs optimizer = \"auto\" or \"adagrad\", not %s", c.Optimizer)
	}
	if l := s.levels(); !l.Square() && !l.Constant() && (s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll) {
		return event.KeyErrorf("noise", "noise poisson is for counts, which standardize = %q would center; set standardize = \"none\"", c.Standardize)
	}
	return nil
}

func isSilentGroups(n loss.Noise) bool {
	s, ok := n.(loss.Silent)
	return ok && s.Groups
}

// silentKey returns the name of the setting that adds a noise level with silent noise, or "" if no setting does.
func (c Config) silentKey() string {
	switch n, err := loss.ParseNoise(c.Noise); {
	case c.SilentMissing > 0:
		return "silent_missing"
	case err == nil && loss.IsSilent(n):
		return "noise"
	}
	return ""
}

// Noises returns the noises of the levels, in order.
func (c Config) Noises() ([]loss.Noise, error) {
	var s checked
	c = c.WithPreset()
	err := s.parseNoise(c)
	return s.noises, err
}

// Grouped reports whether any noise level drops whole groups.
func (c Config) Grouped() bool {
	var s checked
	c = c.WithPreset()
	return s.parseNoise(c) == nil && s.levels().Grouped()
}

// levels returns levels.Settings that have the noises.
func (s *checked) levels() *levels.Settings { return &levels.Settings{Noises: s.noises} }

// noiseText returns the noise in effect. dropout-descent needs one fixed noise: dropout:0.5 unless another is set.
func (c Config) noiseText() string {
	if c.Optimizer == "dropout-descent" && c.Noise == "auto" && c.silentKey() == "" {
		return "dropout:0.5"
	}
	return c.Noise
}

func (s *checked) parseNoise(c Config) error {
	c.Noise = c.noiseText()
	for key, d := range map[string]float64{"expected_missing": c.ExpectedMissing, "expected_missing_groups": c.ExpectedMissingGroups, "silent_missing": c.SilentMissing} {
		if !(d >= 0 && d <= 0.9) {
			return event.KeyErrorf(key, "%s = %v: must lie in [0, 0.9]", key, d)
		}
	}
	if c.SilentMissing > 0 && c.Noise != "auto" {
		return event.KeyErrorf("silent_missing", "silent_missing = %v: needs noise = \"auto\"; for one noise level set noise = \"silent:%v\" instead", c.SilentMissing, c.SilentMissing)
	}
	if c.Noise == loss.ObservedNoise {
		s.noises, s.observed = []loss.Noise{loss.GroupDropout{Rates: map[string]float64{}}}, true
		return nil
	}
	if c.Noise != "auto" {
		n, err := loss.ParseNoise(c.Noise)
		if err != nil {
			return &event.KeyError{Key: "noise", Err: err}
		}
		if g, ok := n.(loss.GroupDropout); ok && g.Rates != nil && g.Q > 0 {
			return event.KeyErrorf("noise", "noise %q: dropout with named group rates needs an exact solver; give only one of the two", c.Noise)
		}
		s.noises = []loss.Noise{n}
		return nil
	}
	features, groups := c.noiseLevels()
	for i, q := range features {
		if !(q >= 0 && q < 1) || i > 0 && q <= features[i-1] {
			return event.KeyErrorf("levels", "levels = %v: must be ascending probabilities in [0, 1)", features)
		}
		s.noises = append(s.noises, loss.Dropout{Q: q})
	}
	for i, q := range groups {
		if !(q > 0 && q < 1) || i > 0 && q <= groups[i-1] {
			return event.KeyErrorf("group_levels", "group_levels = %v: must be ascending probabilities between 0 and 1", groups)
		}
		s.noises = append(s.noises, loss.GroupDropout{Groups: q})
	}
	if c.SilentMissing > 0 {
		s.noises = append(s.noises, loss.Silent{D: c.SilentMissing, Groups: c.SilentGroups})
	}
	return nil
}

// Fingerprint holds the settings on which the meaning of the weights depends, by key. Learning can only continue with
// an equal Fingerprint.
type Fingerprint map[string]string

// mayChange lists the keys that may change between runs and are not in the Fingerprint. The Fingerprint describes the
// levels under the key noise.
var mayChange = []string{"preset", "levels", "group_levels", "expected_missing", "expected_missing_groups", "covariance_max_fields", "publish_levels", "mislabeled_below", "threshold", "positive", "coverage", "calibrate", "doubt"}

// keyMaxMemory is in the Fingerprint but may change between runs, because no weight depends on it.
const keyMaxMemory = "max_memory"

// keyOf returns the key of a struct field of Config.
func keyOf(f reflect.StructField) string {
	if name := f.Tag.Get("fixed"); name != "" {
		return name
	}
	return f.Tag.Get("toml")
}

// Among returns the settings adapted to the format of the records. declares reports whether records can declare missing
// features, and grouped reports whether there are named groups. A named group can be silently missing as a whole. If
// records cannot declare missing features, the expected missing fraction becomes the silently missing fraction.
func (c Config) Among(declares, grouped bool) Config {
	c = c.WithPreset()
	switch {
	case c.SilentMissing > 0:
		c.SilentGroups = grouped
	case declares || c.Noise != "auto" || c.Optimizer != "auto" && c.Optimizer != "adagrad":
	case c.ExpectedMissingGroups > 0:
		c.SilentMissing, c.SilentGroups = c.ExpectedMissingGroups, true
		c.ExpectedMissing, c.ExpectedMissingGroups = 0, 0
	case c.ExpectedMissing > 0:
		c.SilentMissing, c.ExpectedMissing = c.ExpectedMissing, 0
	}
	return c
}

// FingerprintOf returns the Fingerprint of the Learner that New would return.
func FingerprintOf(c Config, s *event.Schema) Fingerprint {
	f := c.fingerprint()
	for key, value := range map[string]any{
		"zero_based": s.ZeroBased, "bits": s.Bits, "seed": s.Seed, "numeric_indices": s.NumericIndices,
		"crosses": s.Crosses, "max_classes": s.MaxClasses,
	} {
		f[key] = fmt.Sprint(value)
	}
	if s.Absent != "" {
		f["absent"] = s.Absent
	}
	if s.ColumnGroups != nil {
		f["column_groups"] = s.ColumnGroups.String()
	}
	return f
}

func (c Config) fingerprint() Fingerprint {
	c = c.WithPreset()
	// The canonical name makes "logistic" and "logistic:gaussian" equal, because they are the same loss.
	if l, err := loss.Parse(c.Loss); err == nil {
		c.Loss = l.String()
	}
	if c.Noise = c.noiseText(); c.Noise == "auto" {
		features, groups := c.noiseLevels()
		if c.Noise = fmt.Sprint("auto ", features); len(groups) > 0 {
			c.Noise += fmt.Sprint(" groups ", groups)
		}
	} else if n, err := loss.ParseNoise(c.Noise); err == nil {
		c.Noise = n.String()
	}
	if c.Optimizer == "dropout-descent" {
		c.NoisyGradient = NoisyGradient(strconv.FormatBool(c.Noisy()))
	}
	if m, err := model.ParseStandardize(c.Standardize); err == nil {
		c.Standardize = string(m)
	}
	if c.IRLSWindow <= c.IRLSBatch {
		c.IRLSWindow = 0 // the default, as if the key were absent
	}
	f := Fingerprint{}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if key := keyOf(v.Type().Field(i)); v.Type().Field(i).IsExported() && !slices.Contains(mayChange, key) {
			f[key] = fmt.Sprint(v.Field(i).Interface()) // fmt sorts map keys
		}
	}
	if c.MaxMemory == DefaultConfig().MaxMemory {
		delete(f, keyMaxMemory) // an absent key means no limit
	}
	return f
}

// levels returns the noise levels (dropout rates) of features and of groups. ok is false if the noise is not "auto".
func (f Fingerprint) levels() (features, groups []float64, ok bool) {
	text, ok := strings.CutPrefix(f["noise"], "auto ")
	first, second, _ := strings.Cut(text, " groups ")
	read := func(list string) (out []float64) {
		for _, level := range strings.Fields(strings.Trim(list, "[]")) {
			q, err := strconv.ParseFloat(level, 64)
			ok = ok && err == nil
			out = append(out, q)
		}
		return out
	}
	features, groups = read(first), read(second)
	return features, groups, ok
}

// Config returns the Config that has the settings of the Fingerprint. Keys that are not in the Fingerprint keep their
// default. Keys that Config does not have are ignored.
func (f Fingerprint) Config() (Config, error) {
	c := DefaultConfig()
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		key := keyOf(v.Type().Field(i))
		text, ok := f[key]
		if !ok || slices.Contains(mayChange, key) {
			continue
		}
		if key == "noise" {
			if features, groups, ok := f.levels(); ok {
				text, c.Levels, c.GroupLevels = "auto", features, groups
			}
		}
		if err := parseInto(v.Field(i), text); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, c.Check()
}

// parseInto sets v to the value that fmt.Sprint formatted as text. Keys of a map may contain spaces and colons. A key
// is misread if it contains text that looks like a map entry, and then Diff reports a difference.
func parseInto(v reflect.Value, text string) (err error) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		var x bool
		x, err = strconv.ParseBool(text)
		v.SetBool(x)
	case reflect.Int:
		var x int
		x, err = strconv.Atoi(text)
		v.SetInt(int64(x))
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		v.SetFloat(x)
	case reflect.Map:
		v.SetZero()
		list, ok := strings.CutPrefix(text, "map[")
		list, closed := strings.CutSuffix(list, "]")
		if !ok || !closed {
			return fmt.Errorf("%q is no map", text)
		}
		for list != "" {
			m := mapEntry.FindStringSubmatchIndex(list)
			if m == nil {
				return fmt.Errorf("%q is no map", text)
			}
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			x := reflect.New(v.Type().Elem()).Elem()
			if err := parseInto(x, list[m[4]:m[5]]); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(list[m[2]:m[3]]), x)
			list = list[m[1]:]
		}
	default:
		return fmt.Errorf("a %s cannot be read", v.Kind())
	}
	return err
}

// mapEntry matches the first entry of a formatted map. The values of the map are numbers.
var mapEntry = regexp.MustCompile(`^(?s)(.*?):([-+.0-9e]+)(?: |$)`)

// Diff describes the differences from the Fingerprint was in sentences for users, sorted by key. If the result is
// empty, learning can continue.
func (f Fingerprint) Diff(was Fingerprint) []string {
	keys := maps.Clone(f)
	maps.Copy(keys, was)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if f[key] != was[key] && key != keyMaxMemory {
			out = append(out, fmt.Sprintf("%s: was %q, is %q", key, was[key], f[key]))
		}
	}
	return out
}

// checkNumbers rejects settings for classification if the loss is for regression.
func (c Config) checkNumbers(s checked) error {
	for _, x := range []struct {
		key   string
		wrong bool
		why   string
	}{
		{"optimizer", s.optimizer.ClassesOnly, fmt.Sprintf("optimizer %s: needs classes, but loss %s is for regression; use adagrad, dropout-descent or ftrl", c.Optimizer, c.Loss)},
		{"irls_batch", c.IRLSBatch > 0, fmt.Sprintf("irls_batch = %d: needs classes, but loss %s is for regression; set irls_batch = 0", c.IRLSBatch, c.Loss)},
		{"noise", s.levels().Grouped(), fmt.Sprintf("noise %q: group noise needs classes, but loss %s is for regression; use auto, dropout:Q or none", c.Noise, c.Loss)},
		{"class_weight", len(c.ClassWeight) > 0, fmt.Sprintf("class_weight: loss %s is for regression, without classes", c.Loss)},
		{"calibrate", c.Calibrate == "on", fmt.Sprintf("calibrate: loss %s is for regression, without probabilities", c.Loss)},
		{"threshold", c.Threshold != 0.5, fmt.Sprintf("threshold = %v: loss %s is for regression, without probabilities", c.Threshold, c.Loss)},
		{"missing_policy", s.missingPolicy == model.MissingRescale, fmt.Sprintf("missing_policy %q: needs classes; for regression use none, impute or auto", c.MissingPolicy)},
	} {
		if x.wrong {
			return event.KeyErrorf(x.key, "%s", x.why)
		}
	}
	return nil
}

// Use sets the optimizer to an entry that need not be in optimizers.Table. It is for experiments.
func (c *Config) Use(e optimizers.Entry) { c.Optimizer, c.custom = e.Name, &e }

// entry returns the entry of the optimizer. known is false if there is none.
func (c Config) entry() (e optimizers.Entry, known bool) {
	if c.custom != nil && c.custom.Name == c.Optimizer {
		return *c.custom, true
	}
	return optimizers.Find(c.Optimizer)
}

// Check returns an error that names the first invalid setting.
func (c Config) Check() error {
	_, err := c.checked()
	return err
}
