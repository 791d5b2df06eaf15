package online

// This file has all experts score an event: the levels of noise, and those that correct them.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/correct"
	"blankout/online/encode"
	"blankout/online/levels"
	"blankout/online/mixture"
)

// ensemble is all experts, and how they are mixed.
type ensemble struct {
	levels  *levels.Expert
	experts *correct.Experts // nil where the settings leave them out
	mixture *mixture.Mixture
	others  []float64 // room
}

// scored is what the experts say of an event. Lists of scores are by lane and output.
type scored struct {
	levels levels.Scores
	// lanes are those that are mixed: what the levels answer and, if there are experts that correct them, what these, mixed,
	// make of the base.
	lanes   []float64
	base    []float64 // by output
	seen    correct.Input
	some    bool // the experts have scored it: base, seen, experts and the corrected lane are of this event
	experts correct.Scores
}

// newScored returns room for what the experts say of an event, of which the levels have theirs.
func (x *ensemble) newScored(levels levels.Scores) scored {
	n, k := len(levels.Iterate), x.levels.Outputs
	s := scored{levels: levels, base: make([]float64, k)}
	if x.experts != nil {
		n += k
		s.experts = x.experts.NewScores()
	}
	s.lanes = make([]float64, n)
	return s
}

// corrected returns the lane of what experts make of the base.
func (s *scored) corrected() []float64 { return s.lanes[len(s.levels.Iterate):] }

// score scores an event. Awake says that experts do so that do not count, too.
func (x *ensemble) score(in *encode.Input, awake bool, to *scored) {
	x.levels.Score(in, &to.levels)
	x.levels.Published(&to.levels, to.lanes[:len(to.levels.Iterate)])
	if to.some = x.counts() || awake && x.knows(); !to.some {
		return
	}
	x.mixture.Base(to.lanes, x.levels.Active(), to.base)
	x.experts.Read(in, &to.seen)
	x.experts.Score(&to.seen, to.base, &to.experts, to.corrected())
}

// knows says whether there are experts that correct the levels, and counts whether these may have a part in answers.
func (x *ensemble) knows() bool { return x.experts != nil && x.experts.Knows() }

func (x *ensemble) counts() bool { return x.experts != nil && x.experts.Counts() }

// awake says whether experts learn from the labeled event of this number.
func (x *ensemble) awake(number uint64) bool { return x.counts() || x.knows() && wakes(number) }

// intercepts writes to lanes what the experts say of an event without features; base is room.
func (x *ensemble) intercepts(of []float64, base, lanes []float64) {
	n := len(lanes)
	if x.experts != nil {
		n -= x.levels.Outputs
	}
	x.levels.PublishedIntercepts(of, lanes[:n])
	if x.counts() {
		x.mixture.Base(lanes, x.levels.Active(), base)
		x.experts.Linear(&correct.Input{One: 1}, base, lanes[n:])
	}
}

// weightsOf returns what the weights of each level count on events of a range, in the memory of room, and those of
// the experts that correct them.
func (x *ensemble) weightsOf(r int, room []float64) (levels []float64, own float64) {
	all := x.mixture.Weights(r)
	levels = append(room[:0], all[:len(x.levels.Noises)]...)
	if !x.counts() {
		return levels, 0
	}
	own = all[len(all)-1]
	base := x.experts.Base()
	for v, w := range x.mixture.Uncorrected(0) {
		levels[v] += own * base * w
	}
	return levels, own
}

// weightOf returns the weight of a column, of this row, for an output, given what weightsOf returns.
func (x *ensemble) weightOf(column uint32, row, levels []float64, own float64, output int) float64 {
	w := x.levels.Weight(row, levels, output)
	if own > 0 {
		w += own * x.experts.Weight(column, output)
	}
	return w
}

// parts returns where in a row the weights stand of levels, and the own ones of the experts that correct these, that count so
// much; intercepts gets their intercepts, by output.
func (x *ensemble) parts(levels []float64, own float64, row, intercepts []float64) []model.Part {
	parts := x.levels.Parts(levels, row, intercepts)
	if own == 0 {
		return parts
	}
	for k := range x.levels.Active() {
		intercepts[k] += own * x.experts.Intercept(k)
	}
	return append(parts, model.Part{Share: own, Weight: x.levels.End()})
}

// said is what lanes say of an event by which they are judged.
type said struct {
	lanes   []float64 // see scored
	experts []float64 // likewise, nil where they are not judged
}

// saidOf returns what the lanes have said of an event: as they are now or, if that is not nil, in an earlier prediction, as
// appendLanes has them; lanes is room.
func (x *ensemble) saidOf(s *scored, earlier []float64, lanes *[]float64) said {
	if earlier == nil {
		out := said{lanes: s.lanes}
		if s.some {
			out.experts = s.experts.Lanes
		}
		return out
	}
	n := len(s.levels.Iterate)
	*lanes = append((*lanes)[:0], s.lanes...)
	out := said{lanes: *lanes}
	x.levels.PublishedLanes(earlier[:2*n], out.lanes[:n])
	if s.some && len(earlier) == x.laneCount() {
		out.experts = earlier[2*n:]
		x.experts.Mix(out.experts, out.lanes[n:])
	}
	return out
}

