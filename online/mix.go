package online

// This file mixes what the levels of the bank say.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/probe"
)

// naturalShare is what the shares of the levels begin with for the level whose noise is what
// the user expects to be missing.
const naturalShare = 0.8

// The scales of one weight vector, of several levels of classes, and of levels beside a silent one or of that alone: heavy
// dropout is served with its weights times 1/(1-q) where what is left of an event is not rescaled.
var oneScale, levelScales, silentScales = []float64{1}, []float64{0.7, 1, 1.4}, []float64{0.5, 0.7, 1, 1.4, 2}

// newTable returns the shares that a stream begins with: most for the level whose noise is
// expected, and for filling in where numbers can be. What cannot be filled in is rescaled.
func (l *answering) newTable() *probe.Table {
	levels := make([]float64, len(l.levels))
	natural := l.natural()
	for v := range levels {
		if levels[v] = 1; len(levels) > 1 {
			levels[v] = (1 - naturalShare) / float64(len(levels)-1)
			if v == natural {
				levels[v] = naturalShare
			}
		}
	}
	return probe.NewTable(levels, l.scales(), l.firstRules())
}

// scales returns by what the scores of each level are multiplied to be compared.
func (l *answering) scales() []float64 {
	switch {
	case l.set.numbers || len(l.levels) == 1 && l.silent == nil:
		return oneScale
	case l.silent != nil:
		return silentScales
	}
	return levelScales
}

// firstRules returns the shares of the rules that a stream begins with.
func (l *answering) firstRules() model.PolicyWeights {
	plain := model.PolicyWeights{0.1, 0.9, 0}
	switch {
	case l.set.missingRule != model.MissingAuto:
		return model.OnePolicy(l.set.missingRule)
	case l.set.numbers: // rescaling is for classes
		plain = model.PolicyWeights{1, 0, 0}
	}
	if l.set.fills {
		for i := range plain {
			plain[i] *= 0.1
		}
		plain[2] = 0.9
	}
	return plain
}

// natural returns the level whose noise is what the user expects to be missing,
// or the nearest to that.
func (l *answering) natural() int {
	if l.silent != nil {
		return l.silent.level
	}
	best, least := 0, math.Inf(1)
	for v := range l.levels {
		q := loss.AsGroups(l.levels[v].noise)
		if d := math.Abs(q.Q-l.config.ExpectedMissing) + math.Abs(q.Groups-l.config.ExpectedMissingGroups); d < least {
			best, least = v, d
		}
	}
	return best
}

// settle puts the shares in force when it is time; those of several learners the fold does.
func (l *answering) settle() {
	if (l.events%applyEvery == 0 || l.events < l.hurriedUntil && l.events%hurriedEvery == 0) && !l.shared() {
		l.shares.Apply()
		l.second.gain.Apply(l.events, l.shares.Counts())
		l.takeForce()
	}
}

// takeForce makes of the shares in force what depends on them. The rule that the user wants, and
// that nothing can be filled in, count from here on, whatever the shares have learned.
func (l *answering) takeForce() {
	for r := 1; r < probe.Ranges; r++ {
		rules := &l.shares.InForce[r].Rules
		switch {
		case l.set.missingRule != model.MissingAuto:
			*rules = model.OnePolicy(l.set.missingRule)
		case !l.set.fills:
			*rules = rules.Plain()
		}
	}
	l.chosen = l.shares.InForce[0].Largest()
	l.second.made = [probe.Ranges]bool{}
	l.fields.Missing = l.fields.Missing.WithPolicies(l.shares.Rules())
}

// experts returns the levels, with their shares of the mixture that answers whole events, and the
// corrections of that; none where there is one level alone.
func (l *answering) experts() (experts []model.Expert) {
	second, all := l.second.share(&l.shares.InForce[0]), 0.0
	if len(l.levels) == 1 && !l.second.knows() {
		return nil
	}
	levels := l.shares.InForce[0].Levels
	for _, share := range levels {
		all += share
	}
	for v, share := range levels {
		experts = append(experts, model.Expert{Name: loss.ShortNoise(l.levels[v].noise.String()), Share: share / all})
	}
	if l.second.knows() {
		for _, e := range l.second.expert.Experts() {
			experts = append(experts, model.Expert{Name: e.Name, Share: second * e.Share, Corrects: true})
		}
	}
	return experts
}

// mixed returns the mixture that answers events of a range: what the weights of each level count,
// and behind these what the second-order expert's own do.
func (l *answering) mixed(r int) []float64 {
	if l.second.knows() {
		return l.mixSecond(r)
	}
	return l.shares.InForce[r].Levels
}

// one returns the mixture of a level alone.
func (l *bank) one(level int) []float64 {
	mix := make([]float64, len(l.levels))
	mix[level] = 1
	return mix
}

// interceptsOf writes the intercepts of mixed levels to out.
func (l *answering) interceptsOf(mix, out []float64) {
	clear(out)
	if !l.set.intercept {
		return
	}
	l.addMix(out, l.bias, mix, 1)
	for _, share := range mix[len(l.levels):] {
		for k := range l.active {
			out[k] += share * l.second.expert.Intercept(k)
		}
	}
}

// addMix adds to out, by output, x times what the levels publish of the weights of a row, mixed.
func (l *bank) addMix(out, row, mix []float64, x float64) {
	w, lag := l.weights(row), l.lags(row)
	for v := range l.levels {
		share := mix[v]
		if share == 0 {
			continue
		}
		c, at := l.levels[v].LagShare(), v*l.k
		for k := range l.active {
			out[k] += share * x * (w[at+k] + c*lag[at+k])
		}
	}
}

// mixOf writes to out, by output, the mixture of values by level and output.
func (l *bank) mixOf(mix, values, out []float64) {
	clear(out)
	for v, share := range mix {
		if share == 0 {
			continue
		}
		for k, x := range values[v*l.k:][:l.active] {
			out[k] += share * x
		}
	}
}

// byRange returns which weights answer the events of each range of what is missing, as
// model.Missing.Levels has them, and the ranges that have weights of their own; nil where
// whole events' answer all.
func (l *answering) byRange() (weights, ranges []int) {
	same := func(a, b []float64) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	weights = make([]int, model.MissingBins)
	for bin := range weights {
		mix := l.mixed(1 + bin)
		if same(mix, l.mixed(0)) {
			continue
		}
		for i, r := range ranges {
			if same(mix, l.mixed(r)) {
				weights[bin] = 1 + i
			}
		}
		if weights[bin] == 0 {
			ranges = append(ranges, 1+bin)
			weights[bin] = len(ranges)
		}
	}
	if ranges == nil {
		return nil, nil
	}
	return weights, ranges
}
