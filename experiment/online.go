package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"blankout"
	"blankout/online"
	"blankout/simulate"

	"gonum.org/v1/gonum/stat"
)

// One pass over recorded streams by every update rule, and whether AdaGrad's sums
// of squared gradients are the Fisher information of dropout descent.
var onlineRules = Experiment{
	Name:  "online",
	Help:  "progressive errors of SGD, AdaGrad, AROW and dropout's own rules on streams",
	Paper: "Wager, Wang & Liang 2013, section 5",
	Needs: []string{"elec2", "sea", "spam_stream", "airlines_50k", "gas_drift"},
	Run:   runOnline,
}

var streamSets = []struct {
	name    string
	classes []string
	sparse  bool // presence of words or categories: no mean to take away
}{
	{"elec2", []string{"-1", "1"}, false},
	{"sea", []string{"-1", "1"}, false},
	{"spam_stream", []string{"-1", "1"}, true},
	{"airlines_50k", []string{"-1", "1"}, true},
	{"gas_drift", []string{"0", "1", "2", "3", "4", "5"}, false},
}

// onlineConfig says what is tried: the settings with the lowest progressive
// log-loss over the first part of a stream are those for all of it.
type onlineConfig struct {
	Part   float64   `json:"part"`
	Etas   []float64 `json:"etas"`
	Levels []float64 `json:"levels"` // of dropout, where a rule needs one
	Events int       `json:"events"` // at most, 0: all
	Points int       `json:"points"` // of the curves
}

// onlineRule is an update rule as it is compared: the iterate itself, no averaging,
// no adaptation of the learning rate, but for the default at the end.
type onlineRule struct {
	name       string
	eta, noisy bool // what there is to tune
	set        func(c *online.Config, level float64)
}

var comparedRules = []onlineRule{
	{"SGD", true, false, func(c *online.Config, _ float64) { c.Rule, c.Noise = "sgd", "none" }},
	{"AdaGrad", true, false, func(c *online.Config, _ float64) { c.Rule, c.Noise = "adagrad", "none" }},
	{"AROW", false, false, func(c *online.Config, _ float64) { c.Rule, c.Noise, c.Loss = "arow", "none", "hinge" }},
	{"dropout descent", true, true, func(c *online.Config, q float64) {
		c.Rule, c.Noise, c.Marginalised = "dropout-descent", blankout.Dropout{Q: q}.String(), false
	}},
	{"dropout descent, marginalised", true, true, func(c *online.Config, q float64) {
		c.Rule, c.Noise = "dropout-descent", blankout.Dropout{Q: q}.String()
	}},
	{"AdaGrad, marginalised", true, true, func(c *online.Config, q float64) {
		c.Rule, c.Noise = "adagrad", blankout.Dropout{Q: q}.String()
	}},
	{"refresh of 200", false, true, func(c *online.Config, q float64) {
		c.Rule, c.Noise, c.Refresh = "irls", blankout.Dropout{Q: q}.String(), 200
	}},
	{"default", false, false, func(c *online.Config, _ float64) {
		d := online.DefaultConfig()
		c.Noise, c.Average, c.Adapt = d.Noise, d.Average, d.Adapt
	}},
}

// The places of rules that claims speak of.
const (
	ruleSGD = iota
	ruleAdaGrad
	_
	ruleDescent
)

// onlinePass is what one pass came to: cumulative error in percent and log-loss in
// nats after each of some numbers of events.
type onlinePass struct {
	Eta, Level     float64
	Events         []int
	Error, LogLoss []float64
}

func (p onlinePass) last() (wrong, logLoss float64) {
	return p.Error[len(p.Error)-1], p.LogLoss[len(p.LogLoss)-1]
}

