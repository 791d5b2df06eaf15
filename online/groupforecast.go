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
func (l *bank) grouped() bool { return l.groups != nil && l.groups.Grouped }

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
	last = g.Draw(last, func() int8 { return drawPoint(&r) })
	if d := l.config.ExpectedMissing; d > 0 {
		for i := range last {
			if float64(r.Uint64()>>11)/(1<<53) < d {
				last[i] = -1
			}
		}
		g.Together(last)
	}
	l.masked.last = last
	return last
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
		for from, to := range l.groups.Curves {
			of -= float64(to - from - 1)
			if int(last[from]) >= point {
				alive -= float64(to - from - 1)
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
