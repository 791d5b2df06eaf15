package papers

import (
	"context"
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/papers/comparators"
	"blankout/simulate"
)

// onlineOptimizers makes one pass over recorded streams with every update rule. It also tests whether AdaGrad's sums of
// squared gradients equal the Fisher information of dropout descent.
var onlineOptimizers = Experiment{
	Name:  "online",
	Help:  "progressive errors of SGD, AdaGrad, AROW and dropout's own rules on streams",
	Paper: "Wager, Wang & Liang 2013",
	Part:  "section 5",
	Needs: []string{"elec2", "sea", "spam_stream", "airlines_50k", "gas_drift"},
	Run:   runOnline,
}

var streamSets = []struct {
	name    string
	classes []string
	sparse  bool // features are presence of words or categories, which are not centered
}{
	{"elec2", []string{"-1", "1"}, false},
	{"sea", []string{"-1", "1"}, false},
	{"spam_stream", []string{"-1", "1"}, true},
	{"airlines_50k", []string{"-1", "1"}, true},
	{"gas_drift", []string{"0", "1", "2", "3", "4", "5"}, false},
}

// onlineConfig has the candidate settings. The settings with the lowest progressive log-loss on the first part of a
// stream are used for the whole stream.
type onlineConfig struct {
	Part   float64   `json:"part"`
	Etas   []float64 `json:"etas"`
	Levels []float64 `json:"levels"` // dropout levels, for rules that need one
	R      []float64 `json:"r"`      // r of AROW
	Events int       `json:"events"` // largest number of events; 0 means all
	Points int       `json:"points"` // number of points of the curves
}

// onlineOptimizer is an update rule in the comparison. It uses the iterate without averaging and does not adapt the
// learning rate. Only the last update rules, from quadratic noising to the default, do both.
type onlineOptimizer struct {
	name          string
	eta, noisy, r bool // whether to tune the learning rate, the dropout level, and r
	set           func(c *online.Config, level float64)
}

var comparedOptimizers = []onlineOptimizer{
	{"SGD", true, false, false, func(c *online.Config, _ float64) {
		c.Use(comparators.SGD)
		c.Noise = "none"
	}},
	{"AdaGrad", true, false, false, func(c *online.Config, _ float64) { c.Optimizer, c.Noise = "adagrad", "none" }},
	{"AROW", false, false, true, func(c *online.Config, _ float64) {
		c.Use(comparators.AROW)
		c.Noise, c.Loss = "none", "hinge"
	}},
	{"dropout descent", true, true, false, func(c *online.Config, q float64) {
		c.Optimizer, c.Noise, c.NoisyGradient = "dropout-descent", loss.Dropout{Q: q}.String(), "false"
	}},
	{"dropout descent, marginalized", true, true, false, func(c *online.Config, q float64) {
		c.Optimizer, c.Noise, c.NoisyGradient = "dropout-descent", loss.Dropout{Q: q}.String(), "true"
	}},
	{"AdaGrad, marginalized", true, true, false, func(c *online.Config, q float64) {
		c.Optimizer, c.Noise = "adagrad", loss.Dropout{Q: q}.String()
	}},
	{"refresh of 200", false, true, false, func(c *online.Config, q float64) {
		c.Optimizer, c.Noise, c.IRLSBatch = "irls", loss.Dropout{Q: q}.String(), 200
	}},
	{"quadratic noising", false, false, false, func(c *online.Config, _ float64) {
		*c = online.DefaultConfig()
		c.Optimizer, c.Loss, c.Noise = "dropout-descent", "logistic:quadratic-noising", "dropout:0.5"
	}},
	{"quadratic noising, IRLS refreshes", false, false, false, func(c *online.Config, _ float64) {
		*c = online.DefaultConfig()
		c.Preset = "quadratic-noising"
	}},
	{"default", false, false, false, func(c *online.Config, _ float64) { *c = online.DefaultConfig() }},
}

// The indexes of the update rules that claims refer to.
const (
	optimizerSGD = iota
	optimizerAdaGrad
	_
	optimizerDescent
	_
	_
	_
	optimizerQuadratic
	optimizerRefreshed
)

// onlineSetting has the tuned values: the learning rate (r for AROW) and the dropout level.
type onlineSetting struct{ Eta, Level float64 }

