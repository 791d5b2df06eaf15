package mixture

// This file holds the shares by range of what is missing.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// Ranges is the number of ranges of the share of an event's fields that is missing: that of
// whole events, which lack nothing that is known to be missing, and those of model.MissingBin.
const Ranges = 1 + model.MissingBins

// Range returns the range of an event that lacks k.
func Range(k model.Lack) int {
	if !k.Some() {
		return 0
	}
	return 1 + model.MissingBin(k.Share())
}

// RangeWeights is what an event of a range is answered by: the weights of the levels mixed by their
// shares, and scores of the rules by theirs.
type RangeWeights struct {
	Levels []float64           // shares times scales: they need not sum to 1
	Second float64             // the share of the second-order expert against the levels as they are mixed
	Rules  model.PolicyWeights // of whole events none
}

// Largest returns the level with the largest share.
func (m *RangeWeights) Largest() int {
	best := 0
	for v, share := range m.Levels {
		if share > m.Levels[best] {
			best = v
		}
	}
	return best
}

// Table holds the shares of levels and of rules by range, and the forecasts. Both factors are
// measured by themselves: a level under the rules as they are mixed, a rule under the levels as
// they are.
type Table struct {
	scales []float64
	levels [Ranges]Weights  // by level and scale
	rules  [Ranges]Weights  // of whole events unused
	second *[Ranges]Weights // of the levels as they are mixed, and of the second-order expert; nil without
	// How many events of each range have lacked fields by themselves of late.
	own    [Ranges]float64
	mixes  [Ranges][]float64
	shares []float64 // scratch
	// InForce is what answers events, until Apply.
	InForce [Ranges]RangeWeights
	// Features and Groups are forecasts where features are declared missing, and where groups are. SilentFeatures and
	// SilentGroups are those where they die silently.
	Features, Groups, SilentFeatures, SilentGroups Curves
}

// curves returns the forecasts.
func (t *Table) curves() [4]*Curves {
	return [4]*Curves{&t.Features, &t.Groups, &t.SilentFeatures, &t.SilentGroups}
}

// wholeRates are the s of the levels for whole events, rangeRate that for others; ruleRates are those of
// the rules, which differ from stream to stream by more than levels do.
var wholeRates = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1}

// secondRates are those of whole events between the levels as they are mixed and another expert.
var secondRates = []float64{1e-4, 1e-2}

const rangeRate = 0.01

var ruleRates = []float64{1e-3, 1e-2}

// alike is by how much shares of a range must differ from those of whole events to be
// different weights: files hold weights for each.
const alike = 0.01

// middleShare is what a level's middle scale has of the level's share at first.
const middleShare = 0.8

// NewTable returns a table that begins with these shares of levels and of rules. Each level is
// compared with its scores multiplied by each of the scales, an odd number of them: one that is too
// sure of itself then counts for less (temperatures; Guo et al. 2017).
func NewTable(levels, scales []float64, rules model.PolicyWeights) *Table {
	t := &Table{scales: scales}
	levels = t.spread(levels)
	for r := range Ranges {
		rates := wholeRates
		if r > 0 {
			rates = []float64{rangeRate}
		}
		t.levels[r] = NewWeights(levels, rates...)
		t.rules[r] = NewWeights(rules[:], ruleRates...)
	}
	t.Apply()
	return t
}

// AddSecond gives the table a second-order expert, which begins with a share.
func (t *Table) AddSecond(share float64) {
	t.second = &[Ranges]Weights{}
	for r := range t.second {
		rates := secondRates
		if r > 0 {
			rates = []float64{rangeRate}
		}
		t.second[r] = NewWeights([]float64{1 - share, share}, rates...)
	}
	t.Apply()
}

// SecondAlone has the expert answer alone, until others have been better.
func (t *Table) SecondAlone() {
	for r := range t.second {
		t.second[r].Begin([]float64{0, 1})
	}
	t.Apply()
}

// SecondAgain has the second-order expert answer with this share of whole events, and ranges begin with what these say.
func (t *Table) SecondAgain(share float64) {
	for r := range t.second {
		t.second[r].Again()
	}
	for r := range t.InForce {
		t.InForce[r].Second = share
	}
}

// RemoveSecond takes the expert out.
func (t *Table) RemoveSecond() {
	t.second = nil
	for r := range t.InForce {
		t.InForce[r].Second = 0
	}
}

// Counts says whether the second-order expert has a part in the answers to events as they come: to whole ones, or of a range
// that events lack fields by themselves.
func (t *Table) Counts() bool {
	for r := range t.InForce {
		if t.InForce[r].Second > 0 && (r == 0 || !t.Heeds(r)) {
			return true
		}
	}
	return false
}

// TakeSecond takes up what the mixed levels and the second-order expert have lost at an event of a
// range.
func (t *Table) TakeSecond(r int, levels, second float64) {
	s := &t.second[r]
	if r > 0 && s.taken == 0 {
		s.Begin(t.second[0].Mix(nil))
	}
	s.Take([]float64{levels, second})
}

// spread gives each level's share to its scales, most of it to the middle one.
func (t *Table) spread(levels []float64) (shares []float64) {
	n := len(t.scales)
	for _, share := range levels {
		for i := range t.scales {
			switch {
			case n == 1:
				shares = append(shares, share)
			case i == n/2:
				shares = append(shares, share*middleShare)
			default:
				shares = append(shares, share*(1-middleShare)/float64(n-1))
			}
		}
	}
	return shares
}

