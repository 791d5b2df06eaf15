package online

// This file makes of a Config what the parts of a Learner are made from.

import (
	"math"
	"slices"
	"strings"
	"sync"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/correct"
	"blankout/online/encode"
	"blankout/online/levels"
	"blankout/online/newton"
	"blankout/online/refresh"
	"blankout/online/rules"
)

// settings are a Config's values as the Learner uses them.
type settings struct {
	levels      levels.Settings
	standardize model.Standardize
	transform   func(field string) model.Transform
	scales      []float64 // of the mixture
	policy      model.MissingPolicy
	imputed     int // how many numbers can be imputed
	faulty      encode.Faulty
	silence     encode.Silence
	presence    bool
	sharable    func() error // says why several learners cannot learn one model under the settings
	likelihood  bool         // scores are meant as log-odds
	expected    int          // the level whose noise is what the user expects to be missing
	corrects    bool         // experts learn beside the levels that correct them
}

// scales are those of several levels, oneScale that of one alone.
// Silent noise has more: heavy dropout is served with its weights times 1/(1-q) where what is left of an event is not
// rescaled.
var scales, oneScale, silentScales = []float64{0.7, 1, 1.4}, []float64{1}, []float64{0.5, 0.7, 1, 1.4, 2}

func parse(c Config) (settings, error) {
	s := settings{scales: scales}
	if err := c.Check(); err != nil {
		return s, err
	}
	rule, _ := rules.Find(c.Optimizer)
	l, err := loss.Parse(c.Loss)
	if err != nil {
		return s, err
	}
	if s.standardize, err = model.ParseStandardize(c.Standardize); err != nil {
		return s, err
	}
	if s.policy, err = model.ParseMissingPolicy(c.MissingPolicy); err != nil {
		return s, err
	}
	if s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll {
		s.imputed = c.CovarianceMaxFields
	}
	s.likelihood = strings.HasPrefix(l.String(), "logistic") && c.Optimizer != "arow" || c.Calibrate == "on"
	s.faulty = encode.Faulty{Stuck: c.Stuck != "off", Declares: c.Stuck == "missing", Limits: c.SilentMissing > 0}
	s.transform = func(field string) model.Transform {
		if t, ok := c.FieldTransform[field]; ok {
			return model.Transform(t)
		}
		return model.Transform(c.Transform)
	}
	s.sharable = sync.OnceValue(c.CheckShared)
	a := &s.levels
	*a = levels.Settings{
		Rule: rule, Loss: l, Rate: c.LearningRate, Start: c.Start, Ridge: 2 / loss.Cost(l, c.C), L1: c.L1, Average: c.Average, Adapts: c.Adapt,
		Intercept: c.Intercept != "none", Penalized: c.Intercept == "penalized", Clean: !c.Noisy(), Observed: c.Noise == loss.ObservedNoise,
	}
	a.Window = refresh.Settings{
		Size: c.IRLSBatch, Reach: max(c.IRLSBatch, c.IRLSWindow), Loss: l, Ridge: a.Ridge, Intercept: a.Intercept, Penalized: a.Penalized, Marginalized: !a.Clean, Only: c.Optimizer == "irls",
	}
	if a.FreeRate = a.Rate == 0; a.FreeRate {
		a.Rate = rule.Eta
	}
	if a.Noises, err = c.Noises(); err != nil {
		return s, err
	}
	noise, isSilent := a.Noises[len(a.Noises)-1].(loss.Silent)
	bends := a.Square() && (s.standardize == model.StandardizeAuto || s.standardize == model.StandardizeAll)
	s.presence = c.Presence == "auto" && bends && !a.Windows()
	s.corrects = rule.Second && newton.Wanted(l) && a.Intercept && bends && !a.Observed && !slices.ContainsFunc(a.Noises, func(n loss.Noise) bool { return loss.AsGroups(n).Rates != nil })
	s.silence = encode.Silence{Learned: isSilent, Groups: noise.Groups, Value: model.SilentValue(c.SilentValue)}
	switch {
	case l.Facts().Regression || len(a.Noises) == 1 && !isSilent:
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

// encoded returns what an Encoder is made from, for levels and policies.
func (s *settings) encoded(levels *levels.Expert, policies model.MissingPolicies) encode.Settings {
	c := encode.Settings{
		Standardize: s.standardize, Transform: s.transform, Width: s.width(levels.Outputs), Policies: policies, Faulty: s.faulty, Silence: s.silence, Presence: s.presence,
		Together: encode.Together{Grouping: levels.Grouping, Fields: levels.Grouped(), Rates: levels.Observed},
		Constant: levels.Constant(), Intercept: levels.Intercept, Knots: s.knots(),
	}
	if levels.Rule.Starts {
		c.Start = levels.StartRow
	}
	return c
}

// width returns how many values a row has of so many outputs.
func (s *settings) width(outputs int) int {
	more := 0
	if s.corrects {
		more = 1
	}
	return s.levels.Width(outputs, more)
}

// newExperts returns the experts that correct the levels, nil where the settings leave them out.
func (s *settings) newExperts(levels *levels.Expert, halfLife float64) *correct.Experts {
	if !s.corrects {
		return nil
	}
	if halfLife == 0 {
		halfLife = correctHalfLife
	}
	own, groups := loss.AsGroups(s.levels.Noises[s.expected]).Odds("") // 0 of silent noise: they learn masked copies
	c := correct.Settings{Outputs: levels.Outputs, Splines: !s.levels.Loss.Facts().Regression && !s.levels.Grouped(), At: levels.End()}
	c.Settings = newton.Settings{Loss: s.levels.Loss, Ridge: max(s.levels.Ridge, leastRidge), HalfLife: halfLife, Strength: own * (1 + groups), Groups: groups}
	return correct.New(c)
}

const (
	// correctHalfLife is that of what the second-order expert knows where none is configured, in events.
	correctHalfLife = 2000
	// leastRidge keeps its matrix regular where there is no ridge.
	leastRidge = 1e-3
)

// knots returns what says how many knots splines have, nil where there are none.
func (s *settings) knots() func(numbers int) int {
	if !s.corrects {
		return nil
	}
	return correct.Knots
}
