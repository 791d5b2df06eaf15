package online

// This file scores an event with all experts: the noise levels, and the experts that correct the scores of the noise
// levels.

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/levels"
	"blankout/online/mixture"

	"gonum.org/v1/gonum/floats"
)

// ensemble holds all experts and their mixture weights. A prediction mixes components. Each noise level is a
// component, and the correcting experts together are one more component. Lists of scores are by component and output.
type ensemble struct {
	levels  *levels.Expert
	experts *experts.Experts
	mixture *mixture.Mixture
	cosines cosines
	others  []float64 // scratch
}

// scored holds the scores of one event by all experts.
type scored struct {
	seen       experts.Input
	levels     []float64 // sums of the noise levels
	components []float64 // the noise levels' scores and, with correcting experts, the corrected score
	// If some is false, the correcting experts have not scored the event, and the following fields are invalid.
	some    bool
	base    []float64 // mixed score of the noise levels by output, which is corrected
	experts []float64 // scores of each correcting expert, by component and output
}

// newScored returns memory for the scores of one event.
func (x *ensemble) newScored() scored {
	return scored{levels: make([]float64, x.levels.Sums()), base: make([]float64, x.levels.Outputs), experts: make([]float64, x.experts.Size()), components: make([]float64, x.components())}
}

// components returns the number of scores in scored.components.
func (x *ensemble) components() int {
	if x.mixture.Corrects != nil {
		return x.own() + x.levels.Outputs
	}
	return x.own()
}

// own returns the number of scores of the noise levels.
func (x *ensemble) own() int { return len(x.levels.Noises) * x.levels.Outputs }

// score computes the scores of an event. If learns is true, the correcting experts score the event even if they have no
// weight in predictions.
func (x *ensemble) score(in *encode.Input, learns bool, to *scored) {
	to.seen.Event, to.seen.Rows, to.seen.Values = in, in.Rows, in.X
	x.levels.Sum(&to.seen, to.levels)
	x.correct(in, learns, to)
}

// corrects reports whether the correcting experts score events; learns is the argument of score.
func (x *ensemble) corrects(learns bool) bool {
	return x.experts.Counts() || learns && x.experts.HasColumns()
}

// correct completes score after the noise levels have scored the event. It uses in only if corrects(learns) is true.
func (x *ensemble) correct(in *encode.Input, learns bool, to *scored) {
	x.levels.Scores(to.levels, to.components)
	if to.some = x.corrects(learns); !to.some {
		return
	}
	x.mixture.Base(to.components, x.levels.Active(), to.base)
	x.experts.Read(in, &to.seen)
	x.experts.Score(&to.seen, to.base, to.experts, to.components[x.own():])
}

// nested holds the scores of nested copies of an event, and reusable memory. Each copy has more missing features than the
// copy before.
type nested struct {
	copies [mixture.Points]nestedCopy // copy 0 is not scored
	seen   experts.Input
	levels [2][]float64 // sums of the noise levels: of the features of one copy, and of all copies so far
	// By output: the mixed intercepts of the correcting experts, their mixed scores of the features of one copy and of all
	// copies so far, and the score that they correct.
	intercepts, part, sum, base []float64
}

// nestedCopy is one of the copies. seen has only the features that the next copy lacks.
type nestedCopy struct {
	components []float64 // as in scored
	seen       experts.Input
}

func (x *ensemble) newNested() nested {
	k := x.levels.Outputs
	n := nested{intercepts: make([]float64, k), part: make([]float64, k), sum: make([]float64, k), base: make([]float64, k)}
	for i := range n.levels {
		n.levels[i] = make([]float64, x.levels.Sums())
	}
	for i := range n.copies {
		n.copies[i].components = make([]float64, x.components())
	}
	return n
}