func runOnline(ctx context.Context, s *Setting) error {
	c := onlineConfig{Part: Pick(s, 0.5, 0.1, 0.1), Etas: Pick(s, []float64{0.1, 1}, []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10}, []float64{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30}),
		Levels: Pick(s, []float64{0.5}, []float64{0.1, 0.3, 0.5}, []float64{0.05, 0.1, 0.2, 0.3, 0.5, 0.7}), Points: Pick(s, 10, 60, 60)}
	s.Configure(c)
	s.Expect(len(streamSets) * (len(comparedRules) + 1))
	wrong := ResultTable{Title: "Progressive error of one pass, %", Digits: 2, Columns: []string{"stream", "events"}}
	loss := ResultTable{Title: "Progressive log-loss of one pass, nats", Digits: 4, Columns: []string{"stream", "events"}}
	chosen := ResultTable{Title: "Settings chosen on the first part of each stream: learning rate, dropout level", Columns: []string{"stream"}}
	for _, r := range comparedRules {
		wrong.Columns, loss.Columns, chosen.Columns = append(wrong.Columns, r.name), append(loss.Columns, r.name), append(chosen.Columns, r.name)
	}
	fisher := ResultTable{Title: "AdaGrad's sums of squared gradients and the Fisher information, over features seen 20 times or more", Digits: 3,
		Columns: []string{"stream", "features", "correlation of the logarithms", "median ratio", "a tenth below", "a tenth above"}}
	var errors [][]float64 // by stream and rule
	var information []fisherMatch
	for _, set := range streamSets {
		schema := Classes(set.classes...)
		var examples []blankout.Example
		err := s.EachExample(ctx, schema, set.name, "stream.svm.gz", false, func(_ int, e *blankout.Example) error {
			k := *e
			k.Features, k.Key = e.Features.Clone(), nil
			k.Field = slices.Clone(e.Field)
			examples = append(examples, k)
			return nil
		})
		if err != nil {
			return err
		}
		passes := make([]onlinePass, len(comparedRules))
		err = s.Parallel(ctx, len(comparedRules), func(ctx context.Context, i int) (err error) {
			key := struct {
				Stream, Rule string
				onlineConfig
			}{set.name, comparedRules[i].name, c}
			passes[i], err = Cell(ctx, s, key, func() (onlinePass, error) {
				s.Say("%s, %s", set.name, comparedRules[i].name)
				return c.best(ctx, comparedRules[i], schema, examples)
			})
			return err
		})
		if err != nil {
			return err
		}
		figure := &simulate.Figure{Title: set.name + ": every event is scored before it is learned", X: "events", Y: "error so far, %", LogY: true}
		row, lossRow, choice := []any{set.name, len(examples)}, []any{set.name, len(examples)}, []any{set.name}
		var each []float64
		for i, r := range comparedRules {
			p := passes[i]
			e, l := p.last()
			each = append(each, e)
			row = append(row, e)
			if r.name == "AROW" {
				lossRow = append(lossRow, nil) // its scores are not logarithms of odds
			} else {
				lossRow = append(lossRow, l)
			}
			text := ""
			if r.eta {
				text = fmt.Sprint(p.Eta)
			}
			if r.noisy {
				text += fmt.Sprintf(" / %g", p.Level)
			}
			choice = append(choice, text)
			line := simulate.Series{Name: r.name, Form: simulate.BareLine, Dashed: r.name == "default"}
			for k, n := range p.Events {
				if n >= len(examples)/50 && p.Error[k] > 0 { // the first few say little and stretch the axis
					line.X, line.Y = append(line.X, float64(n)), append(line.Y, p.Error[k])
				}
			}
			figure.Series = append(figure.Series, line)
		}
		errors = append(errors, each)
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
		fisher.Rows = append(fisher.Rows, []any{set.name, match.Features, match.Correlation, match.Ratios[1], match.Ratios[0], match.Ratios[2]})
	}
	s.Table(wrong)
	s.Table(loss)
	s.Table(chosen)
	s.Table(fisher)
	c.claims(s, errors, information)
	return nil
}

// best chooses the settings of a rule on the first part of a stream and learns all of it.
func (c onlineConfig) best(ctx context.Context, r onlineRule, schema *blankout.Schema, examples []blankout.Example) (onlinePass, error) {
	etas, levels := []float64{0}, []float64{0}
	if r.eta {
		etas = c.Etas
	}
	if r.noisy {
		levels = c.Levels
	}
	var best onlinePass
	least := math.Inf(1)
	if len(etas)*len(levels) == 1 {
		best = onlinePass{Eta: etas[0], Level: levels[0]}
	} else {
		part := examples[:int(c.Part*float64(len(examples)))]
		for _, eta := range etas {
			for _, level := range levels {
				p, err := c.pass(ctx, r, eta, level, schema, part)
				if err != nil {
					return best, err
				}
				if _, l := p.last(); l < least || len(best.Error) == 0 {
					best, least = p, l
				}
			}
		}
	}
	return c.pass(ctx, r, best.Eta, best.Level, schema, examples)
}

func (c onlineConfig) pass(ctx context.Context, r onlineRule, eta, level float64, schema *blankout.Schema, examples []blankout.Example) (onlinePass, error) {
	p := onlinePass{Eta: eta, Level: level}
	config := online.DefaultConfig()
	config.Average, config.Adapt = 0, false
	r.set(&config, level)
	config.Eta = eta
	l, err := online.New(config, schema)
	if err != nil {
		return p, err
	}
	for i := range examples {
		l.Learn(&examples[i])
		if i+1 == len(examples)*(len(p.Events)+1)/c.Points {
			if err := ctx.Err(); err != nil {
				return p, err
			}
			m := l.Metrics().Total
			p.Events = append(p.Events, i+1)
			p.Error, p.LogLoss = append(p.Error, 100*m.Error()), append(p.LogLoss, min(m.MeanLogLoss(), math.MaxFloat64))
		}
	}
	return p, nil
}

