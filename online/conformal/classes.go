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
	waits  tally // counts that wait for Merge
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

// Classes returns the number of classes.
func (c *Predictor) Classes() int { return len(c.classes) }

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

// class returns class k, counted from 0, or an empty class.
func (c *Predictor) class(k int) *class {
	if k < len(c.classes) {
		return &c.classes[k]
	}
	return &class{}
}

// mergeClass adds the change of the counts of class k from was to is.
func (c *Predictor) mergeClass(k int, was, is *class) {
	var none scores
	for r, now := range is.ranges {
		if now == nil {
			continue
		}
		base := &none
		if was.ranges[r] != nil {
			base = was.ranges[r]
		}
		if now.waited > base.waited {
			s := c.own(r, k+1)
			s.merge(base, now)
			s.follow(&c.ranges[r])
		}
	}
	used, held := is.came.waits.events-was.came.waits.events, is.came.waits.held-was.came.waits.held
	if used > 0 {
		to := &c.grown(k).came
		to.all.events += used
		to.all.held += held
		to.recent.scale(max(0, 1-used/min(memory, to.all.events)))
		to.recent.events += used
		to.recent.held += held
	}
}

func (k *class) sums() (out class) {
	out.came.waits = k.came.waits
	for r, s := range k.ranges {
		if s != nil && s.waited > 0 {
			sums := s.sums()
			out.ranges[r] = &sums
		}
	}
	return out
}

// codeClasses encodes or decodes the list of classes, and calls one for each class.
func (c *Predictor) codeClasses(to *coder.Coder, one func(*class)) {
	n := len(c.classes)
	to.Int(&n)
	if to.Decode {
		if n < 0 || n > len(to.In)/24 { // the smallest encoded class has 24 bytes
			to.Failed, n = true, 0
		}
		c.classes = make([]class, n)
	}
	for k := range c.classes {
		one(&c.classes[k])
	}
}

// code encodes or decodes which ranges have scores. It calls one for each of these ranges.
func (k *class) code(to *coder.Coder, one func(r int, s *scores)) {
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
			one(r, k.at(r, 0))
		}
	}
}

func (k *class) sumsState(to *coder.Coder) {
	to.Each(&k.came.waits.events, &k.came.waits.held)
	k.code(to, func(_ int, s *scores) { s.sumsState(to) })
}

func (k *class) state(to *coder.Coder, moved float64, of *[Ranges]scores) {
	all, recent := &k.came.all, &k.came.recent
	to.Each(&all.events, &all.held, &recent.events, &recent.held)
	to.Failed = to.Failed || !(all.held >= 0 && all.held <= all.events && recent.held >= 0 && recent.held <= recent.events)
	k.code(to, func(r int, s *scores) { s.state(to, moved, &of[r]) })
}

// fitClasses is Fits for the classes. The classes of a range must not have more scores than the range.
func fitClasses(base, now *Predictor, events float64) bool {
	if len(now.classes) < len(base.classes) {
		return false
	}
	var of [Ranges]float64
	came := 0.0
	for k := range now.classes {
		was, is := base.class(k), &now.classes[k]
		for r := range of {
			var before, after scores
			if s := was.ranges[r]; s != nil {
				before = *s
			}
			if s := is.ranges[r]; s != nil {
				after = *s
			}
			most := now.ranges[r].waited - base.ranges[r].waited
			if !fits(&before, &after, most) {
				return false
			}
			if of[r] += after.waited - before.waited; of[r] > most {
				return false
			}
		}
		used, held := is.came.waits.events-was.came.waits.events, is.came.waits.held-was.came.waits.held
		if came += used; !(held >= 0 && held <= used && came <= events) {
			return false
		}
	}
	return true
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
