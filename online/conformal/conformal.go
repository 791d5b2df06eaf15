// Package conformal finds how much an answer must leave open to hold the truth as often as was asked for.
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
// Each class has a threshold and an α of its own (Mondrian conformal prediction; Vovk 2012): the
// quantile of the scores of its own events, to which borrowed scores of the range's common histogram
// are added. A class of few events has nearly the common threshold. The bounds above hold for the events of
// each class alone.
//
// The package knows scores and answers, no weights and no events.
package conformal

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
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
	// borrowed is how many scores of the whole range the threshold of a class is made of beside its own.
	borrowed = 20
	// every is after how many scores of a range its limit follows.
	every = 8
	// bins is the number of bins of scores: x = score/(1+score) in equal parts.
	bins = 128
	// largest is where grown weights are scaled down.
	largest = 1e100
)

// Cover holds what is known of the scores, by range, and by class and range. New makes one.
type Cover struct {
	miss    float64 // a
	ranges  [Ranges]scores
	classes []class
	chances []float64 // room for probabilities
}

// scores are those of a range, or of a class in a range.
type scores struct {
	taken  float64 // scores
	level  float64 // α
	limit  float64 // -1: there are too few scores to say
	least  float64 // exp(-limit): the probability of a class in the set
	grown  float64 // the weight of the latest score
	faded  counts  // each score has the weight that it had when it came
	all    tally
	waits  counts  // of an interval that is to be merged
	waited float64 // scores of it
}

// newScores returns those of no event. Sets miss the share miss.
func newScores(miss float64) scores { return scores{level: miss, limit: -1, grown: 1} }

// tally counts prediction sets, and those of them that held the truth.
type tally struct{ told, held float64 }

func (t *tally) add(held bool, weight float64) {
	if t.told += weight; held {
		t.held += weight
	}
}

// counts are weighted counts of scores.
type counts struct {
	tally
	moved       float64 // sum of a - miss, of those that move α
	size, sized float64 // of sets, and how many of them were measured
	histogram
}

// histogram holds weights of scores.
type histogram struct {
	first float64 // the truth was the most probable class
	bins  [bins]float64
}

// New returns a Cover for sets that hold the truth with the given probability, in (0, 1).
func New(coverage float64) *Cover {
	c := &Cover{miss: 1 - coverage}
	for r := range c.ranges {
		c.ranges[r] = newScores(c.miss)
	}
	return c
}

// Score is what an answer to an event was worth.
type Score struct {
	Value float64 // nonconformity, at least 0
	First bool    // the truth was the most probable class, which is in every set
	Class int     // index of the event's class plus 1; 0 is a number
	Came  bool    // the event came as it was scored: no mask deleted anything
	// Size is that of the set or interval that was told, NaN where it was not measured; one without
	// bounds is not counted.
	Size float64
}

// Limit returns what a score of any class may be at most to be in a set of the range, -1 before that is
// known. model.Sets.Limits says the same to readers.
func (c *Cover) Limit(r int) float64 { return c.ranges[r].limit }

// Taken returns how many scores have been taken of a range, of a class in it, counted from 1, or of numbers: 0.
func (c *Cover) Taken(r, class int) float64 {
	switch {
	case class == 0:
		return c.ranges[r].taken
	case class > len(c.classes) || c.classes[class-1].ranges[r] == nil:
		return 0
	}
	return c.classes[class-1].ranges[r].taken
}

// served returns the limit for readers of a model, see Sets.
func (c *Cover) served(r int) float64 {
	for ; r < Ranges; r++ {
		if limit := c.ranges[r].limit; limit >= 0 {
			return limit
		}
	}
	return -1
}

// Take takes up the score of an event of a range.
func (c *Cover) Take(r int, x Score) {
	s, own := &c.ranges[r], c.own(r, x.Class)
	limit := s.told(own)
	s.take(x, limit, c.miss)
	if uint64(s.taken)%every == 0 {
		s.follow(nil)
	}
	if own == nil {
		return
	}
	own.take(x, limit, c.miss)
	if x.Came && limit >= 0 {
		came := &c.classes[x.Class-1].came
		came.all.add(x.within(limit), 1)
		came.recent.scale(1 - 1/min(memory, came.all.told))
		came.recent.add(x.within(limit), 1)
	}
	if uint64(own.taken)%every == 0 || own.taken < enough {
		own.follow(s)
	}
}

