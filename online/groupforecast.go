package online

// This file holds the forecast of the error at each share of groups that die.

import "math/rand/v2"

// forecastOf returns the level's forecast where groups die, or features.
func (lv *level) forecastOf(groups bool) *forecast {
	if groups {
		return &lv.groups
	}
	return &lv.forecast
}

// byGroups says whether the level is chosen by what is forecast where groups die.
func (l *answering) byGroups() bool {
	return l.grouped() && l.config.ExpectedMissingGroups > 0
}

// grouped says whether some level has noise of groups.
func (l *bank) grouped() bool { return l.groups != nil && l.groups.groups }

// forecastGroups adds the event at hand, if it is its turn, to the forecasts where groups
// die and, beside them, features at the rate that the user expects. Masks are drawn
// for two classes as well, for there are too few groups for a score to be normal.
func (l *answering) forecastGroups(label int) {
	switch n := l.events; {
	case n <= forecastFirstK || n%forecastEveryK == 0:
		l.forecastSampled(label, 0, ForecastPoints, true)
		if len(l.levels) > 1 && l.byGroups() {
			l.compare()
			if n/forecastEveryK%forecastReview == 0 {
				l.choose()
			}
		}
	case len(l.levels) > 1 && l.byGroups() && (n <= forecastFirst || n%forecastEvery == 0):
		l.forecastExpected(label)
	}
}

// groupMask draws for each feature of the event at hand the last point that it survives
// where groups die: those before its group does, or the first of two groups; -1 where it
// dies alone, as features do at the rate that the user expects.
func (l *answering) groupMask() []int8 {
	g := l.groups
	last := l.masked.last[:0]
	var r rand.PCG
	r.Seed(l.events, 0x67726f757073)
	for i := range g.units {
		if g.units[i].kind == grouped {
			g.units[i].last = drawPoint(&r)
		}
	}
	for i := range g.units {
		if u := &g.units[i]; u.kind == paired {
			u.last = min(g.units[u.parents[0]].last, g.units[u.parents[1]].last)
		} else if u.kind == curved {
			u.last = g.units[u.parents[0]].last
		}
	}
	for _, p := range g.parts {
		for range p.to - p.from {
			if p.kind == alone {
				last = append(last, drawPoint(&r))
			} else {
				last = append(last, g.units[p.unit].last)
			}
		}
	}
	if d := l.config.ExpectedMissing; d > 0 {
		for i := range last {
			if float64(r.Uint64()>>11)/(1<<53) < d {
				last[i] = -1
			}
		}
		g.together(last)
	}
	l.masked.last = last
	return last
}

// together gives all columns of a number with a curve what its first one has.
func (g *groupSums) together(last []int8) {
	for _, p := range g.parts {
		if p.kind == curved {
			for i := p.from + 1; i < p.to; i++ {
				last[i] = last[p.from]
			}
		}
	}
}

// survivors counts the features of an event, and those that survive a point: a number with
// a curve is one.
func (l *answering) survivors(last []int8, point int) (alive, of float64) {
	of = float64(len(last))
	for _, last := range last {
		if int(last) >= point {
			alive++
		}
	}
	if l.groups != nil {
		for _, p := range l.groups.parts {
			if p.kind == curved {
				of -= float64(p.to - p.from - 1)
				if int(last[p.from]) >= point {
					alive -= float64(p.to - p.from - 1)
				}
			}
		}
	}
	return alive, of
}

// bank returns the levels of features and of groups that auto learns. With Levels as they
// are by default and two of groups it would take 1.5 of the time that it takes without
// groups; so the bank for those who expect groups to be missing and list no levels of
// groups has four levels in all.
func (c Config) bank() (features, groups []float64) {
	if len(c.GroupLevels) == 0 && c.ExpectedMissingGroups > 0 {
		return []float64{0, 0.3}, []float64{0.3, 0.5}
	}
	return c.Levels, c.GroupLevels
}
