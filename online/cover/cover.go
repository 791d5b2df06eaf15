// Package cover finds how much an answer must leave open to hold the truth as often as was asked for.
//
// An answer has a score: of classes -log p of the event's own class, of numbers how many deviations the
// label is off. A set of classes, or an interval, is all whose score is at most a limit; of classes the most
// probable one besides. For each range of what an event lacks the limit is the quantile of the level 1-α
// of the scores so far, where older ones fade, and α follows the sets that were told (adaptive
// conformal inference; Gibbs & Candes 2021):
//
//	α <- α + γ (a - miss),  a = 1 - coverage,  miss = 1 if the truth was not in the set, else 0.
//
// Whatever the scores are, at most a T + (a + γ)/γ of T truths, and a few for the limit to follow, are
// missed; and fewer by at most 1/γ where smaller sets could have been told. The set of the most
// probable class alone cannot be made smaller: where it holds the truth, α stays.
//
// The package knows scores and answers, no weights and no events.
package cover

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/model"
)

// Ranges is the number of ranges of what events lack, as model.Sets has them.
const Ranges = model.SetRanges

const (
	// gamma is γ: α takes some 1/gamma scores to follow.
	gamma = 0.001
	// memory is over how many scores older ones fade; among the first n it is n/fresh, for they are
	// those of weights that had learned little.
	memory, fresh = 2000, 2
	// enough scores of a range say something about it.
	enough = 100
	// every is after how many scores of a range its limit follows.
	every = 8
	// bins is the number of bins of scores: x = score/(1+score) in equal parts.
	bins = 128
	// largest is where grown weights are scaled down.
	largest = 1e100
)

// Cover holds what is known of the scores, by range. New makes one.
type Cover struct {
	miss    float64 // a
	ranges  [Ranges]scores
	chances []float64 // room for probabilities
}

// scores are those of a range.
type scores struct {
	taken  float64 // scores
	level  float64 // α
	limit  float64 // -1: there are too few scores to say
	least  float64 // exp(-limit): the probability of a class in the set
	grown  float64 // the weight of the latest score
	faded  counts  // each score has the weight that it had when it came
	all    counts  // Told and Held alone
	waits  counts  // of an interval that is to be merged
	waited float64 // scores of it
}

// counts are weighted counts of scores.
type counts struct {
	told, held  float64 // sets that were told, and those that held the truth
	moved       float64 // sum of a - miss, of those that move α
	size, sized float64 // of sets, and how many of them were measured
	first       float64 // the truth was the most probable class
	bins        [bins]float64
}

// New returns a Cover for sets that hold the truth with the given probability, in (0, 1).
func New(coverage float64) *Cover {
	c := &Cover{miss: 1 - coverage}
	for r := range c.ranges {
		c.ranges[r] = scores{level: c.miss, limit: -1, grown: 1}
	}
	return c
}

// Score is what an answer to an event was worth.
type Score struct {
	Value float64 // nonconformity, at least 0
	First bool    // the truth was the most probable class, which is in every set
	// Size is that of the set or interval that was told, NaN where it was not measured; one without
	// bounds is not counted.
	Size float64
}

// Limit returns what a score may be at most to be in a set of the range, -1 before that is known.
// model.Sets.Limits says the same to readers.
func (c *Cover) Limit(r int) float64 { return c.ranges[r].limit }

// Take takes up the score of an event of a range.
func (c *Cover) Take(r int, x Score) {
	s := &c.ranges[r]
	s.advance(1)
	s.level += gamma * s.faded.add(x, s.limit, s.grown, c.miss)
	if s.limit >= 0 {
		s.all.told++
		if s.limit >= x.Value || x.First {
			s.all.held++
		}
	}
	if uint64(s.taken)%every == 0 {
		s.follow()
	}
}

// Add is Take at one of several learners: the score counts when their sums are merged.
func (c *Cover) Add(r int, x Score) {
	s := &c.ranges[r]
	s.waited++
	s.waits.add(x, s.limit, 1, c.miss)
}

