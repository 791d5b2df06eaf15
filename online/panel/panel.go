// Package panel has experts of numbers and their hats learn beside a base learner, and mixes their
// scores by shares that follow what they lose: a second-order one (package newton), and curves at
// several rates (package additive). The mixture is linear: its weights are the base learner's times
// [Panel.Base] plus [Panel.Weights].
//
// An expert that has no room for the columns sleeps: the others have its share.
package panel

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/additive"
	"blankout/online/newton"
	"blankout/online/probe"
)

// Panel is the experts as one. Take and Learn are about the event that Score had last. It is not
// safe for concurrent use.
type Panel struct {
	newton *newton.Expert
	curves *additive.Expert // nil where there is nothing to learn curves for
	// By expert, newton first: how the shares go, and the factor of its scores where there are several
	// outputs. In force are the share, 0 for one that sleeps, and that times the factor.
	shares     probe.Shares
	factors    []Temperature
	mix, parts []float64
	// By expert how many events in a row it has counted for little, see learns, and all events learned.
	idle []uint64
	met  uint64
	took bool // shares have changed that are not in force

	columns []uint32
	outputs int
	weights [][]float64 // see Weights
	stale   bool        // these are not what the experts say
	lists   [][]float64 // room, see AddWeights

	event event
}

// event is the event that was scored last.
type event struct {
	places        []int     // see Places
	added, scores []float64 // by output
	of            [][]float64
	last, losses  []float64
}

const (
	// newtonShare is what the second-order expert begins with.
	newtonShare = 0.5
	// An expert counts for little below leastShare of the Panel. After restAfter such events it rests: it
	// learns every restEvery-th event, until it counts for wakeShare.
	leastShare, wakeShare = 0.01, 0.02
	restAfter, restEvery  = 10_000, 16
)

// shareRates are how fast an expert may come back, see probe.Shares.
var shareRates = []float64{1e-5, 1e-4, 1e-3, 1e-2}

// New returns a Panel without columns. Only where curves are wanted there are experts of those.
func New(s newton.Settings, outputs int, curves bool) *Panel {
	p := &Panel{newton: newton.New(s, outputs)}
	prior := []float64{1}
	if curves {
		p.curves = additive.New(s.Loss, s.Strength, outputs)
		prior[0] = newtonShare
		for range additive.Rates {
			prior = append(prior, (1-newtonShare)/float64(len(additive.Rates)))
		}
	}
	p.shares, p.factors, p.idle = probe.NewShares(prior, shareRates...), make([]Temperature, len(prior)), make([]uint64, len(prior))
	p.event.of, p.event.losses = make([][]float64, len(prior)), make([]float64, len(prior))
	p.room(outputs)
	p.force()
	return p
}

// room makes room for so many outputs.
func (p *Panel) room(outputs int) {
	p.outputs = outputs
	for _, s := range []*[]float64{&p.event.added, &p.event.scores, &p.event.last} {
		*s = make([]float64, outputs)
	}
	p.weights = make([][]float64, outputs)
}

// asleep says whether expert i has no part in the mixture.
func (p *Panel) asleep(i int) bool {
	if len(p.columns) == 0 {
		return false
	}
	if i == 0 {
		return len(p.newton.Columns()) == 0
	}
	return len(p.curves.Columns()) == 0
}

// force puts the shares in force.
func (p *Panel) force() {
	p.took = false
	p.mix = p.shares.Mix(p.mix[:0])
	awake := 0.0
	for i := range p.mix {
		if p.asleep(i) {
			p.mix[i] = 0
		}
		awake += p.mix[i]
	}
	for i := range p.mix {
		if awake > 0 {
			p.mix[i] /= awake
		}
	}
	if awake == 0 { // those that are awake had too little to count
		for i := range p.mix {
			if !p.asleep(i) {
				p.mix[i] = 1
				break
			}
		}
	}
	p.parts = p.parts[:0]
	for i, share := range p.mix {
		p.parts = append(p.parts, share*p.factors[i].Factor())
	}
	p.stale = true
}