// onlinePass is the result of one pass. After several numbers of events it has the cumulative error in percent and the
// log-loss in nats. It also has the events that were predicted wrongly.
type onlinePass struct {
	onlineSetting
	Events         []int
	Error, LogLoss []float64
	Wrong          mistakes
}

func (p onlinePass) last() (wrong, logLoss float64) {
	return p.Error[len(p.Error)-1], p.LogLoss[len(p.LogLoss)-1]
}

func runOnline(ctx context.Context, s *Setting) error {
	c := onlineConfig{Part: Pick(s, 0.5, 0.1, 0.1), Etas: Pick(s, []float64{0.1, 1}, []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}, []float64{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}),
		Levels: Pick(s, []float64{0.5}, []float64{0.1, 0.3, 0.5}, []float64{0.05, 0.1, 0.2, 0.3, 0.5, 0.7}), R: Pick(s, []float64{1}, []float64{1e-5, 1e-4, 0.001, 0.01, 0.1, 1, 10, 100}, []float64{1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 1, 10, 100, 1000}), Points: Pick(s, 10, 60, 60)}
	s.Configure(c)
	names := mapped(comparedOptimizers, func(r onlineOptimizer) string { return r.name })
	wrong := ResultTable{Title: "Progressive error of one pass, %", Digits: 2, Columns: append([]string{"stream", "events", "constant answer"}, names...)}
	loss := ResultTable{Title: "Progressive log-loss of one pass, nats", Digits: 4, Columns: append([]string{"stream", "events"}, names...)}
	chosen := ResultTable{Detail: true, Title: "Settings chosen on the first part of each stream: learning rate, dropout level", Columns: append([]string{"stream"}, names...)}
	fisher := ResultTable{Title: "AdaGrad's sums of squared gradients and the Fisher information, over features seen 20 times or more", Digits: 3,
		Columns: []string{"stream", "features", "correlation of the logarithms", "median ratio", "a tenth below", "a tenth above"}}
	var passed [][]onlinePass // passes by stream and rule
	var information []fisherMatch
	for _, set := range streamSets {
		schema := Classes(set.classes...)
		examples, err := s.examples(ctx, schema, set.name, nil, "stream.svm.gz")
		if err != nil {
			return err
		}
		passes, err := Cells(ctx, s, len(comparedOptimizers), func(ctx context.Context, i int) (any, func() (onlinePass, error)) {
			r := comparedOptimizers[i]
			key := struct {
				Stream, Rule string
				onlineConfig
			}{set.name, r.name, c}
			return key, func() (onlinePass, error) {
				s.Say("%s, %s", set.name, r.name)
				return c.best(ctx, r, schema, examples)
			}
		})
		if err != nil {
			return err
		}
		figure := &simulate.Figure{Title: set.name + ": every event is scored before it is learned", X: "events", Y: "error so far, %", LogY: true}
		row, lossRow, choice := []any{set.name, len(examples), constantError(len(examples), func(i int) int { return examples[i].Label })}, []any{set.name, len(examples)}, []any{set.name}
		for i, r := range comparedOptimizers {
			p := passes[i]
			e, l := p.last()
			row = append(row, e)
			if r.name == "AROW" {
				lossRow = append(lossRow, nil) // its scores are not log-odds
			} else {
				lossRow = append(lossRow, l)
			}
			text := ""
			if r.eta {
				text = fmt.Sprint(p.Eta)
			}
			if r.noisy {
				text += fmt.Sprintf(" / %g", p.Level)
			} else if r.r {
				text = fmt.Sprintf("r = %g", p.Eta)
			}
			choice = append(choice, text)
			line := simulate.Series{Name: r.name, Form: simulate.BareLine, Dashed: r.name == "default"}
			for k, n := range p.Events {
				if n >= len(examples)/50 && p.Error[k] > 0 { // the first points are noisy and would stretch the axis
					line.X, line.Y = append(line.X, float64(n)), append(line.Y, p.Error[k])
				}
			}
			figure.Series = append(figure.Series, line)
		}
		passed = append(passed, passes)
		wrong.Rows, loss.Rows, chosen.Rows = append(wrong.Rows, row), append(loss.Rows, lossRow), append(chosen.Rows, choice)
		s.Figure(set.name, figure)
		if !set.sparse {
			continue
		}
		key := struct {
			Stream, Part string
		}{set.name, "Fisher information"}
		match, err := Cell(ctx, s, key, func() (fisherMatch, error) { return matchFisher(schema, examples) })
		if err != nil {
			return err
		}
		match.Stream = set.name
		information = append(information, match)
		fisher.Rows = append(fisher.Rows, []any{set.name, match.Features, match.Correlation.Mean, match.Ratios[1], match.Ratios[0], match.Ratios[2]})
	}
	s.Table(wrong)
	s.Table(loss)
	s.Table(chosen)
	s.Table(fisher)
	c.claims(s, passed, information)
	return nil
}

