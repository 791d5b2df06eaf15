// Package conformal states how certain predictions are: it determines how large prediction sets and intervals must be
// for a given coverage, and calibrates probabilities (see Link).
//
// A prediction has a nonconformity score: -log p of the label for classification, and the distance from the label in
// standard deviations for regression. A prediction set or interval contains all labels whose score is at most a limit.
// A set also contains the most probable class. For each range of the missing fraction, the limit is the quantile of
// level 1-α of the previous scores, with decay. α adapts to the observed coverage (adaptive conformal inference; Gibbs
// & Candes 2021):
//
//	α <- α + γ (a - miss),  a = 1 - coverage,  miss = 1 if the label was not in the set, else 0.
//
// For any sequence of T scores, at most a·T + (a + γ)/γ labels are missed, plus a few while the limit adapts. At least
// a·T - 1/γ labels are missed if a smaller set was possible for every score. It is possible unless the limit is 0: then
// a set contains only the most probable class, and if that class is the label, α does not change.
//
// Each class has its own threshold and α (Mondrian conformal prediction; Vovk 2012). The threshold is the quantile of
// the scores of the class, plus a few scores borrowed from the histogram of the range. The threshold of a class with
// few events is therefore close to the common threshold. The bounds above hold for the events of each class.
//
// The package uses only scores and predictions, no weights or events.
package conformal