// Experts returns the experts and their shares, which sum to 1.
func (p *Panel) Experts() []model.Expert {
	experts := []model.Expert{{Name: "second order", Share: p.mix[0]}}
	if p.curves != nil {
		for r, name := range []string{"curves", "fast curves"} {
			experts = append(experts, model.Expert{Name: name, Share: p.mix[1+r]})
		}
	}
	return experts
}

// Columns returns the columns, ascending, borrowed until Follow.
func (p *Panel) Columns() []uint32 { return p.columns }

// Fits says whether any expert has room for so many columns and outputs.
func Fits(columns, outputs int) bool {
	return newton.Fits(columns, outputs) || additive.Fits(columns, outputs)
}

// Follow makes the columns those of the experts: new ones begin at 0, those that are not among them any
// more are left out.
func (p *Panel) Follow(columns []uint32) {
	p.columns = slices.Compact(slices.Sorted(slices.Values(columns)))
	hats, _ := slices.BinarySearch(p.columns, model.FirstHat)
	second, curves := p.columns, p.columns
	if !newton.Fits(len(second), p.outputs) {
		second = p.columns[:hats]
	}
	if !newton.Fits(len(second), p.outputs) {
		second = nil
	}
	p.newton.Follow(second)
	if !additive.Fits(len(curves), p.outputs) {
		curves = nil
	}
	if p.curves != nil {
		p.curves.Follow(curves)
	}
	p.force()
}

// Score writes the scores of an event to out, given those of the base learner. The event's columns
// ascend; those that the Panel does not follow count for nothing. It returns how many it follows.
func (p *Panel) Score(columns []uint32, x, base, out []float64) (known int) {
	ev := &p.event
	known, ev.places = newton.Locate(p.columns, columns, ev.places[:0])
	clear(ev.scores)
	clear(ev.added)
	add := func(i int, scores, added []float64) {
		ev.of[i] = scores
		part := p.parts[i]
		for k := range scores {
			ev.scores[k] += part * scores[k]
			ev.added[k] += part * added[k]
		}
	}
	p.newton.ScoreAt(ev.places, x, base, ev.last)
	add(0, p.newton.Scores(), p.newton.Added())
	if p.curves != nil {
		places := ev.places
		if len(p.curves.Columns()) == 0 {
			places = nil
		}
		p.curves.Score(places, x, base)
		for r := range additive.Rates {
			add(1+r, p.curves.Scores(r), p.curves.Added(r))
		}
	}
	copy(out, ev.scores)
	return known
}

// Added returns what the experts' own weights add to the scores of the event that Score had last, by
// output, borrowed until the next one.
func (p *Panel) Added() []float64 { return p.event.added }

// Places returns of each column of the event that Score had last its place in Columns, -1 for one that
// the Panel does not follow, borrowed until the next one.
func (p *Panel) Places() []int { return p.event.places }

// Learns says whether the second-order expert learns from the next event, and Die tells it which columns of
// the event that Score had last die together.
func (p *Panel) Learns() bool { return p.newton.Learns() }

// Die is described at Learns.
func (p *Panel) Die(g newton.Groups) { p.newton.Die(g) }

// Count returns how many experts there are.
func (p *Panel) Count() int { return len(p.mix) }

// Said appends the scores of each expert at the event that Score had last, by output.
func (p *Panel) Said(out []float64) []float64 {
	for _, scores := range p.event.of {
		out = append(out, scores...)
	}
	return out
}

// Recall makes the scores that Take judges those that Said has told of an event.
func (p *Panel) Recall(said []float64) {
	clear(p.event.scores)
	for i := range p.event.of {
		p.event.of[i] = said[i*p.outputs:][:p.outputs]
		for k, f := range p.event.of[i] {
			p.event.scores[k] += p.parts[i] * f
		}
	}
}

// Scores returns what the experts, mixed, say of the event that Score had last, or of which Recall tells.
func (p *Panel) Scores() []float64 { return p.event.scores }

