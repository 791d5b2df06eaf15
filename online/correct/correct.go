// Package correct has experts that correct the scores of a base learner. The experts use numeric features and splines
// of these features: a second-order expert (package newton), splines at several learning rates (package additive), and
// a linear discriminant for many classes. The corrected scores are mixed into one lane (one of the mixed models) of the
// base learner's ensemble.
package correct

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/newton"
	"blankout/online/scaling"
)

// Input is the part of an event that the experts use: features, identified by their index in Experts.Columns,
// ascending.
type Input struct {
	Index  []int
	X      []float64
	Source []int         // index of each feature in the event
	Groups newton.Groups // features that are dropped together, for noise of groups
	One    float64       // value of the constant feature
}

// Expert corrects base scores. It has one or more lanes, which are linear models of the same features. In each lane the
// score of an output is Base times the base score, plus the sum of the expert's weights times the features. Lists of
// scores are by lane and output. Score stores intermediate results for Update in a memo, which only the expert can
// read. Calls for different events therefore do not interfere.
type Expert interface {
	Lanes() []string // names of the lanes (mixed models)
	// Follow makes columns, which must be ascending, the columns of the expert. Columns that were followed before keep
	// their learned weights. The first numbers columns are numeric. An expert that does not support all columns follows
	// only these. Asleep reports that the expert cannot predict, because it supports too few columns or has not learned
	// enough.
	Follow(columns []uint32, numbers int)
	Asleep() bool
	NewMemo() any
	// Score writes the scores of an event to out. It ignores features of columns that are not followed.
	Score(in *Input, base, out []float64, memo any)
	// Update learns an event that Score has scored. target is by output; the first active outputs are in use.
	Update(in *Input, memo any, target []float64, active int, weight float64)
	Base(lane int) float64
	Intercept(lane, output int) float64
	// AddWeights adds x times the mixed weights of columns to to, by output. parts holds the mixture weights of the
	// expert's lanes (mixed models), of which at least one is not 0.
	AddWeights(columns []int, x, parts, to []float64)
	Move(column uint32, ratio, shift float64) // values become (x - shift)/ratio
	Renew(column uint32)                      // called if the meaning of the column's values changes
	Rescale(factor, shift float64)            // targets and scores are multiplied by factor and shifted by shift
	Grow(outputs int) (factor float64)        // the expert's later scores must be multiplied by factor
	Regroup(from [][]int)                     // each output starts as the mean of the old outputs on its list
	Forget(keep float64)                      // weights do not change now, but later change faster
	Restart()                                 // resets everything except the columns
	State(c *coder.Coder)
}

// centered is implemented by experts whose splines must be centered. In these experts nothing else separates a spline
// from the intercept.
type centered interface {
	Pull(first uint32, shares []float64)
}

// Settings are the settings of Experts.
type Settings struct {
	newton.Settings
	Outputs int
	Splines bool // adds the spline expert and the discriminant
	At      int  // index in a row of the weights that Publish writes
}

// Experts combines all experts. If they do not improve predictions, they rest: they have no weight in predictions, and
// learn only a sample of events.
type Experts struct {
	at      int
	outputs int
	groups  float64 // see Groups
	list    []Expert
	lanes   int
	columns []uint32 // all followed columns, ascending
	numbers int      // number of columns that are not spline columns
	splines splines
	off     bool // too many numeric columns
	look    bool // there may be new numeric columns
	weights weights
	idle    []uint64 // by expert: consecutive events with little mixture weight, see learns
	learned uint64
	gain    Gain
	stale   bool // the rows do not have the current weights
	read    scaling.Read
	row     struct { // scratch for addRow
		column []int
		value  []float64
	}
}

const (
	// An expert has little mixture weight if the weight is below leastWeight. After restAfter consecutive events with
	// little weight the expert rests. It then learns every restEvery-th event, until its weight reaches wakeWeight.
	leastWeight, wakeWeight = 0.01, 0.02
	restAfter, restEvery    = 10_000, 16
	// One spline is centered every centerEvery events.
	centerEvery = 32
)

// Knots returns the largest number of knots per spline, given the number of numeric columns. The memory of the
// second-order expert limits the number. If that expert has no memory for splines, the result is mostKnots.
func Knots(numbers int) int {
	if numbers*(1+fewKnots) <= newton.MostColumns && numbers*(1+mostKnots) > newton.MostColumns {
		return fewKnots
	}
	return mostKnots
}