import (
	"fmt"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Ranges is the number of ranges of the missing fraction, see model.Sets.
const Ranges = model.SetRanges

const (
	// gamma is γ: α adapts over about 1/gamma scores.
	gamma = 0.001
	// memory is the number of scores over which old scores decay. After the first n scores it is n/fresh, if that is
	// less. The first scores are forgotten faster, because the model had learned little when they were computed.
	memory, fresh = 2000, 2
	// enough is the number of scores that a range needs for a limit.
	enough = 100
	// borrowed is the total weight of the scores of the whole range that are added to the scores of a class.
	borrowed = 20
	// every is the number of scores after which a limit is updated.
	every = 8
	// bins is the number of bins of a histogram. The bins have equal widths in x = score/(1+score).
	bins = 128
	// largest is the weight of the newest score or event at which all weights are scaled down.
	largest = 1e100
	// largestSize is the size from which on an interval counts as unbounded.
	largestSize = 1e40
)

// Predictor holds the nonconformity scores by range of the missing fraction, and by class and range. Create a Predictor
// with New.
type Predictor struct {
	miss    float64 // a, the fraction of labels to miss
	ranges  [Ranges]scores
	classes []class
	chances []float64 // scratch for probabilities
}

// scores holds the nonconformity scores of a range, or of a class in a range.
type scores struct {
	taken   float64 // number of scores
	level   float64 // α
	limit   float64 // -1 if there are too few scores
	least   float64 // exp(-limit), the smallest probability of a class in the set
	grown   float64 // weight of the latest score
	decayed counts  // each score keeps the weight that it had when it was added
	all     tally
}

// newScores returns empty scores. miss is the fraction of labels that prediction sets may miss.
func newScores(miss float64) scores { return scores{level: miss, limit: -1, grown: 1} }

// tally has the number of prediction sets (events), and the number of sets that contained the label (held).
type tally struct{ events, held float64 }

func (t *tally) add(held bool, weight float64) {
	if t.events += weight; held {
		t.held += weight
	}
}

// counts holds weighted counts of scores.
type counts struct {
	tally
	size, sized float64 // total size of sets, and number of sets with a measured size
	histogram
}

// histogram holds the weights of scores by bin.
type histogram struct {
	first float64 // weight of events whose label was the most probable class
	bins  [bins]float64
}

// New returns a Predictor of sets that contain the label with the given probability, in (0, 1).
func New(coverage float64) *Predictor {
	c := &Predictor{miss: 1 - coverage}
	for r := range c.ranges {
		c.ranges[r] = newScores(c.miss)
	}
	return c
}

// Score is the nonconformity score of a prediction.
type Score struct {
	Value float64 // the score, at least 0
	First bool    // the label was the most probable class, which is in every set
	Class int     // index of the label plus 1; 0 for regression
	Came  bool    // false for a copy with masked fields
	// Size is the size of the prediction set or interval, or NaN if it was not measured. Unbounded intervals are
	// ignored.
	Size float64
}

// Limit returns the largest nonconformity score in a set of range r, or -1 if there are too few scores. Readers use
// model.Sets.Limits.
func (c *Predictor) Limit(r int) float64 { return c.ranges[r].limit }

// Taken returns the number of scores in range r of a class, counted from 1, or of all classes if class is 0.
func (c *Predictor) Taken(r, class int) float64 {
	switch {
	case class == 0:
		return c.ranges[r].taken
	case class > len(c.classes) || c.classes[class-1].ranges[r] == nil:
		return 0
	}
	return c.classes[class-1].ranges[r].taken
}

// served returns the limit of a range that readers of a model use, see Sets.
func (c *Predictor) served(r int) float64 {
	for ; r < Ranges; r++ {
		if limit := c.ranges[r].limit; limit >= 0 {
			return limit
		}
	}
	return -1
}

// Take adds a nonconformity score in range r.
func (c *Predictor) Take(r int, x Score) {
	s, own := &c.ranges[r], c.own(r, x.Class)
	limit := s.limitFor(own)
	s.observe(x, limit, c.miss)
	if uint64(s.taken)%every == 0 {
		s.follow(nil)
	}
	if own == nil {
		return
	}
	own.observe(x, limit, c.miss)
	if x.Came && limit >= 0 {
		came := &c.classes[x.Class-1].came
		came.all.add(x.within(limit), 1)
		came.recent.scale(1 - 1/min(memory, came.all.events))
		came.recent.add(x.within(limit), 1)
	}
	if uint64(own.taken)%every == 0 || own.taken < enough {
		own.follow(s)
	}
}

// observe adds a score. used is the limit of the score's set. miss is the fraction of labels that sets may miss.
func (s *scores) observe(x Score, used, miss float64) {
	s.advance()
	s.level += gamma * s.decayed.add(x, used, s.limit, s.grown, miss)
	if used >= 0 {
		s.all.add(x.within(used), 1)
	}
}

// within reports whether a prediction set with this limit contains the label.
func (x Score) within(limit float64) bool { return x.First || x.Value <= limit }

// add adds a weighted score. used is the limit of the score's set, and limit is the limit that α controls. move is the
// resulting change of α, in units of gamma.
func (n *counts) add(x Score, used, limit, weight, miss float64) (move float64) {
	if x.First {
		n.first += weight
	} else {
		n.bins[binOf(x.Value)] += weight
	}
	if used >= 0 {
		n.tally.add(x.within(used), weight)
		if x.Size <= largestSize {
			n.size, n.sized = n.size+weight*x.Size, n.sized+weight
		}
	}
	switch {
	case limit < 0:
		return 0
	case !x.within(limit):
		return miss - 1
	case limit > 0: // a smaller set was possible
		return miss
	}
	return 0
}

// binOf returns the bin of a score; NaN is in the last bin.
func binOf(score float64) int {
	if x := bins * (score / (1 + score)); x < bins-1 {
		return max(0, int(x))
	}
	return bins - 1
}

// advance decays the old scores for a new score. It increases the weight of later scores instead of multiplying the
// old scores.
func (s *scores) advance() {
	s.taken++
	s.grown /= 1 - 1/min(memory, 8+s.taken/fresh)
	if s.grown > largest {
		s.decayed.scale(1 / s.grown)
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

// each lists all counts except the bins.
func (n *counts) each() []*float64 {
	return []*float64{&n.events, &n.held, &n.size, &n.sized, &n.first}
}

// follow sets the limit to the quantile of level 1-α of the scores, if there are enough scores. If s is for a class, of
// has the scores of the range, from which some are borrowed.
func (s *scores) follow(of *scores) {
	if of == nil && s.taken < enough || of != nil && of.limit < 0 {
		return
	}
	h, n := &s.decayed.histogram, s.taken
	if of != nil {
		h, n = h.mixed(&of.decayed.histogram, borrowed*s.grown), n+borrowed
	}
	// The factor includes the next score in the count.
	s.limit = h.quantile((1 - s.level) * (1 + 1/min(n, memory)))
	s.least = loss.Exp(-s.limit)
}

// mixed returns h plus scores distributed as in other, with the given total weight.
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

// quantile returns the score below which the given fraction of the weights lies.
func (h *histogram) quantile(fraction float64) float64 {
	var up [bins + 1]float64 // cumulative weights
	all := h.first
	for i, x := range h.bins {
		up[i] = all
		all += x
	}
	want := fraction * all
	if up[0] >= want {
		return 0
	}
	i, _ := slices.BinarySearch(up[1:bins], want) // the first bin that reaches the fraction
	if i == bins-1 {
		return model.MostLimit
	}
	at := (float64(i) + (want-up[i])/h.bins[i]) / bins
	return at / (1 - at)
}

// State encodes or decodes the state. If the decoded state has another coverage than the Predictor, α is shifted by the
// difference.
func (c *Predictor) State(to *coder.Coder) {
	miss := c.miss
	to.Float(&miss)
	for r := range c.ranges {
		c.ranges[r].state(to, c.miss-miss, nil)
	}
	coder.Length(to, &c.classes, len(to.In)/24) // the smallest encoded class has 24 bytes
	for k := range c.classes {
		c.classes[k].state(to, c.miss-miss, &c.ranges)
	}
}

// state encodes or decodes the scores of a range. If the scores are of a class, of has the scores of its range. state
// adds moved to α.
func (s *scores) state(to *coder.Coder, moved float64, of *scores) {
	to.Each(&s.taken, &s.level, &s.limit, &s.grown, &s.all.events, &s.all.held)
	if s.taken > 0 {
		s.decayed.state(to)
	}
	to.Failed = to.Failed || !(s.all.held >= 0 && s.all.held <= s.all.events && s.all.events <= s.taken && s.taken <= 1<<53 && s.grown >= 1 && s.grown <= 2*largest && s.limit >= -1)
	s.least = loss.Exp(-s.limit)
	if moved != 0 {
		s.level += moved
		s.follow(of)
	}
}

// state encodes or decodes the counts and the bins that are not empty.
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
	const near = 1e-9 // rounding error of sums
	to.Failed = to.Failed || !(n.held >= -near && n.held <= (1+near)*n.events+near && n.size >= -near && n.size <= (1+near)*largestSize*max(n.sized, 0)+near)
}

// Report returns the coverage in each range that has prediction sets.
func (c *Predictor) Report() []measure.Coverage {
	return c.reports(func(*scores) bool { return true })
}

// reports returns the coverage in each range that has prediction sets and whose scores satisfy wanted.
func (c *Predictor) reports(wanted func(*scores) bool) (out []measure.Coverage) {
	if c == nil {
		return nil
	}
	for r := range c.ranges {
		s := &c.ranges[r]
		if s.decayed.events == 0 || s.all.events == 0 || !wanted(s) { // if the state is damaged, one of the two counts can be 0
			continue
		}
		x := measure.Coverage{Range: model.RangeName(r), Events: s.all.events, Coverage: s.all.held / s.all.events, Recent: s.decayed.held / s.decayed.events}
		if s.decayed.sized > 0 {
			x.Size = s.decayed.size / s.decayed.sized
		}
		out = append(out, x)
	}
	return out
}

// Low returns the coverage of ranges whose latest sets miss at least 1.5 times as many labels as configured.
func (c *Predictor) Low() []measure.Coverage {
	return c.reports(func(s *scores) bool {
		return s.decayed.events/s.grown >= lowAfter && s.decayed.held/s.decayed.events < 1-1.5*c.miss
	})
}

// TooLow returns a sentence for users about each range that Low returns.
func (c *Predictor) TooLow() (out []string) {
	for _, x := range c.Low() {
		out = append(out, fmt.Sprintf("of the latest events that lack a share %s of their fields, the sets or intervals that were answered hold the label of %.1f %% and should of %.4g %% (learner.coverage): "+
			"their size was learned from earlier events of this kind, which were few, or not like the latest ones; it goes on being corrected", x.Range, 100*x.Recent, 100*(1-c.miss)))
	}
	return out
}

// lowAfter is the number of sets after which a coverage can count as too low.
const lowAfter = 1000

// Sets returns the limits for readers of a model. A range without a limit gets the limit of the next higher range (more
// missing fields).
func (c *Predictor) Sets() *model.Sets {
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
				out.Classes[k][r] = c.ranges[from].limitFor(c.classes[k].ranges[from])
			}
		}
	}
	return out
}
