// Package correct has experts correct the score of others, the base, by what numbers and their splines say: a second-order
// one (package newton), and splines at several learning rates (package additive); and one that says where classes are, if
// there are many. What they say, mixed, is one lane of the mixture.
package correct

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/newton"
	"blankout/online/scaling"
)

// Input is what the experts see of an event: features by their index in Experts.Columns, ascending.
type Input struct {
	Index  []int
	X      []float64
	Source []int         // which features of the event these are of
	Groups newton.Groups // which of them die together, where noise is of groups
	One    float64       // what the intercept counts
}

// Expert corrects base scores. It has one lane or several, each a linear learner of the same features: its score of an
// output is Base times the base score and a sum of its own weights. Lists of scores are by lane and output. What Score keeps of an event,
// for Update, is in a memo that only the expert looks into: no call depends on what another one has scored.
type Expert interface {
	Lanes() []string // their names
	// Follow makes the columns, which ascend, those of the expert: those that stay keep what is known of them. So many
	// begin, the numbers, which it takes alone if there is no room for all. Asleep says that it has nothing to say: there is no room
	// for these, or it has not learned enough.
	Follow(columns []uint32, numbers int)
	Asleep() bool
	NewMemo() any
	// Score writes the scores of an event to out. Features that it does not follow count for nothing.
	Score(in *Input, base, out []float64, memo any)
	// Update learns an event that Score had: targets by output, of which the first active count.
	Update(in *Input, memo any, target []float64, active int, weight float64)
	Base(lane int) float64
	Intercept(lane, output int) float64
	// AddWeights adds by lane and output times what parts has for a lane the weights of a column to to, by output.
	AddWeights(column int, parts []float64, x float64, to []float64)
	Move(column uint32, ratio, shift float64) // values x are (x - shift)/ratio from here on
	Renew(column uint32)                      // values have another meaning
	Rescale(factor, shift float64)            // targets and scores are factor times what they were, and shift
	Grow(outputs int) (factor float64)        // its scores are to be multiplied by factor from here on
	Regroup(from [][]int)                     // each output begins as the mean of those former ones
	Forget(keep float64)                      // weights stay, and move faster
	Restart()                                 // nothing is known but which columns there are
	Set(column uint32, output int, w float64) // makes w a weight, after Restart
	State(c *coder.Coder)
}

// centered is implemented by experts that do not learn for themselves what is a spline's and what the intercept's.
type centered interface {
	Pull(first uint32, shares []float64)
}

// Settings are what Experts are made from.
type Settings struct {
	newton.Settings
	Outputs int
	Splines bool // experts of splines alone learn, too, and that of class means
	At      int  // where in a row the weights are that Publish writes
}

// Experts are the experts as one. They rest where they gain nothing: then they have no part in answers, and learn a few
// events alone.
type Experts struct {
	at      int
	outputs int
	groups  float64 // see Groups
	list    []Expert
	lanes   int
	columns []uint32 // that are followed, ascending
	numbers int      // how many of them are no splines
	splines splines
	off     bool // there are too many numbers
	look    bool // numbers may have come that are not followed
	weights weights
	idle    []uint64 // by expert: for how many events in a row it has counted for little, see learns
	learned uint64
	gain    Gain
	stale   bool // rows do not have the weights as they are
	read    scaling.Read
	row     []float64 // room: the weights of a column, by output
}

const (
	// An expert counts for little below leastShare. After restAfter such events it rests: it learns every restEvery-th
	// event, until it counts for wakeShare.
	leastShare, wakeShare = 0.01, 0.02
	restAfter, restEvery  = 10_000, 16
	// centerEvery is at every how many events a spline is centered.
	centerEvery = 32
)

// Knots returns the most knots of a spline of so many numbers: as many as the second-order expert has room for, and where
// that has none mostKnots.
func Knots(numbers int) int {
	if numbers*(1+fewKnots) <= newton.MostColumns && numbers*(1+mostKnots) > newton.MostColumns {
		return fewKnots
	}
	return mostKnots
}

const mostKnots, fewKnots = 5, 3

// New returns Experts that have learned nothing.
func New(s Settings) *Experts {
	x := &Experts{at: s.At, outputs: s.Outputs, groups: s.Groups, list: []Expert{newNewton(s)}, look: true}
	prior := []float64{1}
	if s.Splines {
		x.list = append(x.list, newAdditive(s), newDiscriminant(s))
		prior = []float64{0.4, 0.2, 0.2, 0.2} // .5, .25 and .25 while the last one is asleep
	}
	x.lanes, x.weights, x.idle = len(prior), newWeights(prior), make([]uint64, len(x.list))
	x.force()
	return x
}

// Groups returns q/(1-q) of the noise of groups that is integrated out, 0 for none: then an Input that is learned has Groups.
func (x *Experts) Groups() float64 { return x.groups }

// Lanes returns how many lanes the experts have together.
func (x *Experts) Lanes() int { return x.lanes }

// Knows says whether there are numbers that experts follow: without, they are left aside.
func (x *Experts) Knows() bool { return len(x.columns) > 0 }

// Counts says whether the experts may have a part in answers.
func (x *Experts) Counts() bool { return x.Knows() && !x.gain.Resting() }

// Columns returns the columns that are followed, ascending, borrowed.
func (x *Experts) Columns() []uint32 { return x.columns }