// best chooses the settings of a rule on the first part of a stream, and then learns the whole stream. It chooses by
// the log-loss, or by the error for AROW.
func (c onlineConfig) best(ctx context.Context, r onlineOptimizer, schema *event.Schema, examples []event.Example) (onlinePass, error) {
	etas, levels := []float64{0}, []float64{0}
	switch {
	case r.eta:
		etas = c.Etas
	case r.r:
		etas = c.R
	}
	if r.noisy {
		levels = c.Levels
	}
	settings := crossed(etas, levels, func(eta, level float64) onlineSetting { return onlineSetting{eta, level} })
	chosen, err := choose(ctx, 1, settings, func(ctx context.Context, x onlineSetting) (Held, error) {
		p, err := c.pass(ctx, r, x, schema, examples[:int(c.Part*float64(len(examples)))])
		if err != nil {
			return Held{}, err
		}
		wrong, logLoss := p.last()
		if r.r { // scores of AROW are not log-odds
			return Held{Loss: wrong}, nil
		}
		return Held{Loss: logLoss}, nil
	})
	if err != nil {
		return onlinePass{}, err
	}
	return c.pass(ctx, r, chosen, schema, examples)
}

func (c onlineConfig) pass(ctx context.Context, r onlineOptimizer, x onlineSetting, schema *event.Schema, examples []event.Example) (onlinePass, error) {
	p := onlinePass{onlineSetting: x, Wrong: make(mistakes, len(examples))}
	config := online.DefaultConfig()
	config.Average, config.Adapt = 0, false
	r.set(&config, x.Level)
	config.LearningRate = x.Eta
	l := newLearner(config, schema)
	for i := range examples {
		told := l.Learn(&examples[i], nil)
		if model.Predict(told.Alone().Scores) != examples[i].Label {
			p.Wrong[i] = 1
		}
		if i+1 == len(examples)*(len(p.Events)+1)/c.Points {
			if err := ctx.Err(); err != nil {
				return p, err
			}
			m := l.Report().Total
			p.Events = append(p.Events, i+1)
			p.Error, p.LogLoss = append(p.Error, 100*m.Error()), append(p.LogLoss, min(m.MeanLogLoss(), math.MaxFloat64))
		}
	}
	return p, nil
}

// fisherMatch compares two diagonal matrices by feature. One is the sum of squared gradients (p-y)^2 x^2, and the other
// is the Fisher information, the sum of p(1-p) x^2. Both are computed with the predictions p that AdaGrad made while
// learning.
type fisherMatch struct {
	Stream      string
	Features    int
	Correlation Difference // correlation of the logarithms
	Ratios      [3]float64 // ratios of squared gradients to information: tenth percentile, median, ninetieth percentile
}

func matchFisher(schema *event.Schema, examples []event.Example) (fisherMatch, error) {
	config := online.DefaultConfig()
	config.Noise, config.Average, config.Adapt, config.Standardize = "none", 0, false, "none"
	l := newLearner(config, schema)
	type sums struct {
		seen                  int
		gradient, information float64
	}
	byFeature := make([]sums, schema.Columns())
	for i := range examples {
		e := &examples[i]
		told := l.Learn(e, nil)
		p := 1 / (1 + math.Exp(-told.Alone().Scores[0]))
		g := p - float64(e.Label)
		for j, d := range e.Features.Index {
			s, x := &byFeature[d], e.Features.Value[j]
			s.seen++
			s.gradient += g * g * x * x
			s.information += p * (1 - p) * x * x
		}
	}
	var a, b, ratios []float64
	for _, s := range byFeature {
		if s.seen >= 20 && s.gradient > 0 && s.information > 0 {
			a, b = append(a, math.Log(s.gradient)), append(b, math.Log(s.information))
			ratios = append(ratios, s.gradient/s.information)
		}
	}
	if len(a) < 2 {
		return fisherMatch{}, fmt.Errorf("%d features are seen 20 times", len(a))
	}
	slices.Sort(ratios)
	m := fisherMatch{Features: len(a), Correlation: correlation(a, b)}
	if math.IsNaN(m.Correlation.Mean) { // all features are equal
		m.Correlation.Mean = 0
	}
	for i, fraction := range []float64{0.1, 0.5, 0.9} {
		m.Ratios[i] = ratios[int(fraction*float64(len(ratios)-1))]
	}
	return m, nil
}