// take counts a score whose set had the limit told.
func (s *scores) take(x Score, told, miss float64) {
	s.advance(1)
	s.level += gamma * s.faded.add(x, told, s.limit, s.grown, miss)
	if told >= 0 {
		s.all.add(x.within(told), 1)
	}
}

// Add is Take at one of several learners: the score counts when their sums are merged.
func (c *Cover) Add(r int, x Score) {
	s, own := &c.ranges[r], c.own(r, x.Class)
	limit := s.told(own)
	s.waited++
	s.waits.add(x, limit, s.limit, 1, c.miss)
	if own == nil {
		return
	}
	own.waited++
	own.waits.add(x, limit, own.limit, 1, c.miss)
	if x.Came && limit >= 0 {
		c.classes[x.Class-1].came.waits.add(x.within(limit), 1)
	}
}

// within says whether a set of this limit holds the truth.
func (x Score) within(limit float64) bool { return x.First || x.Value <= limit }

// add counts a score whose set had the limit told, with a weight, and returns by how much of gamma it moves the
// α that belongs to limit.
func (n *counts) add(x Score, told, limit, weight, miss float64) (move float64) {
	if x.First {
		n.first += weight
	} else {
		n.bins[binOf(x.Value)] += weight
	}
	if told >= 0 {
		n.tally.add(x.within(told), weight)
		if x.Size-x.Size == 0 { // it is a number, and finite
			n.size, n.sized = n.size+weight*x.Size, n.sized+weight
		}
	}
	switch {
	case limit < 0:
	case !x.within(limit):
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

// follow makes the limit the quantile of the level 1-α of the scores, where there are enough. Those of a class
// are filled up with borrowed ones of the range.
func (s *scores) follow(of *scores) {
	if of == nil && s.taken < enough || of != nil && of.limit < 0 {
		return
	}
	h, n := &s.faded.histogram, s.taken
	if of != nil {
		h, n = h.mixed(&of.faded.histogram, borrowed*s.grown), n+borrowed
	}
	// One more score than there are stands for the next one.
	s.limit = h.quantile((1 - s.level) * (1 + 1/min(n, memory)))
	s.least = loss.Exp(-s.limit)
}

// mixed returns h and, of the given weight, scores as in other.
func (h *histogram) mixed(other *histogram, weight float64) *histogram {
	out := *h
	by := weight / other.total()
	out.first += by * other.first
	for i, x := range other.bins {
		out.bins[i] += by * x
	}
	return &out
}

func (h *histogram) total() float64 {
	all := h.first
	for _, x := range h.bins {
		all += x
	}
	return all
}

// quantile returns the score that a fraction of the weights does not exceed.
func (h *histogram) quantile(fraction float64) float64 {
	var up [bins + 1]float64 // to each bin
	all := h.first
	for i, x := range h.bins {
		up[i] = all
		all += x
	}
	want := fraction * all
	if up[0] >= want {
		return 0
	}
	i, _ := slices.BinarySearch(up[1:bins], want) // the first that reaches it
	if i == bins-1 {
		return model.MostLimit
	}
	at := (float64(i) + (want-up[i])/h.bins[i]) / bins
	return at / (1 - at)
}

// Merge takes up what an interval of another learner, from base to now, has added: one step of α for
// each range, and for each class in it.
func (c *Cover) Merge(base, now *Cover) {
	for r := range c.ranges {
		if s := &c.ranges[r]; s.merge(&base.ranges[r], &now.ranges[r]) {
			s.follow(nil)
		}
	}
	for k := range now.classes {
		c.mergeClass(k, base.class(k), &now.classes[k])
	}
}

// merge takes up what an interval has added, and says whether that is anything.
func (s *scores) merge(was, is *scores) bool {
	n := is.waited - was.waited
	if n <= 0 {
		return false
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
	return true
}

// Sums returns a copy of what Merge takes.
func (c *Cover) Sums() *Cover {
	if c == nil {
		return nil
	}
	out := &Cover{classes: make([]class, len(c.classes))}
	for r := range c.ranges {
		out.ranges[r] = c.ranges[r].sums()
	}
	for k := range c.classes {
		out.classes[k] = c.classes[k].sums()
	}
	return out
}

func (s *scores) sums() scores { return scores{waits: s.waits, waited: s.waited} }

// SumsState codes what Merge takes.
func (c *Cover) SumsState(to *coder.Coder) {
	for r := range c.ranges {
		c.ranges[r].sumsState(to)
	}
	c.codeClasses(to, func(k *class) { k.sumsState(to) })
}

func (s *scores) sumsState(to *coder.Coder) {
	if to.Float(&s.waited); s.waited != 0 {
		s.waits.state(to)
	}
}

// Fits says whether what Merge takes, from base to now, is of so many events at most, each with
// at most the given number of scores.
func Fits(base, now *Cover, events, each float64) bool {
	for r := range now.ranges {
		if !fits(&base.ranges[r], &now.ranges[r], events*each) {
			return false
		}
	}
	return fitClasses(base, now, events)
}

// fits says whether what is taken of a range, or a class in it, is at most the given number of scores.
func fits(was, is *scores, most float64) bool {
	n := is.waited - was.waited
	if !(n >= 0 && n <= most) || n != math.Trunc(n) {
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
	return all == n && held >= 0 && held <= told && told <= n && sized >= 0 && sized <= told && size >= 0 && !math.IsInf(size, 1) &&
		math.Abs(is.waits.moved-was.waits.moved) <= n
}

// State codes everything. A state of another coverage than the Cover's moves α along.
func (c *Cover) State(to *coder.Coder) {
	miss := c.miss
	to.Float(&miss)
	for r := range c.ranges {
		c.ranges[r].state(to, c.miss-miss, nil)
	}
	c.codeClasses(to, func(k *class) { k.state(to, c.miss-miss, &c.ranges) })
}

// state codes the scores of a range, or of a class in the range of. moved is added to α.
func (s *scores) state(to *coder.Coder, moved float64, of *scores) {
	to.Each(&s.taken, &s.level, &s.limit, &s.grown, &s.all.told, &s.all.held)
	if s.taken > 0 {
		s.faded.state(to)
	}
	to.Failed = to.Failed || !(s.all.held >= 0 && s.all.held <= s.all.told && s.all.told <= s.taken && s.taken <= 1<<53 && s.grown >= 1 && s.grown <= 2*largest && s.limit >= -1)
	s.least = loss.Exp(-s.limit)
	if moved != 0 {
		s.level += moved
		s.follow(of)
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
	// most is more than any distance of two numbers, near what merged sums are rounded by.
	const most, near = 1e40, 1e-9
	to.Failed = to.Failed || !(n.held >= -near && n.held <= (1+near)*n.told+near && n.size >= -near && n.size <= most*max(n.sized, 0)+near)
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
		if s.faded.told == 0 || s.all.told == 0 { // a damaged state may have one without the other
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

// TooLow tells of each range that Low returns, in a sentence.
func (c *Cover) TooLow() (out []string) {
	for _, x := range c.Low() {
		out = append(out, fmt.Sprintf("of the latest events that lack a share %s of their fields, the sets or intervals that were answered hold the label of %.1f %% and should of %.4g %% (learner.coverage): "+
			"their size was learned from earlier events of this kind, which were few, or not like the latest ones; it goes on being corrected", x.Range, 100*x.Recent, 100*(1-c.miss)))
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
	out, from := &model.Sets{Coverage: 1 - c.miss, Classes: make([]model.SetLimits, len(c.classes))}, -1
	for r := Ranges - 1; r >= 0; r-- {
		if out.Limits[r] = -1; c.ranges[r].limit >= 0 {
			from = r
		}
		if from >= 0 {
			out.Limits[r] = c.ranges[from].limit
		}
		for k := range c.classes {
			if out.Classes[k][r] = out.Limits[r]; from >= 0 {
				out.Classes[k][r] = c.ranges[from].told(c.classes[k].ranges[from])
			}
		}
	}
	return out
}