// Take takes up what the experts lose at the event that Score had last, and returns what their mixture
// does. The shares that follow are in force from Learn on. loss returns what scores lose, which it
// must not keep.
func (p *Panel) Take(loss func(scores []float64) float64) (lost float64) {
	ev := &p.event
	copy(ev.last, ev.scores)
	lost = loss(ev.last)
	if len(p.mix) == 1 && p.outputs == 1 {
		return lost
	}
	for i, scores := range ev.of {
		ev.losses[i] = math.NaN()
		if p.asleep(i) {
			continue
		}
		at := func(factor float64) float64 {
			for k, f := range scores {
				ev.last[k] = factor * f
			}
			return loss(ev.last)
		}
		ev.losses[i] = at(p.factors[i].Factor())
		if p.outputs > 1 {
			p.factors[i].Learn(at)
		}
	}
	p.shares.Take(ev.losses)
	p.took = true
	return lost
}

// Learn takes up the event that Score had last: its targets by output, of which only the first
// active count, and its importance. It says whether what the Panel answers has changed.
func (p *Panel) Learn(targets []float64, active int, importance float64) (changed bool) {
	if changed = p.learns(0); changed {
		p.newton.Learn(targets, active, importance)
	}
	curves := false
	for i := 1; i < len(p.mix); i++ {
		curves = p.learns(i) || curves
	}
	if curves && len(p.curves.Columns()) > 0 {
		p.curves.Learn(targets, active, importance)
		changed = true
	}
	p.met++
	p.stale = p.stale || changed
	if p.took {
		p.force()
		return true
	}
	return changed
}

// learns says whether expert i learns from the event at hand.
func (p *Panel) learns(i int) bool {
	least := leastShare
	if p.idle[i] >= restAfter {
		least = wakeShare
	}
	switch {
	case p.mix[i] >= least:
		p.idle[i] = 0
	case p.idle[i] < restAfter:
		p.idle[i]++
	}
	return p.idle[i] < restAfter || p.met%restEvery == 0
}

// Base returns what the base learner's weights count.
func (p *Panel) Base() (base float64) {
	base = p.parts[0] * p.newton.Weights(0).Base
	for i := 1; i < len(p.mix); i++ {
		base += p.parts[i]
	}
	return base
}

// Intercept returns the experts' own intercept of output k.
func (p *Panel) Intercept(k int) (b float64) {
	b = p.parts[0] * p.newton.Weights(k).Intercept
	for i := 1; i < len(p.mix); i++ {
		b += p.parts[i] * p.curves.Intercept(i-1, k)
	}
	return b
}

// Weights returns the experts' own weights of Columns for output k, borrowed until Learn.
func (p *Panel) Weights(k int) []float64 {
	if p.stale {
		p.stale = false
		for k := range p.weights {
			p.weights[k] = p.weights[k][:0]
			for i := range p.columns {
				p.weights[k] = append(p.weights[k], p.weight(k, i))
			}
		}
	}
	return p.weights[k]
}

// Weight returns Weights(k)[i].
func (p *Panel) Weight(k, i int) float64 {
	if p.stale {
		return p.weight(k, i)
	}
	return p.weights[k][i]
}

// AddWeights adds x times Weight(k, i) to to[k], for every output k.
func (p *Panel) AddWeights(to []float64, x float64, i int) {
	if !p.stale {
		for k := range to {
			to[k] += x * p.weights[k][i]
		}
		return
	}
	second, lists := i < len(p.newton.Columns()), p.lists[:0]
	if p.curves != nil && i < len(p.curves.Columns()) {
		for r := range additive.Rates {
			lists = append(lists, p.curves.Weights(r, i)[:len(to)])
		}
	}
	p.lists = lists
	parts := p.parts[1:][:len(lists)]
	for k := range to {
		w := 0.0
		if second {
			w = p.parts[0] * p.newton.Weight(k, i)
		}
		for r, part := range parts {
			w += part * lists[r][k]
		}
		to[k] += x * w
	}
}

func (p *Panel) weight(k, i int) (w float64) {
	if i < len(p.newton.Columns()) {
		w = p.parts[0] * p.newton.Weight(k, i)
	}
	if p.curves != nil && i < len(p.curves.Columns()) {
		w = p.curves.Add(w, p.parts[1:], k, i)
	}
	return w
}