func (c onlineConfig) claims(s *Setting, passed [][]onlinePass, information []fisherMatch) {
	ratios := ""
	var parts []Part
	for _, m := range information {
		ratios += fmt.Sprintf(", %.2f on %s", m.Ratios[1], m.Stream)
		parts = append(parts, above(m.Stream, m.Correlation, 0.95))
	}
	s.Claim(Claim{Claim: "AdaGrad's sums of squared gradients estimate the Fisher information: their logarithms correlate by more than 0.95", Paper: "equal in expectation at the optimum", Ours: "median ratio " + ratios[2:], Parts: parts,
		Why: "the equality holds for calibrated predictions: where it is learned that nearly all events are certain, a few mistakes make the squared gradients while the information of the others vanishes"})
	parts = nil
	for i, set := range streamSets {
		a, b := passed[i][optimizerDescent].Wrong, passed[i][optimizerAdaGrad].Wrong
		for k, pair := range [][2]mistakes{{a, b}, {b, a}} {
			each := make([]float64, len(a))
			for k := range each {
				each[k] = 100 * (float64(pair[0][k]) - 1.25*float64(pair[1][k]))
			}
			parts = append(parts, below(fmt.Sprintf([]string{"%s, dropout descent's %.2f %% less 5/4 of AdaGrad's", "%s, AdaGrad's %.2f %% less 5/4 of dropout descent's"}[k], set.name, pair[0].error()), pairedT(each), 0))
		}
	}
	s.Claim(Claim{Own: true, Claim: "the errors of dropout descent and AdaGrad are within a quarter of each other on every stream", Parts: parts, Unit: "points",
		Why: "its steps fall as 1/t, AdaGrad's as the root of that: where the stream drifts the former stops following"})
	// less makes the claim that a rule has a smaller error than another on every stream, by the limit.
	less := func(claim Claim, rule, other int, limit float64) {
		for i, set := range streamSets {
			claim.Parts = append(claim.Parts, below(set.name, mcNemar(passed[i][rule].Wrong, passed[i][other].Wrong), limit))
		}
		s.Claim(claim)
	}
	less(Claim{Own: true, Claim: "AdaGrad beats plain SGD on every stream", Unit: "points of error", Why: "it does worse on one of them"}, optimizerAdaGrad, optimizerSGD, 0)
	less(Claim{Own: true, Claim: "dropout descent beats plain SGD on every stream", Unit: "points of error", Why: "it does worse on one of them"}, optimizerDescent, optimizerSGD, 0)
	less(Claim{Own: true, Claim: "IRLS refreshes cost quadratic noising less than 0.1 points on every stream", Unit: "points", Why: "they take effect on a stream that drifts"}, optimizerRefreshed, optimizerQuadratic, 0.1)
	s.Note("Quadratic noising is dropout descent with the paper's quadratic penalty at dropout 0.5 (bound quadratic-noising), with every other key at its default. With IRLS refreshes it is `learner.preset = \"quadratic-noising\"`: 200 events at a time the latest 1,000 are solved under the same penalty, and a refresh remains in effect only while its weights lose less than the step's on the events that follow.")
	s.Note("The paper derives the rules and shows no experiment. Learning rate and dropout level have the lowest progressive log-loss on the first %.0f %% of a stream, AROW's r the lowest error. \"default\" is the learner with every key at its default. Verdicts are McNemar's test on the same events, each predicted before it is learned.", 100*c.Part)
	s.Note("Fisher information equals the squared gradients only for calibrated predictions. If nearly all events are certain, a few mistakes dominate the squared gradients. Dropout descent stops following a stream that drifts, because its steps fall as 1/t.")
}