// laneCount returns how many values appendLanes appends, of an event at which the experts are judged.
func (x *ensemble) laneCount() int {
	n := x.levels.Lanes()
	if x.knows() {
		n += x.experts.Lanes() * x.levels.Outputs
	}
	return n
}

// appendLanes appends what the lanes say of an event, by which they can be judged later.
func (x *ensemble) appendLanes(s *scored, out []float64) []float64 {
	out = x.levels.AppendLanes(&s.levels, out)
	if s.some {
		out = append(out, s.experts.Lanes...)
	}
	return out
}

// judgeWhole takes up what lanes have lost at a whole event.
func (x *ensemble) judgeWhole(s said, by *mixture.Event) {
	x.mixture.Observe(s.lanes, 0, by)
	if s.experts == nil {
		return
	}
	x.experts.Observe(s.experts, by.LostTimes)
	lane := s.lanes[len(s.lanes)-by.Outputs:]
	x.others = slices.Grow(x.others[:0], by.Outputs)[:by.Outputs]
	mixture.Mix(x.mixture.Uncorrected(0), s.lanes, by.Active, x.others)
	x.compare(0, x.others, lane, by)
}

// compare takes up what the levels as they are mixed have lost at an event of a range, and what the corrected lane has: others
// and lane, by output. Of others nothing stays.
func (x *ensemble) compare(r int, others, lane []float64, by *mixture.Event) {
	alone := by.Lost(others)
	x.mixture.ObserveCorrected(r, alone, by.LostTimes(lane, 1))
	if r > 0 && x.mixture.Table.Heeds(r) {
		return // masks alone say so far what is gained on such events
	}
	share := x.mixture.Table.InForce[r].Second
	for k, f := range lane[:by.Active] {
		others[k] += share * (f - others[k])
	}
	x.experts.Gain(alone, by.Lost(others))
}

// meetNumbers takes up the numbers of a labeled event that has been scored. It returns whether the experts follow others.
func (x *ensemble) meetNumbers(in *encode.Input, n *encode.Encoder) (others bool) {
	if x.experts != nil {
		others = x.experts.Meet(in, n)
		x.mixture.Correct(x.experts.Counts())
	}
	return others
}

// review takes up that it has been decided anew which columns are numbers.
func (x *ensemble) review(r *encode.Review, n *encode.Encoder) {
	if x.experts != nil {
		x.experts.Review(r, n.Table)
		x.mixture.Correct(x.experts.Counts())
	}
}

// apply puts in force, at the event of this number, how lanes are mixed.
func (x *ensemble) apply(number uint64) {
	x.mixture.Apply()
	if x.experts != nil {
		x.experts.Rested(number, x.mixture.Table.Counts())
		x.mixture.Correct(x.experts.Counts())
	}
}

// forget leaves a part of what the experts know that correct the levels.
func (x *ensemble) forget(keep float64) {
	if x.experts != nil {
		x.experts.Forget(keep)
	}
}

// startFresh has the second-order expert start again, and be mixed in as at the beginning of a stream.
func (x *ensemble) startFresh() {
	if x.experts != nil {
		x.experts.StartFresh()
		x.mixture.CorrectAgain()
		x.mixture.Correct(x.experts.Counts())
	}
}

// adopt has the experts that correct the levels begin again, beside levels that are placed at exact solutions. What these say of the
// columns of splines that the levels do not have is the experts' own, which then answer alone.
func (x *ensemble) adopt(hat func(column uint32, level, output int) float64) {
	if x.experts == nil {
		return
	}
	mix := x.mixture.Uncorrected(0)
	if x.experts.Adopt(func(column uint32, output int) (w float64) {
		for v, share := range mix {
			w += share * hat(column, v, output)
		}
		return w
	}) {
		x.mixture.CorrectAlone()
	}
	x.mixture.Correct(x.experts.Counts())
}

// publish writes the own weights of the experts that correct the levels to rows.
func (x *ensemble) publish(t *model.Table) {
	if x.experts != nil {
		x.experts.Publish(t)
	}
}

// alone returns the weights by which the corrected lane alone counts.
func (x *ensemble) alone() []float64 {
	out := make([]float64, len(x.levels.Noises)+1)
	out[len(out)-1] = 1
	return out
}

// teach has the experts learn an event that has been scored.
func (x *ensemble) teach(s *scored, target []float64, weight float64) {
	if s.some {
		if r := x.experts.Groups(); r > 0 {
			x.levels.Deaths(&s.levels, x.mixture.Uncorrected(0), math.Sqrt(r), s.seen.Source, &s.seen.Groups)
		}
		x.experts.Update(&s.seen, &s.experts, target, x.levels.Active(), weight)
	}
}

// correctState codes the experts that correct the levels.
func (x *ensemble) correctState(c *coder.Coder, curves *model.Curves) {
	if x.experts != nil {
		x.experts.State(c, curves)
		x.mixture.Correct(x.experts.Counts())
	}
}