// Rested takes up at the event of this number whether experts have a part in answers, which decides whether they rest.
func (x *Experts) Rested(number uint64, counts bool) { x.gain.Apply(number, counts) }

// Read finds the part of an event that the experts see.
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

// Scores are what the experts say of an event.
type Scores struct {
	Lanes []float64 // by lane and output
	memos []any     // by expert
}

// NewScores returns room for what the experts say of an event.
func (x *Experts) NewScores() Scores {
	s := Scores{Lanes: make([]float64, x.lanes*x.outputs)}
	for _, e := range x.list {
		s.memos = append(s.memos, e.NewMemo())
	}
	return s
}

// Score writes to s what the experts say of an event, and to out, by output, what that comes to, mixed.
func (x *Experts) Score(in *Input, base []float64, s *Scores, out []float64) {
	at := 0
	for i, e := range x.list {
		n := len(e.Lanes()) * x.outputs
		e.Score(in, base, s.Lanes[at:][:n], s.memos[i])
		at += n
	}
	x.Mix(s.Lanes, out)
}

// Linear writes to out, by output, what the experts, mixed, say of an event.
func (x *Experts) Linear(in *Input, base, out []float64) {
	c := x.Base()
	for k, b := range base {
		out[k] = c*b + in.One*x.Intercept(k)
	}
	for i, at := range in.Index {
		x.AddWeights(at, in.X[i], out)
	}
}

// Mix writes to out what the lanes come to, mixed.
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

// Base returns what the base scores count.
func (x *Experts) Base() (base float64) {
	x.each(func(e Expert, parts []float64) {
		for lane, part := range parts {
			base += part * e.Base(lane)
		}
	})
	return base
}

// Intercept returns the experts' own intercept of an output.
func (x *Experts) Intercept(output int) (b float64) {
	x.each(func(e Expert, parts []float64) {
		for lane, part := range parts {
			b += part * e.Intercept(lane, output)
		}
	})
	return b
}

// AddWeights adds to to, by output, by times the experts' own weights of a column.
func (x *Experts) AddWeights(column int, by float64, to []float64) {
	at := 0
	for _, e := range x.list {
		n := len(e.Lanes())
		e.AddWeights(column, x.weights.parts[at:][:n], by, to)
		at += n
	}
}

// Weight returns the experts' own weight of a column for an output, 0 for one that is not followed.
func (x *Experts) Weight(column uint32, output int) float64 {
	i, known := slices.BinarySearch(x.columns, column)
	if !known {
		return 0
	}
	x.row = append(x.row[:0], make([]float64, x.outputs)...)
	x.AddWeights(i, 1, x.row)
	return x.row[output]
}

// each calls f with each expert and what its lanes count.
func (x *Experts) each(f func(e Expert, parts []float64)) {
	at := 0
	for _, e := range x.list {
		n := len(e.Lanes())
		f(e, x.weights.parts[at:][:n])
		at += n
	}
}

// Observe takes up what the lanes have said of an event; lost returns what scores lose, which it must not keep. What
// follows is in force after Update.
func (x *Experts) Observe(lanes []float64, lost func(scores []float64, factor float64) float64) {
	if x.lanes > 1 || x.outputs > 1 {
		x.weights.observe(lanes, x.outputs, x.asleep, lost)
	}
}

// Gain takes up what an event has lost without the experts, and with them.
func (x *Experts) Gain(without, with float64) { x.gain.Take(without, with) }

// asleep says whether the expert of a lane has nothing to say.
func (x *Experts) asleep(lane int) bool {
	for _, e := range x.list {
		if lane -= len(e.Lanes()); lane < 0 {
			return x.Knows() && e.Asleep()
		}
	}
	return true
}

// force puts in force what the lanes count.
func (x *Experts) force() {
	x.weights.force(x.asleep)
	x.stale = true
}

// Update learns an event of which s is what Score wrote: the target of each output, of which the first active count.
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

// learns says whether an expert learns from the event at hand, given what its lanes count.
func (x *Experts) learns(i int, mix []float64) bool {
	least := leastShare
	if x.idle[i] >= restAfter {
		least = wakeShare
	}
	switch {
	case slices.Max(mix) >= least:
		x.idle[i] = 0
	case x.idle[i] < restAfter:
		x.idle[i]++
	}
	return x.idle[i] < restAfter || x.learned%restEvery == 0
}

// center has, if it is time, one of the splines, whose turn it is, add nothing in the mean. The basis of a number adds up to 1
// wherever it is there, so events that have it do not tell what is the spline's and what the intercept's; where it goes
// missing, that decides.
func (x *Experts) center() {
	if c := x.splines.curves; c != nil && x.learned%centerEvery == 0 {
		spline := int(x.learned/centerEvery) % len(c.Columns)
		if shares := x.splines.shares(spline); shares != nil {
			for _, e := range x.list {
				if e, ok := e.(centered); ok {
					e.Pull(c.Hat(spline, 0), shares)
					x.stale = true
				}
			}
		}
	}
}

// Published returns the experts that have something to say, and what they count if together they count for this.
func (x *Experts) Published(share float64) (out []model.Expert) {
	at := 0
	for _, e := range x.list {
		for _, name := range e.Lanes() {
			if !x.asleep(at) {
				out = append(out, model.Expert{Name: name, Share: share * x.weights.mix[at], Corrects: true})
			}
			at++
		}
	}
	return out
}
