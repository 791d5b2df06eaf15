package online

// This file reads what states of version 4 hold, in which levels and rules are chosen.

import (
	"blankout/internal/coder"
	"blankout/model"
	"blankout/online/fill"
)

// oldForecast passes over the forecast of a level.
func oldForecast(c *coder.Coder) {
	const numbers = 3*10 + 1
	passOver(c, numbers)
}

// oldComparisons passes over the comparisons of two rules, of two kinds by five ranges.
func oldComparisons(c *coder.Coder) { passOver(c, 2*5*4) }

func passOver(c *coder.Coder, numbers int) {
	for range numbers {
		var x float64
		c.Float(&x)
	}
}

// oldFill returns what the block "fill" holds but for how often masks were drawn, and the
// comparisons of rules at its end.
func oldFill(data []byte) []byte {
	c := coder.Read(data)
	var f fill.Gatherer
	f.State(c)
	if c.Failed {
		return data
	}
	return data[:len(data)-len(c.In)]
}

// beginShares makes the shares begin with the level and the rules that had been chosen.
func (l *Learner) beginShares(m *model.Linear) {
	if l.chosen < 0 || l.chosen >= len(l.levels) {
		return // misfit says so
	}
	levels := make([]float64, len(l.levels))
	for v := range levels {
		levels[v] = leastOfOthers / float64(max(1, len(levels)-1))
	}
	levels[l.chosen] = 1
	if len(levels) > 1 {
		levels[l.chosen] -= leastOfOthers
	}
	rules := l.shares.Rules()
	if m.Missing != nil && l.set.missingRule == model.MissingAuto {
		rules = m.Missing.Rules
		for bin := range rules {
			if !l.set.fills {
				rules[bin] = rules[bin].Plain()
			}
			for i := range rules[bin] {
				rules[bin][i] = (1-leastOfOthers)*rules[bin][i] + leastOfOthers*l.firstRules()[i]
			}
		}
	}
	l.shares.Restart(levels, rules)
}

// leastOfOthers is what the levels and rules that had not been chosen begin with.
const leastOfOthers = 0.02