// add counts a score that met a limit, with a weight, and returns by how much of gamma it moves α.
func (n *counts) add(x Score, limit, weight, miss float64) (move float64) {
	if x.First {
		n.first += weight
	} else {
		n.bins[binOf(x.Value)] += weight
	}
	if limit < 0 {
		return 0
	}
	n.told += weight
	held := x.First || x.Value <= limit
	if held {
		n.held += weight
	}
	if x.Size-x.Size == 0 { // it is a number, and finite
		n.size, n.sized = n.size+weight*x.Size, n.sized+weight
	}
	switch {
	case !held:
		move = miss - 1
	case limit > 0: // a smaller set could have been told
		move = miss
	}
	n.moved += move
	return move
}

// binOf returns the bin of a score; one that is no number is in the last.
func binOf(score float64) int {
	if x := bins * (score / (1 + score)); x < bins-1 {
		return max(0, int(x))
	}
	return bins - 1
}

// advance lets n more scores come: those before them fade, which is to say that later ones weigh more.
func (s *scores) advance(n float64) {
	for range int(n) {
		s.taken++
		s.grown /= 1 - 1/min(memory, 8+s.taken/fresh)
	}
	if s.grown > largest {
		s.faded.scale(1 / s.grown)
		s.grown = 1
	}
}

func (n *counts) scale(by float64) {
	for _, p := range n.each() {
		*p *= by
	}
	for i := range n.bins {
		n.bins[i] *= by
	}
}

// each lists all counts but the bins'.
func (n *counts) each() []*float64 {
	return []*float64{&n.told, &n.held, &n.moved, &n.size, &n.sized, &n.first}
}

// follow makes the limit the quantile of the level 1-α of the scores, where there are enough.
func (s *scores) follow() {
	if s.taken >= enough {
		s.limit = s.quantile()
		s.least = math.Exp(-s.limit)
	}
}

func (s *scores) quantile() float64 {
	var up [bins + 1]float64 // to each bin
	all := s.faded.first
	for i, x := range s.faded.bins {
		up[i] = all
		all += x
	}
	// One more score than there are stands for the next one.
	want := (1 - s.level) * (1 + 1/min(s.taken, memory)) * all
	if up[0] >= want {
		return 0
	}
	i, _ := slices.BinarySearch(up[1:bins], want) // the first that reaches it
	if i == bins-1 {
		return model.MostLimit
	}
	at := (float64(i) + (want-up[i])/s.faded.bins[i]) / bins
	return at / (1 - at)
}

// Merge takes up what an interval of another learner, from base to now, has added: one step of α for
// each range.
func (c *Cover) Merge(base, now *Cover) {
	for r := range c.ranges {
		s, was, is := &c.ranges[r], &base.ranges[r], &now.ranges[r]
		n := is.waited - was.waited
		if n <= 0 {
			continue
		}
		s.advance(n)
		to, from, before := s.faded.each(), is.waits.each(), was.waits.each()
		for i := range to {
			*to[i] += s.grown * (*from[i] - *before[i])
		}
		for i := range s.faded.bins {
			s.faded.bins[i] += s.grown * (is.waits.bins[i] - was.waits.bins[i])
		}
		s.level += gamma * (is.waits.moved - was.waits.moved)
		s.all.told += is.waits.told - was.waits.told
		s.all.held += is.waits.held - was.waits.held
		s.follow()
	}
}

// Sums returns a copy of what Merge takes.
func (c *Cover) Sums() *Cover {
	if c == nil {
		return nil
	}
	out := &Cover{}
	for r := range c.ranges {
		out.ranges[r].waits, out.ranges[r].waited = c.ranges[r].waits, c.ranges[r].waited
	}
	return out
}

// SumsState codes what Merge takes.
func (c *Cover) SumsState(to *coder.Coder) {
	for r := range c.ranges {
		s := &c.ranges[r]
		if to.Float(&s.waited); s.waited != 0 {
			s.waits.state(to)
		}
	}
}

