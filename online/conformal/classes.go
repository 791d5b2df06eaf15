package conformal

// This file computes the prediction set thresholds of each class.

import (
	"blankout/internal/coder"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// class holds the nonconformity scores of the events of one class, by range of the missing fraction.
type class struct {
	came   came
	ranges [Ranges]*scores // nil for a range without scores
}

// came counts the prediction sets of received events, without their masked copies.
type came struct {
	all    tally
	recent tally // decayed
}

func (t *tally) scale(by float64) { t.events, t.held = by*t.events, by*t.held }

// limitFor returns the limit that a prediction set uses for one class: the limit of own, the scores of the class, or
// the limit of s if the class has no limit.
func (s *scores) limitFor(own *scores) float64 {
	if own != nil && own.limit >= 0 { // a class can have a limit only if the range has one
		return own.limit
	}
	return s.limit
}

// own returns the scores of a class in range r. Classes are counted from 1. For 0, which means regression, own returns
// nil.
func (c *Predictor) own(r, number int) *scores {
	if number == 0 {
		return nil
	}
	return c.grown(number-1).at(r, c.miss)
}

// grown returns class k, counted from 0, and adds it if it is new.
func (c *Predictor) grown(k int) *class {
	for len(c.classes) <= k {
		c.classes = append(c.classes, class{})
	}
	return &c.classes[k]
}

// at returns the scores of class k in a range, and adds empty scores if the range is new.
func (k *class) at(r int, miss float64) *scores {
	if k.ranges[r] == nil {
		s := newScores(miss)
		k.ranges[r] = &s
	}
	return k.ranges[r]
}

// least returns the smallest probability with which class k, counted from 0, is included in a prediction set of range
// r. always is true if all prediction sets of the range include the class.
func (c *Predictor) least(r, k int) (p float64, always bool) {
	s := &c.ranges[r]
	if k < len(c.classes) {
		if own := c.classes[k].ranges[r]; own != nil && own.limit >= 0 {
			s = own
		}
	}
	return s.least, s.limit == model.MostLimit
}

// state encodes or decodes the class: which ranges have scores, and their scores. of has the scores of the ranges. state
// adds moved to α.
func (k *class) state(to *coder.Coder, moved float64, of *[Ranges]scores) {
	all, recent := &k.came.all, &k.came.recent
	to.Each(&all.events, &all.held, &recent.events, &recent.held)
	to.Failed = to.Failed || !(all.held >= 0 && all.held <= all.events && recent.held >= 0 && recent.held <= recent.events)
	var some uint64
	for r, s := range k.ranges {
		if s != nil {
			some |= 1 << r
		}
	}
	to.Uint(&some)
	to.Failed = to.Failed || some>>Ranges != 0
	for r := range k.ranges {
		if some>>r&1 != 0 {
			k.at(r, 0).state(to, moved, &of[r])
		}
	}
}

// ByClass returns the coverage of each class that has prediction sets. names holds the names of the classes.
func (c *Predictor) ByClass(names []string) (out []measure.ClassCoverage) {
	if c == nil {
		return nil
	}
	for k := range c.classes[:min(len(c.classes), len(names))] {
		class := &c.classes[k]
		x := measure.ClassCoverage{Class: names[k]}
		if t := &class.came; t.all.events > 0 && t.recent.events > 0 { // if the state is damaged, one of the two counts can be 0
			x.Events, x.Coverage, x.Recent = t.all.events, t.all.held/t.all.events, t.recent.held/t.recent.events
		}
		for r, s := range class.ranges {
			if s != nil && s.decayed.events > 0 && s.all.events > 0 {
				x.ByMissing = append(x.ByMissing, measure.RangeCoverage{Range: model.RangeName(r), Events: s.all.events, Coverage: s.all.held / s.all.events, Recent: s.decayed.held / s.decayed.events})
			}
		}
		if x.ByMissing != nil {
			out = append(out, x)
		}
	}
	return out
}