const mostKnots, fewKnots = 5, 3

// New returns Experts in their initial state.
func New(s Settings) *Experts {
	x := &Experts{at: s.At, outputs: s.Outputs, groups: s.Groups, list: []Expert{newNewton(s)}, look: true}
	prior := []float64{1}
	if s.Splines {
		x.list = append(x.list, newAdditive(s), newDiscriminant(s))
		prior = []float64{0.4, 0.2, 0.2, 0.2} // 0.5, 0.25 and 0.25 while the discriminant is asleep
	}
	x.lanes, x.weights, x.idle = len(prior), newWeights(prior), make([]uint64, len(x.list))
	x.force()
	return x
}

// Groups returns q/(1-q) for noise of groups with rate q, or 0 for other noise. If it is not 0, Update needs
// Input.Groups.
func (x *Experts) Groups() float64 { return x.groups }

// Lanes returns the number of lanes (mixed models) of all experts.
func (x *Experts) Lanes() int { return x.lanes }

// HasColumns reports whether any columns are followed. The experts are not used without columns.
func (x *Experts) HasColumns() bool { return len(x.columns) > 0 }

// Counts reports whether the experts may have mixture weight in predictions.
func (x *Experts) Counts() bool { return x.HasColumns() && !x.gain.Resting() }

// Columns returns the followed columns, ascending. The caller must not change them.
func (x *Experts) Columns() []uint32 { return x.columns }

// Rested updates whether the experts rest, at the event with this number. counts reports whether the experts have
// mixture weight in its prediction.
func (x *Experts) Rested(number uint64, counts bool) { x.gain.Apply(number, counts) }

// Read writes the part of the event in that the experts use to to.
func (x *Experts) Read(in *encode.Input, to *Input) {
	n := in.Features()
	to.Index, to.X, to.Source, to.One = to.Index[:0], to.X[:0], to.Source[:0], in.X[n]
	at := 0
	for i, column := range in.Columns[:n] {
		for at < x.numbers && x.columns[at] < column {
			at++
		}
		if at == x.numbers {
			break
		}
		if x.columns[at] == column {
			to.Index, to.X, to.Source = append(to.Index, at), append(to.X, in.X[i]), append(to.Source, i)
		}
	}
	if x.numbers < len(x.columns) && len(in.Raw) > 0 {
		x.splines.read(in.Columns[:n], in.Raw, to)
	}
}

// Scores holds the scores of one event by the experts.
type Scores struct {
	Lanes []float64 // by lane (mixed model) and output
	memos []any     // by expert
}

// NewScores returns memory for the scores of one event.
func (x *Experts) NewScores() Scores {
	s := Scores{Lanes: make([]float64, x.lanes*x.outputs)}
	for _, e := range x.list {
		s.memos = append(s.memos, e.NewMemo())
	}
	return s
}

// Score computes the scores of all lanes (mixed models) for an event, in s, and the mixed scores by output, in out.
func (x *Experts) Score(in *Input, base []float64, s *Scores, out []float64) {
	at := 0
	for i, e := range x.list {
		n := len(e.Lanes()) * x.outputs
		e.Score(in, base, s.Lanes[at:][:n], s.memos[i])
		at += n
	}
	x.Mix(s.Lanes, out)
}

// Linear computes the mixed scores of an event with one linear model, the mixture of all lanes. It writes them to out,
// by output.
func (x *Experts) Linear(in *Input, base, out []float64) {
	c := x.Base()
	for k, b := range base {
		out[k] = c*b + in.One*x.Intercept(k)
	}
	x.AddWeights(in.Index, in.X, out)
}

// Mix mixes the scores of all lanes (mixed models), and writes the mixed scores to out, by output.
func (x *Experts) Mix(lanes, out []float64) {
	clear(out)
	for i, part := range x.weights.parts {
		if part == 0 {
			continue
		}
		for k, f := range lanes[i*x.outputs:][:x.outputs] {
			out[k] += part * f
		}
	}
}

// Base returns the factor with which the mixed scores contain the base scores.
func (x *Experts) Base() (base float64) {
	x.each(func(e Expert, parts []float64) {
		for lane, part := range parts {
			base += part * e.Base(lane)
		}
	})
	return base
}

// Intercept returns the intercept of the mixed scores of an output, without the base score.
func (x *Experts) Intercept(output int) (b float64) {
	x.each(func(e Expert, parts []float64) {
		for lane, part := range parts {
			b += part * e.Intercept(lane, output)
		}
	})
	return b
}