// scoreNested scores copies of an event. Feature i is present up to copy last[i], or in no copy if last[i] is -1. corrects
// reports whether the correcting experts score the copies. Scores are sums over the features, so one pass over these gives
// the scores of all copies, beginning with the last one, which has the fewest features.
func (x *ensemble) scoreNested(in *encode.Input, last []int8, corrects bool, n *nested) {
	n.arrange(in, last)
	own, features, factor, part, sums := x.own(), in.Features(), 0.0, n.levels[0], n.levels[1]
	x.levels.Sum(&experts.Input{Rows: in.Rows[features:], Values: in.X[features:]}, sums)
	if clear(n.sum); corrects {
		x.experts.Read(in, &n.seen)
		for i, source := range n.seen.Source {
			c := &n.copies[max(last[source], 0)].seen
			c.Index, c.X = append(c.Index, n.seen.Index[i]), append(c.X, n.seen.X[i])
		}
		factor = x.experts.Base()
		x.experts.Intercepts(n.intercepts)
	}
	for i := mixture.Points - 1; i > 0; i-- {
		c := &n.copies[i]
		x.levels.Sum(&c.seen, part)
		floats.Add(sums, part)
		if x.levels.Scores(sums, c.components); !corrects {
			continue
		}
		x.mixture.Base(c.components, x.levels.Active(), n.base)
		x.experts.Sum(&c.seen, n.part)
		for k, f := range n.part {
			n.sum[k] += f
			c.components[own+k] = factor*n.base[k] + n.intercepts[k] + n.sum[k]
		}
	}
}

// arrange gives each copy the features that the next copy lacks. Features that are in no copy belong to copy 0.
func (n *nested) arrange(in *encode.Input, last []int8) {
	for i := range n.copies {
		c := &n.copies[i]
		c.seen.Rows, c.seen.Values, c.seen.Index, c.seen.X = c.seen.Rows[:0], c.seen.Values[:0], c.seen.Index[:0], c.seen.X[:0]
	}
	for i, at := range last[:in.Features()] {
		c := &n.copies[max(at, 0)].seen
		c.Rows, c.Values = append(c.Rows, in.Rows[i]), append(c.Values, in.X[i])
	}
}

// learns reports whether the correcting experts learn from the labeled event with this number.
func (x *ensemble) learns(number uint64) bool { return x.corrects(learnsIdle(number)) }

// intercepts writes the scores of an event without features to components. base is scratch memory, by output.
func (x *ensemble) intercepts(base, components []float64) {
	n := x.own()
	x.levels.Intercepts(components)
	if x.experts.HasColumns() { // also while the correcting experts rest, because components has earlier values
		x.mixture.Base(components, x.levels.Active(), base)
		x.experts.Intercepts(components[n:])
		c := x.experts.Base()
		for k, b := range base {
			components[n+k] += c * b
		}
	}
}

// weightsOf returns the mixture weights for events in a range of the missing fraction. levels holds the factor of each
// noise level's weights. own is the factor of the correcting experts' own weights. The result uses the memory of room.
func (x *ensemble) weightsOf(r int, room []float64) (levels []float64, own float64) {
	all := x.mixture.Weights(r)
	levels = append(room[:0], all[:len(x.levels.Noises)]...)
	if !x.experts.Counts() {
		return levels, 0
	}
	own = all[len(all)-1]
	base := x.experts.Base()
	for v, w := range x.mixture.Uncorrected(0) {
		levels[v] += own * base * w
	}
	return levels, own
}

// columnWeights writes the mixed weights of a column to to, by output. row is the row of the column, and levels and own
// are results of weightsOf.
func (x *ensemble) columnWeights(column uint32, row, levels []float64, own float64, to []float64) {
	if clear(to); own > 0 {
		x.experts.ColumnWeights(column, to)
	}
	x.levels.Weights(row, levels, own, to)
}

// parts returns, for each expert, the index of its weights in a row and their factor. levels and own are results of
// weightsOf. parts also writes the mixed intercepts to intercepts, by output.
func (x *ensemble) parts(levels []float64, own float64, row, intercepts []float64) []model.Part {
	parts := x.levels.Parts(levels)
	if own > 0 {
		x.experts.Intercepts(intercepts)
		parts = append(parts, model.Part{Factor: own, Weight: x.levels.End(x.levels.Outputs)})
	}
	x.levels.Weights(row, levels, own, intercepts)
	return parts
}

