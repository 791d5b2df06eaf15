package online

// This file finds out how a bank of levels answers events that lack fields best: for each range
// of the share that is missing, by which level and under which rule. An event that lacks nothing
// is answered by the level that forecast.go chooses, and so is every event where labels are
// numbers: their intervals do not tell how far the weights of a stronger noise are off for the
// fields that are left.

import (
	"math"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// answerChoice compares, for a range of shares, the answers of each level under each rule: on
// events that lack a share of their fields by themselves and, until there are enough of these,
// on those of which a mask deletes it. An answer is the number level missingRuleCount + rule,
// the rules in the order as is, rescale, fill.
type answerChoice struct {
	events float64
	own    float64 // that lacked fields by themselves
	// By answer: decayed sums of what it loses more than the natural level as is, and of the
	// squares.
	sum, squares []float64
	level        int // that answers; published as long as nothing speaks for any. The rule is in missing.model
}

// missingRuleCount is the number of rules for missing fields, which missingRules lists in the
// order of blankout.RuleLosses.
const missingRuleCount = len(model.RuleLosses{})

var missingRules = [missingRuleCount]model.MissingRule{model.MissingAsIs, model.MissingRescale, model.MissingFill}

// comparedLater is every how many events the answers are compared on one that lacks fields by
// itself, after the first ones.
const comparedLater = 16

// answerSure is by how many standard errors another level must be better.
const answerSure = 2.0

// published stands for the level that is published for events that lack nothing.
const published = -1

func newAnswerChoices(levels int) (choices [model.MissingBins]answerChoice) {
	n := levels * missingRuleCount
	for i := range choices {
		choices[i] = answerChoice{sum: make([]float64, n), squares: make([]float64, n), level: published}
	}
	return choices
}

// take adds what the answers to an event lose; natural is the one that the others are compared
// with.
func (c *answerChoice) take(losses []float64, natural int) {
	c.events++
	keep := 1 - 1/min(ruleMemory, 8+c.events/2)
	for i := range losses {
		d := losses[i] - losses[natural]
		c.sum[i] = keep*c.sum[i] + d
		c.squares[i] = keep*c.squares[i] + d*d
	}
}

// better returns the answer that loses least of those that are allowed and of which it is sure
// enough that they lose less than now does; now itself in doubt. A rule takes over, and so does
// the natural level, where what speaks for it is more than chance often explains; another level
// must be better beyond doubt, for there are many to choose from.
func (c *answerChoice) better(now, home int, allowed func(rule int) bool) int {
	best := now
	if c.events < leastCompared {
		return now
	}
	for i := range c.sum {
		bar := answerSure
		if level := i / missingRuleCount; level == now/missingRuleCount || level == home {
			bar = takesOver
		}
		// The deviation of a difference of two is at most the sum of theirs.
		chance := bar * (math.Sqrt(c.squares[i]) + math.Sqrt(c.squares[now]))
		if allowed(i%missingRuleCount) && c.sum[now]-c.sum[i] > chance && c.sum[i] < c.sum[best] {
			best = i
		}
	}
	return best
}

// choosesLevels says whether events that lack fields may be answered by another level than
// those that do not.
func (l *answering) choosesLevels() bool {
	return len(l.levels) > 1 && l.config.PublishLevels && !l.set.numbers
}

// levelFor returns the level that answers events that lack k.
func (l *answering) levelFor(k model.Lack) int {
	if !k.Some() {
		return l.chosen
	}
	return l.levelOf(model.MissingBin(k.Share()))
}

// levelOf returns the level that answers events of a range of shares.
func (l *answering) levelOf(bin int) int {
	if c := &l.missing.answers[bin]; l.choosesLevels() && c.level != published {
		return c.level
	}
	return l.chosen
}

// compareAnswersOwn compares the answers to the event at hand, which lacks fields by itself.
func (l *answering) compareAnswersOwn(e *blankout.Example, label int) {
	f, k := &l.filling, l.missing.event.lack
	every := uint64(1)
	switch {
	case l.events > drawFirst:
		every = comparedLater
	case l.events > forecastFirst:
		every = forecastEvery
	}
	if k.Named+k.Silent == 0 || l.events%(every*uint64(1+len(f.columns)/128)) != 0 {
		return
	}
	c := &l.missing.answers[model.MissingBin(k.Share())]
	if c.own++; c.own == comparisonOwn {
		c.events = comparisonOwn // what masks had to say fades quickly
	}
	f.vec = l.modelOf(l.chosen).Standardised(e, blankout.Vec{Index: f.vec.Index[:0], Value: f.vec.Value[:0]})
	l.compareAnswers(c, f.vec, e, k, label)
}

// compareAnswers compares the answers to what x and e say is left of an event, which lacks k.
func (l *answering) compareAnswers(c *answerChoice, x blankout.Vec, e *blankout.Example, k model.Lack, label int) {
	f, rules := &l.filling, l.missing.model
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	f.losses = f.losses[:0]
	var forced [missingRuleCount]*model.Missing
	for i, rule := range missingRules {
		forced[i] = rules.Forced(rule)
	}
	for v := range l.levels {
		m := l.modelOf(v)
		for _, m.Missing = range forced {
			f.losses = append(f.losses, l.decision().LogLoss(m.ScoreLacking(x, e, f.answer), label))
		}
	}
	c.take(f.losses, l.natural()*missingRuleCount)
	bin := model.MissingBin(k.Share())
	was := l.levelOf(bin)*missingRuleCount + slices.Index(missingRules[:], rules.Null[bin])
	home := l.natural()
	if c.own >= comparisonOwn {
		home = l.chosen // by what it forecast of such events too
	}
	is := c.better(was, home, func(rule int) bool {
		if l.set.missingRule == model.MissingAuto {
			return missingRules[rule] != model.MissingFill || l.set.fills
		}
		return missingRules[rule] == l.set.missingRule
	})
	if is == was {
		return
	}
	if c.level = is / missingRuleCount; c.level == l.chosen {
		c.level = published
	}
	null, absent := rules.Null, rules.Absent
	null[bin] = missingRules[is%missingRuleCount]
	absent[bin] = null[bin]
	l.missing.model = rules.WithRules(null, absent)
	l.fadeForecasts(bin)
}

// servedForecast returns the forecast of what is answered: at each share by the level that
// answers such events, if it can be known at all what they lack.
func (l *answering) servedForecast(forecasts []Forecast) Forecast {
	out := forecasts[l.chosen]
	known := l.schema.Known || slices.ContainsFunc(l.schema.Fields, func(f blankout.Field) bool { return f.Kind.Named() })
	if !known || !l.choosesLevels() {
		return out
	}
	out.Groups = slices.Clone(out.Groups)
	for point := 1; point < ForecastPoints; point++ {
		from := &forecasts[l.levelOf(forecastBins[point])]
		if out.Error[point] = from.Error[point]; out.Groups != nil {
			out.Groups[point] = from.Groups[point]
		}
	}
	return out
}

// levelsByRange returns the levels that answer by range of the share that is missing, as
// model.Missing has them, and which levels of the bank those are, without the published
// one; nil where that answers everything.
func (l *answering) levelsByRange() (byRange, levels []int) {
	for bin := range model.MissingBins {
		if v := l.levelOf(bin); v != l.chosen && !slices.Contains(levels, v) {
			levels = append(levels, v)
		}
	}
	if levels == nil {
		return nil, nil
	}
	slices.Sort(levels)
	for bin := range model.MissingBins {
		byRange = append(byRange, 1+slices.Index(levels, l.levelOf(bin)))
	}
	return byRange, levels
}

// blockLevels is the block of the state that holds the comparisons of the answers.
const blockLevels = "levels"

// levelsState walks the block.
func (l *answering) levelsState(c *coder.Coder) {
	for i := range l.missing.answers {
		x := &l.missing.answers[i]
		c.Each(&x.events, &x.own)
		c.Floats(&x.sum)
		c.Floats(&x.squares)
		c.Int(&x.level)
		n := len(l.levels)
		c.Failed = c.Failed || len(x.sum) != n*missingRuleCount || len(x.squares) != n*missingRuleCount || x.level < published || x.level >= n
	}
}