// mix returns what the shares of a range make of the levels, all scales of a level together. It is
// borrowed until the next call for that range.
func (t *Table) mix(r int) []float64 {
	n := len(t.scales)
	t.shares = t.levels[r].Mix(t.shares[:0])
	levels := t.mixes[r]
	if levels == nil {
		levels = make([]float64, len(t.shares)/n)
		t.mixes[r] = levels
	}
	clear(levels)
	for i, share := range t.shares {
		levels[i/n] += share * t.scales[i%n]
	}
	return levels
}

// TakeLevels takes up what the levels have lost at an event of a range, each at every scale.
func (t *Table) TakeLevels(r int, losses []float64) {
	s := &t.levels[r]
	if r > 0 && s.taken == 0 { // it begins with what whole events say
		s.Begin(t.levels[0].Mix(nil))
	}
	s.Take(losses)
}

// AddLevels is TakeLevels for whole events of one of several learners.
func (t *Table) AddLevels(losses []float64) { t.levels[0].Add(losses) }

// TakeRules takes up what the rules have lost at an event of a range, those that were not to be
// had NaN.
func (t *Table) TakeRules(r int, losses model.PolicyWeights) { t.rules[r].Take(losses[:]) }

const (
	// ownEnough is how many events that lack fields by themselves tell enough of a range, and
	// ownMemory over how many masks they are remembered.
	ownEnough, ownMemory = 100, 1000
)

// Own counts an event of a range that has lacked fields by itself.
func (t *Table) Own(r int) { t.own[r]++ }

// Heeds says whether masks still say more of a range than events that lack fields by themselves.
func (t *Table) Heeds(r int) bool { return t.own[r] < ownEnough }

// Masked counts an event that a mask has deleted fields of.
func (t *Table) Masked() {
	for r := range t.own {
		t.own[r] *= 1 - 1.0/ownMemory
	}
}

// Apply puts the shares in force.
func (t *Table) Apply() {
	whole := t.mix(0)
	t.InForce[0].Levels = whole
	for r := 1; r < Ranges; r++ {
		m := RangeWeights{Levels: whole}
		if s := &t.levels[r]; s.taken > 0 {
			if own := t.mix(r); apart(own, whole) > alike {
				m.Levels = own
			}
		}
		t.shares = t.rules[r].Mix(t.shares[:0])
		copy(m.Rules[:], t.shares)
		t.InForce[r] = m
	}
	if t.second == nil {
		return
	}
	for r := range t.InForce {
		of := &t.second[r]
		if r > 0 && of.taken == 0 {
			of = &t.second[0]
		}
		t.shares = of.Mix(t.shares[:0])
		t.InForce[r].Second = t.shares[1]
	}
}

// apart returns the largest difference of two lists of shares.
func apart(a, b []float64) (most float64) {
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i]))
	}
	return most
}

// Restart makes the table begin with these shares of levels, and with rules by range, because levels
// have new weights.
func (t *Table) Restart(levels []float64, rules model.MissingPolicies) {
	levels = t.spread(levels)
	for r := range Ranges {
		t.levels[r].Begin(levels)
		if r > 0 {
			t.rules[r].Begin(rules[r-1][:])
		}
	}
	t.Apply()
}

// Rules returns the shares of the rules in force.
func (t *Table) Rules() (rules model.MissingPolicies) {
	for bin := range rules {
		rules[bin] = t.InForce[1+bin].Rules
	}
	return rules
}

// Merge takes up what an interval of another learner, from base to now, has added of whole events
// and to the forecasts, and puts the shares in force.
func (t *Table) Merge(base, now *Table) {
	t.levels[0].Merge(&base.levels[0], &now.levels[0])
	for i, curves := range t.curves() {
		curves.Merge(base.curves()[i], now.curves()[i])
	}
	t.Apply()
}

// State walks the table.
func (t *Table) State(c *coder.Coder) {
	n := len(t.levels[0].prior) / len(t.scales)
	for r := range Ranges {
		t.levels[r].State(c)
		t.rules[r].State(c)
		m := &t.InForce[r]
		c.Floats(&m.Levels)
		c.Each(&m.Rules[0], &m.Rules[1], &m.Rules[2], &t.own[r])
		c.Failed = c.Failed || len(m.Levels) != n
		if t.second != nil {
			t.second[r].State(c)
			c.Float(&m.Second)
		}
	}
	for _, curves := range t.curves() {
		curves.State(c)
	}
}

// SumsState walks what Merge takes.
func (t *Table) SumsState(c *coder.Coder) {
	t.levels[0].SumsState(c)
	for _, curves := range t.curves() {
		curves.State(c)
	}
}

// Sums returns a copy of what Merge takes.
func (t *Table) Sums() *Table {
	return &Table{levels: [Ranges]Weights{t.levels[0].Clone()}, Features: t.Features, Groups: t.Groups, SilentFeatures: t.SilentFeatures, SilentGroups: t.SilentGroups}
}

// Fits says whether what Merge takes, from base to now, is of so many events at most.
func Fits(base, now *Table, events float64) bool {
	if n := now.levels[0].waiting - base.levels[0].waiting; !(n >= 0 && n <= events) {
		return false
	}
	for i, l := range now.levels[0].pending {
		if d := l - base.levels[0].pending[i]; !(d >= 0 && d <= mostLoss*events) {
			return false
		}
	}
	for i, curves := range now.curves() {
		if !curves.within(base.curves()[i], events) {
			return false
		}
	}
	return true
}
