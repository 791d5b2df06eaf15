package online

// This file converts a Config to the settings of the parts of a Learner.

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/additive"
	"blankout/online/experts/discriminant"
	"blankout/online/experts/levels"
	"blankout/online/experts/newton"
	"blankout/online/readings"
	"blankout/online/refresh"
	"blankout/online/schedule"
)

// settings holds the values of a Config in the form that the Learner uses.
type settings struct {
	levels      levels.Settings
	standardize model.Standardize
	scales      []float64 // scales of the components, see mixture.Settings
	policy      model.MissingPolicy
	imputed     int // largest number of columns that are imputed
	faulty      readings.Faulty
	silence     encode.Silence
	presence    bool
	likelihood  bool // whether scores are log-odds
	expected    int  // index of the level with the expected noise
	corrects    bool // whether experts correct the noise levels
}

// If there are several noise levels, the scores of each are also mixed after multiplication by each of scales. If there
// is a single level, only oneScale is used. Silent noise needs more scales (silentScales): heavy dropout predicts with
// weights times 1/(1-q) if the present features are not rescaled.
var scales, oneScale, silentScales = []float64{0.7, 1, 1.4}, []float64{1}, []float64{0.5, 0.7, 1, 1.4, 2}

func parse(c Config) (settings, error) {
	of, err := c.checked()
	if err != nil {
		return settings{}, err
	}
	s := settings{scales: scales, standardize: of.standardize, policy: of.missingPolicy}
	rule, l := of.optimizer, of.loss
	if s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll {
		s.imputed = c.CovarianceMaxFields
	}
	s.likelihood = strings.HasPrefix(l.String(), "logistic") || c.Calibrate == "on"
	s.faulty = readings.Faulty{Stuck: c.Doubt != "off", Declares: c.Doubt == "auto"}
	a := &s.levels
	*a = levels.Settings{
		Optimizer: rule, Loss: l, Rate: c.LearningRate, Start: c.Start, Ridge: of.ridge, L1: c.L1, Average: c.Average, Adapts: c.Adapt,
		Intercept: c.Intercept != "none", Penalized: c.Intercept == "penalized", Clean: !c.Noisy(), Observed: of.observed, Noises: of.noises,
	}
	a.Window = refresh.Settings{
		Size: c.IRLSBatch, Reach: max(c.IRLSBatch, c.IRLSWindow), Loss: l, Ridge: a.Ridge, Intercept: a.Intercept, Penalized: a.Penalized, Marginalized: !a.Clean, Only: c.Optimizer == "irls",
	}
	if a.FreeRate = a.Rate == 0; a.FreeRate {
		a.Rate = rule.Eta
	}
	noise, isSilent := a.Silent()
	single := len(a.Noises) == 1
	if a.Window.Pairs = a.Windows() && !a.Window.Only && !isSilent; a.Window.Pairs {
		a.Noises = append(a.Noises, a.Noises...)
	}
	bends := a.Square() && (s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll)
	s.presence = c.Presence == "auto" && bends && (!a.Windows() || a.Window.Pairs)
	s.corrects = rule.Second && newton.Wanted(l) && a.Intercept && bends && !a.Observed && !slices.ContainsFunc(a.Noises, func(n loss.Noise) bool { return loss.AsGroups(n).Rates != nil })
	if s.corrects {
		a.More = 1
	}
	s.silence = encode.Silence{Learned: isSilent, Groups: noise.Groups}
	switch {
	case l.Facts().Regression || single && !isSilent:
		s.scales = oneScale
	case isSilent:
		s.scales = silentScales
	}
	if isSilent {
		s.expected = len(a.Noises) - 1
		return s, nil
	}
	for v, n := range a.Noises {
		near := func(n loss.Noise) float64 {
			g := loss.AsGroups(n)
			return math.Abs(g.Q-c.ExpectedMissing) + math.Abs(g.Groups-c.ExpectedMissingGroups)
		}
		if near(n) < near(a.Noises[s.expected]) {
			s.expected = v
		}
	}
	return s, nil
}

// encoded returns the settings of the Encoder. outputs returns the current number of outputs.
func (s *settings) encoded(policies model.MissingPolicies, outputs func() int) encode.Settings {
	levels := &s.levels
	return encode.Settings{
		Standardize: s.standardize, Width: levels.Width(levels.Outputs), Policies: policies, Numbers: levels.Loss.Facts().Regression, Faulty: s.faulty, Silence: s.silence, Presence: s.presence,
		Together: encode.Together{Grouping: levels.Grouping, Fields: levels.Grouped(), Rates: levels.Observed},
		Constant: levels.Constant(), Intercept: levels.Intercept, Knots: s.knots(outputs),
	}
}

// newExperts returns the experts that correct the noise levels. There are none if the settings exclude them, and corrects
// is then nil, see mixture.Settings.
func (s *settings) newExperts(outputs int, halfLife float64) (x *experts.Experts, corrects func() bool) {
	c := experts.Settings{Outputs: outputs, At: s.levels.End(outputs)}
	if !s.corrects {
		return experts.New(c), nil
	}
	halfLife = cmp.Or(halfLife, correctHalfLife)
	own, groups := loss.AsGroups(s.levels.Noises[s.expected]).Odds("") // 0 for silent noise, because the experts then learn masked copies
	l := s.levels.Loss
	c.Groups, c.Samples = groups, s.levels.Adapts && schedule.Samples(l)
	second := newton.Settings{Loss: l, Ridge: max(s.levels.Ridge, leastRidge), HalfLife: halfLife, Strength: own * (1 + groups), Groups: groups}
	if c.List, c.Weights = []experts.Expert{newton.New(second, outputs)}, []float64{1}; !l.Facts().Regression && !s.levels.Grouped() {
		c.List = append(c.List, additive.New(l, second.Strength, outputs), discriminant.New(outputs, halfLife))
		c.Weights = []float64{0.4, 0.2, 0.2, 0.2} // 0.5, 0.25 and 0.25 while the discriminant is idle
	}
	x = experts.New(c)
	return x, x.Counts
}

const (
	// correctHalfLife is the default half-life, in events, of the second-order expert.
	correctHalfLife = 2000
	// leastRidge is the smallest ridge of the second-order expert. It keeps the matrix of the expert invertible if no
	// ridge is configured.
	leastRidge = 1e-3
)

// knots returns the function that determines the number of knots per spline, or nil if there are no splines.
func (s *settings) knots(outputs func() int) func(numbers int) int {
	if !s.corrects {
		return nil
	}
	return func(numbers int) int { return experts.Knots(numbers, outputs()) }
}