// AddWeights adds the mixed weights of columns, times values, to to, by output. columns has indices in Columns, and
// values is parallel to it.
func (x *Experts) AddWeights(columns []int, values, to []float64) {
	if len(columns) == 0 {
		return
	}
	x.each(func(e Expert, parts []float64) {
		if slices.ContainsFunc(parts, func(part float64) bool { return part != 0 }) {
			e.AddWeights(columns, values, parts, to)
		}
	})
}

// Weights writes the mixed weights of a column to to, by output. They are 0 if the column is not followed.
func (x *Experts) Weights(column uint32, to []float64) {
	clear(to)
	if i, known := slices.BinarySearch(x.columns, column); known {
		x.addRow(i, to)
	}
}

// addRow adds the mixed weights of Columns()[i] to to, by output.
func (x *Experts) addRow(i int, to []float64) {
	x.row.column, x.row.value = append(x.row.column[:0], i), append(x.row.value[:0], 1)
	x.AddWeights(x.row.column, x.row.value, to)
}

// each calls f with each expert and the mixture weights of its lanes (mixed models).
func (x *Experts) each(f func(e Expert, parts []float64)) {
	at := 0
	for _, e := range x.list {
		n := len(e.Lanes())
		f(e, x.weights.parts[at:][:n])
		at += n
	}
}

// Observe updates the mixture weights of the lanes (mixed models) with the scores of an event. lost returns the loss of
// its argument scores multiplied by factor, and must not keep the slice. The new weights take effect after Update.
func (x *Experts) Observe(lanes []float64, lost func(scores []float64, factor float64) float64) {
	if x.lanes > 1 || x.outputs > 1 {
		x.weights.observe(lanes, x.outputs, x.asleep, lost)
	}
}

// Gain records the losses of an event without and with the experts.
func (x *Experts) Gain(without, with float64) { x.gain.Take(without, with) }

// asleep reports whether the expert with the given lane (mixed model) is asleep.
func (x *Experts) asleep(lane int) bool {
	for _, e := range x.list {
		if lane -= len(e.Lanes()); lane < 0 {
			return x.HasColumns() && e.Asleep()
		}
	}
	return true
}

// force makes the learned mixture weights take effect.
func (x *Experts) force() {
	x.weights.force(x.asleep)
	x.stale = true
}

// Update learns an event that Score has scored. target is by output; the first active outputs are in use.
func (x *Experts) Update(in *Input, s *Scores, target []float64, active int, weight float64) {
	at := 0
	for i, e := range x.list {
		n := len(e.Lanes())
		if x.learns(i, x.weights.mix[at:][:n]) {
			e.Update(in, s.memos[i], target, active, weight)
			x.stale = true
		}
		at += n
	}
	x.learned++
	x.center()
	if x.weights.observed {
		x.force()
	}
}

// learns reports whether an expert learns from the current event, given the mixture weights of its lanes (mixed
// models).
func (x *Experts) learns(i int, mix []float64) bool {
	least := leastWeight
	if x.idle[i] >= restAfter {
		least = wakeWeight
	}
	switch {
	case slices.Max(mix) >= least:
		x.idle[i] = 0
	case x.idle[i] < restAfter:
		x.idle[i]++
	}
	return x.idle[i] < restAfter || x.learned%restEvery == 0
}

// center centers one spline every centerEvery events, in turn. The basis columns of a number sum to 1 for each event
// that has the number. Such events do not determine the mean of the spline, but the score of events without the number
// depends on it.
func (x *Experts) center() {
	if c := x.splines.splines; c != nil && x.learned%centerEvery == 0 {
		spline := int(x.learned/centerEvery) % len(c.Columns)
		if weights := x.splines.fractions(spline); weights != nil {
			for _, e := range x.list {
				if e, ok := e.(centered); ok {
					e.Pull(c.BasisColumn(spline, 0), weights)
					x.stale = true
				}
			}
		}
	}
}

// Published returns the experts that are awake, with their mixture weights. weight is the total mixture weight of all
// experts.
func (x *Experts) Published(weight float64) (out []model.Expert) {
	at := 0
	for _, e := range x.list {
		for _, name := range e.Lanes() {
			if !x.asleep(at) {
				out = append(out, model.Expert{Name: name, Weight: weight * x.weights.mix[at], Corrects: true})
			}
			at++
		}
	}
	return out
}