// Fits says whether what Merge takes, from base to now, is of so many events at most, each with
// at most the given number of scores.
func Fits(base, now *Cover, events, each float64) bool {
	for r := range now.ranges {
		was, is := &base.ranges[r], &now.ranges[r]
		n := is.waited - was.waited
		if !(n >= 0 && n <= events*each) || n != math.Trunc(n) {
			return false
		}
		all := is.waits.first - was.waits.first
		for i, x := range is.waits.bins {
			x -= was.waits.bins[i]
			if all += x; !(x >= 0) {
				return false
			}
		}
		told, held := is.waits.told-was.waits.told, is.waits.held-was.waits.held
		sized, size := is.waits.sized-was.waits.sized, is.waits.size-was.waits.size
		if all != n || !(held >= 0 && held <= told && told <= n) || !(sized >= 0 && sized <= told) || !(size >= 0) || math.IsInf(size, 1) ||
			!(math.Abs(is.waits.moved-was.waits.moved) <= n) {
			return false
		}
	}
	return true
}

// State codes everything. A state of another coverage than the Cover's moves α along.
func (c *Cover) State(to *coder.Coder) {
	miss := c.miss
	to.Float(&miss)
	for r := range c.ranges {
		s := &c.ranges[r]
		to.Each(&s.taken, &s.level, &s.limit, &s.grown, &s.all.told, &s.all.held)
		if s.taken > 0 {
			s.faded.state(to)
		}
		to.Failed = to.Failed || !(s.all.held >= 0 && s.all.held <= s.all.told && s.all.told <= s.taken && s.taken <= 1<<53 && s.grown >= 1 && s.grown <= 2*largest && s.level == s.level && s.limit >= -1)
		s.least = math.Exp(-s.limit)
		if miss != c.miss {
			s.level += c.miss - miss
			s.follow()
		}
	}
}

// state codes counts, of the bins those that hold something.
func (n *counts) state(to *coder.Coder) {
	to.Each(n.each()...)
	var some [bins / 64]uint64
	for i, x := range n.bins {
		if x != 0 {
			some[i/64] |= 1 << (i % 64)
		}
	}
	for i := range some {
		to.Uint(&some[i])
	}
	for i := range n.bins {
		if some[i/64]>>(i%64)&1 != 0 {
			to.Float(&n.bins[i])
		} else {
			n.bins[i] = 0
		}
	}
	for _, x := range n.bins {
		to.Failed = to.Failed || !(x >= 0)
	}
}

// Report says how the sets of a range have done.
type Report struct {
	Range  string  `json:"missing"` // share of the fields that is missing, as model.RangeName
	Events float64 `json:"events"`  // that were told a set, drawn ones among them
	// Coverage is the share of all sets that held the truth, Recent that of the latest, Size the mean size of these:
	// classes or, of numbers, the distance of low and high.
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	Size     float64 `json:"size"`

	index int
}

// Report returns how the sets have done in the ranges of which any have been told.
func (c *Cover) Report() (out []Report) {
	if c == nil {
		return nil
	}
	for r := range c.ranges {
		s := &c.ranges[r]
		if s.faded.told == 0 {
			continue
		}
		x := Report{index: r, Range: model.RangeName(r), Events: s.all.told, Coverage: s.all.held / s.all.told, Recent: s.faded.held / s.faded.told}
		if s.faded.sized > 0 {
			x.Size = s.faded.size / s.faded.sized
		}
		out = append(out, x)
	}
	return out
}

// Low returns the reports of the ranges whose latest sets miss the truth more than half as often again
// as they should.
func (c *Cover) Low() (out []Report) {
	for _, x := range c.Report() {
		s := &c.ranges[x.index]
		if n := s.faded.told / s.grown; n >= lowAfter && x.Recent < 1-1.5*c.miss {
			out = append(out, x)
		}
	}
	return out
}

// lowAfter is how many sets say that they miss the truth too often.
const lowAfter = 1000

// Sets returns the limits for readers of a model. A range that is not known yet has that of the next one
// in which more is missing.
func (c *Cover) Sets() *model.Sets {
	if c == nil {
		return nil
	}
	out, limit := &model.Sets{Coverage: 1 - c.miss}, -1.0
	for r := Ranges - 1; r >= 0; r-- {
		if own := c.ranges[r].limit; own >= 0 {
			limit = own
		}
		out.Limits[r] = limit
	}
	return out
}