// fisherMatch compares two diagonal matrices by feature: the sum of squared
// gradients (p-y)^2 x^2 and the Fisher information, the sum of p(1-p) x^2, both
// with the predictions made as AdaGrad went along.
type fisherMatch struct {
	Stream      string
	Features    int
	Correlation float64    // of the logarithms
	Ratios      [3]float64 // squared gradients to information: tenth percentile, median, ninetieth
}

func matchFisher(schema *blankout.Schema, examples []blankout.Example) (fisherMatch, error) {
	config := online.DefaultConfig()
	config.Noise, config.Average, config.Adapt, config.Standardise = "none", 0, false, "none"
	l, err := online.New(config, schema)
	if err != nil {
		return fisherMatch{}, err
	}
	type sums struct {
		seen                  int
		gradient, information float64
	}
	byFeature := map[uint32]*sums{}
	for i := range examples {
		e := &examples[i]
		f := l.Learn(e)[0]
		p := 1 / (1 + math.Exp(-f))
		g := p - float64(e.Label)
		for j, d := range e.Features.Index {
			s := byFeature[d]
			if s == nil {
				s = &sums{}
				byFeature[d] = s
			}
			x := e.Features.Value[j]
			s.seen++
			s.gradient += g * g * x * x
			s.information += p * (1 - p) * x * x
		}
	}
	var a, b, ratios []float64
	for d := range uint32(schema.Columns()) { // in order: sums must not depend on a map's
		if s := byFeature[d]; s != nil && s.seen >= 20 && s.gradient > 0 && s.information > 0 {
			a, b = append(a, math.Log(s.gradient)), append(b, math.Log(s.information))
			ratios = append(ratios, s.gradient/s.information)
		}
	}
	if len(a) < 2 {
		return fisherMatch{}, fmt.Errorf("%d features are seen 20 times", len(a))
	}
	slices.Sort(ratios)
	m := fisherMatch{Features: len(a), Correlation: stat.Correlation(a, b, nil)}
	if math.IsNaN(m.Correlation) { // of features that are all alike
		m.Correlation = 0
	}
	for i, share := range []float64{0.1, 0.5, 0.9} {
		m.Ratios[i] = ratios[int(share*float64(len(ratios)-1))]
	}
	return m, nil
}

func (c onlineConfig) claims(s *Setting, errors [][]float64, information []fisherMatch) {
	compare := func(a, b int) (text string, wins int, within float64) {
		for i, set := range streamSets {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %.2f / %.2f", set.name, errors[i][a], errors[i][b])
			if errors[i][a] <= errors[i][b] {
				wins++
			}
			within = max(within, math.Abs(math.Log(errors[i][a]/errors[i][b])))
		}
		return text, wins, within
	}
	least := 1.0
	numbers := ""
	for i, m := range information {
		least = min(least, m.Correlation)
		if i > 0 {
			numbers += "; "
		}
		numbers += fmt.Sprintf("%s: correlation of logarithms %.3f, median ratio %.2f", m.Stream, m.Correlation, m.Ratios[1])
	}
	s.Claim(Claim{Claim: "AdaGrad's sums of squared gradients estimate the Fisher information that dropout regularises with", Paper: "equal in expectation at the optimum", Ours: numbers, Verdict: Holds(least > 0.95),
		Why: "the equality holds for calibrated predictions: where it is learned that nearly all events are certain, a few mistakes make the squared gradients while the information of the others vanishes"})
	text, _, within := compare(ruleDescent, ruleAdaGrad)
	s.Claim(Claim{Claim: "dropout descent is a close relative of AdaGrad: their errors are within a quarter of each other", Paper: "no numbers", Ours: "error in %, dropout descent / AdaGrad: " + text, Verdict: Holds(within < math.Log(1.25)),
		Why: "its steps fall as 1/t, AdaGrad's as the root of that: where the stream drifts the former stops following"})
	text, wins, _ := compare(ruleAdaGrad, ruleSGD)
	s.Claim(Claim{Claim: "AdaGrad's metric beats plain SGD", Paper: "no numbers", Ours: fmt.Sprintf("on %d of %d streams; error in %%, AdaGrad / SGD: %s", wins, len(streamSets), text), Verdict: Holds(2*wins > len(streamSets)),
		Why: "numeric features are standardised, so that no metric is needed, and a constant rate follows drift"})
	text, wins, _ = compare(ruleDescent, ruleSGD)
	s.Claim(Claim{Claim: "dropout descent beats plain SGD", Paper: "no numbers", Ours: fmt.Sprintf("on %d of %d streams; error in %%, dropout descent / SGD: %s", wins, len(streamSets), text), Verdict: Holds(2*wins > len(streamSets)),
		Why: "its steps fall as 1/t: where the stream drifts it stops following"})
	s.Note("The paper derives the rules and shows no experiment. Features are standardised as the learner does by default (the comparison with the Fisher information takes them raw). Learning rate and dropout level have the lowest progressive log-loss over the first %.0f %% of a stream; that part is in the results as well. The rules show their last iterate; default is the learner as it is configured without being told anything, averaged and adaptive.", 100*c.Part)
}