// whenArrived returns the scores by which components and correcting experts are compared: s, the current scores of an
// event, or those that appendComponents recorded when it arrived (earlier), unless that is nil. to is memory for these.
func (x *ensemble) whenArrived(s *scored, earlier []float64, to *scored) *scored {
	if earlier == nil {
		return s
	}
	n := x.own()
	to.components = append(to.components[:0], s.components...)
	x.levels.PublishedComponents(earlier[:2*n], to.components)
	if to.some = s.some && len(earlier) == x.componentCount(); to.some {
		to.experts = earlier[2*n:]
		x.experts.Mix(to.experts, to.components[n:])
	}
	return to
}

// componentCount returns the number of values that appendComponents appends for an event that the correcting experts
// have scored.
func (x *ensemble) componentCount() int {
	n := x.levels.Components()
	if x.experts.HasColumns() {
		n += x.experts.Size()
	}
	return n
}

// appendComponents records the scores of an event, for whenArrived when the label arrives.
func (x *ensemble) appendComponents(s *scored, out []float64) []float64 {
	out = x.levels.AppendComponents(s.levels, out)
	if s.some {
		out = append(out, s.experts...)
	}
	return out
}

// judgeWhole updates the mixture weights at an event without missing fields. own has what the cosines add to the event.
// corrected has the predictions without and with them when the event arrived, or is nil if the current ones are used.
func (x *ensemble) judgeWhole(s *scored, own *ownCosines, corrected []float64, by *mixture.Event) {
	was, k := by.Decision, by.Outputs
	by.Decision = x.cosines.Decision(was)
	if x.mixture.Observe(s.components, 0, by); s.some {
		x.experts.Observe(s.experts, by.LostTimes)
		x.others = slices.Grow(x.others[:0], k)[:k]
		mixture.Mix(x.mixture.Uncorrected(0), s.components, by.Active, x.others)
		x.compare(0, x.others, s.components[len(s.components)-k:], by)
	}
	by.Decision = was
	switch {
	case !own.some:
	case len(corrected) == 2*k:
		x.cosines.Observe(0, corrected[:k], corrected[k:], by)
	default:
		copy(x.cosines.sum, own.sum)
		x.cosines.observe(0, own.base, by)
	}
}

// compare updates the mixture weight and the gain of the correcting experts, for events in range r of the missing
// fraction. others is the mixed score of the noise levels, and component is the corrected score. Both slices are by
// output, and compare overwrites others.
func (x *ensemble) compare(r int, others, component []float64, by *mixture.Event) {
	alone := by.Served(others)
	fraction := x.mixture.ObserveCorrected(r, alone, by.Served(component))
	if r > 0 && x.mixture.LearnsFromMasks(r) {
		return // in this range only masked events measure the gain
	}
	for k, f := range component[:by.Active] {
		others[k] += fraction * (f - others[k])
	}
	x.experts.Gain(alone, by.Served(others))
}

// regroup replaces the old outputs of all experts by one new output for each list in from, see rows.Regroup.
func (x *ensemble) regroup(from [][]int) {
	x.levels.Regroup(from)
	x.experts.Regroup(from, x.levels.End(len(from)))
	x.cosines.Regroup(from)
}

// alone returns mixture weights that are 1 for the correcting experts and 0 for the noise levels.
func (x *ensemble) alone() []float64 {
	out := make([]float64, len(x.levels.Noises)+1)
	out[len(out)-1] = 1
	return out
}

// train updates the correcting experts with an event that has been scored.
func (x *ensemble) train(s *scored, target []float64, weight float64) {
	if s.some {
		if r := x.experts.Groups; r > 0 {
			x.levels.GroupParts(&s.seen, x.mixture.Uncorrected(0), math.Sqrt(r), &s.seen.Groups)
		}
		x.experts.Learn(&s.seen, s.base, s.experts, target, x.levels.Active(), weight)
	}
}
