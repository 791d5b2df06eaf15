// Package experts has the experts of a learner. An [Expert] gives sums over an event's features, from which its scores are
// made, and learns events. Each expert has a package:
//   - levels has a model for each noise level (dropout rate),
//   - newton is a second-order expert,
//   - additive has splines at several learning rates,
//   - discriminant is a linear discriminant for many classes.
//
// The noise levels are the base of the others, which correct the mixture of the levels' scores. [Experts] scores these
// others, lets them learn, and mixes them into one component of the learner's ensemble.
//
// Package cosine has one more expert, which corrects the prediction of all others and is no Expert.
package experts

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/mixture"
	"blankout/online/schedule"
)

// Input is an event, or a part of one, as experts read it. Rows and Values have all its features; Index and X have those
// of the columns in Experts.Columns.
type Input struct {
	Event  *encode.Input // the whole event; nil for a part of an event, which cannot be learned
	Rows   [][]float64   // rows of the features and of the intercepts, as in encode.Input
	Values []float64     // standardized values, with those of the intercepts
	// Earlier has the scores of the noise levels when the event arrived, or is nil if the current ones count.
	Earlier []float64

	Index  []int // of each feature in Experts.Columns, ascending
	X      []float64
	Source []int   // index of each feature in the event
	Groups Groups  // features that are dropped together, for noise of groups
	One    float64 // value of the constant feature

	// What the noise levels keep between Sum and Learn: the factor of each feature's noise variance, and by pair of
	// features, noise level and output what the pair adds to the score.
	Basis, Pairs []float64
}

// Groups holds the groups of an event's features. Noise removes each group as a whole.
type Groups struct {
	Keys []uint64 // key of each group
	Of   []int    // index of the group of each feature of the Input, or -1 for a feature without a group
	// Sums has, by group and output, the part of the base score from the columns of the group.
	Sums []float64
}

// Expert has one or more components, which are linear models of the same features. In each component the score of an
// output is
//
//	base + Base base + intercept + sum weight feature,
//
// without both terms of the base score if Base is -1. The noise levels (package levels) are an Expert without a base. The
// other experts correct the mixed score of the noise levels. Lists of scores are by component and output. An Expert keeps
// nothing of an event that it has not learned.
type Expert interface {
	Names() []string // names of the components
	// Follow makes columns, which must be ascending, the columns of the expert. Columns that were followed before keep
	// their learned weights. The first numbers columns are numeric. An expert that does not support all columns follows
	// only these. Idle reports that the expert cannot predict, because it supports too few columns or has not learned
	// enough.
	Follow(columns []uint32, numbers int)
	Idle() bool
	// Sum writes sums over the features of an event, and of its constant feature, to sums, whose length is Sums. The sums
	// of the parts of an event add up to those of the event. Features of columns that are not followed are ignored. Scores
	// returns the scores, without the base scores, that sums mean. The result is sums itself or uses the memory of room,
	// which has room for a score of each component and output.
	Sums() int
	Sum(in *Input, sums []float64)
	Scores(sums, room []float64) []float64
	Base(component int) float64
	// Learn learns an event from its base scores and from its sums, to which the terms of the base scores have been added.
	// target is by output; the first active outputs are in use.
	Learn(in *Input, base, sums, target []float64, active int, weight float64)
	Move(m *encode.Move) // converts the weights of a column to another scale, or forgets them if m.Renews
	// Rescale is called when targets and scores are multiplied by factor and shifted by shift. keep is the factor of the
	// memory of earlier events.
	Rescale(factor, shift, keep float64)
	// Regroup replaces the old outputs by one new output for each list in from, see rows.Regroup. The expert's later scores
	// must be multiplied by factor.
	Regroup(from [][]int) (factor float64)
	Forget(keep float64) // weights do not change now, but later change faster
	State(c *coder.Coder)
}

// centered is implemented by experts whose splines must be centered. In these experts nothing else separates a spline
// from the intercept.
type centered interface {
	Pull(first uint32, fractions []float64)
}

// restarts is implemented by the second-order expert. Restart resets everything except the columns.
type restarts interface{ Restart() }

// learnsAll is implemented by experts that learn all events, because they describe the events of each class.
type learnsAll interface{ LearnsAll() }

const (
	// MostColumns is the largest number of columns for which an expert keeps a matrix over pairs of columns. mostPairs
	// is the largest product of columns and outputs of such an expert, if there are several outputs.
	MostColumns, mostPairs = 256, 20_000
	// mostWeights is the largest product of columns and outputs of other experts.
	mostWeights = 20_000
)

// PairsFit reports whether an expert with a matrix over pairs of columns supports the given numbers of columns and
// outputs.
func PairsFit(columns, outputs int) bool {
	return columns <= MostColumns && (outputs == 1 || columns*outputs <= mostPairs)
}

// ColumnsFit reports whether an expert without such a matrix supports the given numbers of columns and outputs.
func ColumnsFit(columns, outputs int) bool { return columns*outputs <= mostWeights }

// Settings are the settings of Experts.
type Settings struct {
	List    []Expert  // the second-order expert is first; the list may be empty
	Weights []float64 // initial mixture weight of each component; the sum is 1
	Outputs int
	At      int     // index in a row of the weights that Publish writes
	Samples bool    // experts learn a sample of confident events
	Groups  float64 // q/(1-q) for noise of groups with rate q, or 0 for other noise. If it is not 0, Learn needs Input.Groups.
}

// Experts combines all experts. If they do not improve predictions, they rest: they have no weight in predictions, and
// learn only a sample of events.
type Experts struct {
	Settings
	first   []int    // by expert: index of its first component; the last element is the number of components
	of      []int    // by component: index of its expert
	columns []uint32 // all followed columns, ascending
	numbers int      // number of columns that are not spline columns
	splines splines
	off     bool // there are no experts, or too many numeric columns
	look    bool // there may be new numeric columns
	mixture mixture.Components
	idle    []uint64 // by expert: consecutive events with little mixture weight, see learns
	learned uint64
	gain    Gain
	fresh   bool // the second-order expert was reset after the latest call of Score
	stale   bool // the rows do not have the current weights
	read    encode.Numbers
	sums    []float64 // scratch for addSums
	column  Input     // scratch for ColumnWeights
}

const (
	// An expert has little mixture weight if the weight is below leastWeight. After restAfter consecutive events with
	// little weight the expert rests. It then learns every restEvery-th event, until its weight reaches wakeWeight.
	leastWeight, wakeWeight = 0.01, 0.02
	restAfter, restEvery    = 10_000, 16
	// One spline is centered every centerEvery events.
	centerEvery = 32
)

// Knots returns the largest number of knots per spline, given the numbers of numeric columns and of outputs. The memory of
// the second-order expert limits the number. If that expert has no memory for splines, the result is mostKnots, or 0 if
// other experts have none either: they then learn the numbers without splines.
func Knots(numbers, outputs int) int {
	switch {
	case numbers*(1+fewKnots) <= MostColumns && numbers*(1+mostKnots) > MostColumns:
		return fewKnots
	case !PairsFit(numbers, outputs) && !ColumnsFit(numbers*(1+mostKnots), outputs):
		return 0
	}
	return mostKnots
}

const mostKnots, fewKnots = 5, 3

// New returns Experts in their initial state.
func New(s Settings) *Experts {
	x := &Experts{Settings: s, off: len(s.List) == 0, look: true, mixture: mixture.NewComponents(s.Weights), idle: make([]uint64, len(s.List)), first: []int{0}}
	for i, e := range s.List {
		for range e.Names() {
			x.of = append(x.of, i)
		}
		x.first = append(x.first, len(x.of))
	}
	x.apply()
	return x
}

// HasColumns reports whether any columns are followed. The experts are not used without columns.
func (x *Experts) HasColumns() bool { return len(x.columns) > 0 }

// Counts reports whether the experts may have mixture weight in predictions.
func (x *Experts) Counts() bool { return x.HasColumns() && !x.gain.Resting() }

// Columns returns the followed columns, ascending. The caller must not change them.
func (x *Experts) Columns() []uint32 { return x.columns }

// NumericColumns returns the followed numeric columns, ascending. The caller must not change them.
func (x *Experts) NumericColumns() []uint32 { return x.columns[:x.numbers] }

// Rested updates whether the experts rest, at the event with this number. counts reports whether the experts have
// mixture weight in its prediction.
func (x *Experts) Rested(number uint64, counts bool) { x.gain.Apply(number, counts) }

// Read copies the features of the followed columns from in to to.
func (x *Experts) Read(in *encode.Input, to *Input) {
	n := in.Features()
	most := n + 2*len(x.splines.first)
	to.Index, to.X, to.Source, to.One = slices.Grow(to.Index[:0], most)[:most], slices.Grow(to.X[:0], most)[:most], slices.Grow(to.Source[:0], most)[:most], in.X[n]
	index, values, source := to.Index, to.X, to.Source
	at, read, numbers := 0, 0, x.columns[:x.numbers]
	if columns := in.Columns[:n]; slices.Equal(columns, numbers) { // usual in a table
		copy(values, in.X[:n])
		for read = range columns {
			index[read], source[read] = read, read
		}
		at, read = n, n
	}
	for i, column := range in.Columns[:n] {
		for at < len(numbers) && numbers[at] < column {
			at++
		}
		if at == len(numbers) {
			break
		}
		if numbers[at] == column {
			index[read], values[read], source[read] = at, in.X[i], i
			read++
		}
	}
	if x.numbers < len(x.columns) && len(in.Raw) > 0 {
		read = x.splines.read(in.Columns[:n], in.Raw, to, read)
	}
	to.Index, to.X, to.Source = index[:read], values[:read], source[:read]
}

// Size returns the number of scores of an event: one for each component and output.
func (x *Experts) Size() int { return len(x.Weights) * x.Outputs }

// Score writes the scores of all components for an event to scores, and the mixed scores, by output, to out.
func (x *Experts) Score(in *Input, base, scores, out []float64) {
	x.fresh = false
	x.each(func(e Expert, from, to int) {
		e.Sum(in, scores[from*x.Outputs:to*x.Outputs])
		for i := from; i < to; i++ {
			own, f := e.Base(i-from), scores[i*x.Outputs:][:x.Outputs]
			if own == -1 {
				continue
			}
			for k, b := range base {
				f[k] = f[k] + b + own*b
			}
		}
	})
	x.Mix(scores, out)
}

// Mix mixes the scores of all components, and writes the mixed scores to out, by output.
func (x *Experts) Mix(scores, out []float64) { x.mixture.Mix(scores, out) }

// Base returns the factor with which the mixed scores contain the base scores.
func (x *Experts) Base() (base float64) {
	x.each(func(e Expert, from, to int) {
		for i := from; i < to; i++ {
			base += x.mixture.Factors[i] * (1 + e.Base(i-from))
		}
	})
	return base
}

// Sum writes the mixed scores of an event without the base scores to out, by output.
func (x *Experts) Sum(in *Input, out []float64) {
	clear(out)
	x.addSums(in, out)
}

// Intercepts writes the mixed intercepts to out, by output.
func (x *Experts) Intercepts(out []float64) { x.Sum(&noFeatures, out) }

// noFeatures is an event without features.
var noFeatures = Input{One: 1}

// addSums adds the result of Sum to to.
func (x *Experts) addSums(in *Input, to []float64) {
	x.sums = slices.Grow(x.sums[:0], x.Size())[:x.Size()]
	x.each(func(e Expert, from, until int) {
		parts, sums := x.mixture.Factors[from:until], x.sums[from*x.Outputs:until*x.Outputs]
		if !slices.ContainsFunc(parts, func(part float64) bool { return part != 0 }) {
			return
		}
		e.Sum(in, sums)
		for i, part := range parts {
			for k, f := range sums[i*x.Outputs:][:x.Outputs] {
				to[k] += part * f
			}
		}
	})
}

// ColumnWeights writes the mixed weights of a column to to, by output. They are 0 if the column is not followed.
func (x *Experts) ColumnWeights(column uint32, to []float64) {
	clear(to)
	if i, known := slices.BinarySearch(x.columns, column); known {
		x.column.Index, x.column.X = append(x.column.Index[:0], i), append(x.column.X[:0], 1)
		x.addSums(&x.column, to)
	}
}

// each calls f with each expert and the range of its components.
func (x *Experts) each(f func(e Expert, from, to int)) {
	for i, e := range x.List {
		f(e, x.first[i], x.first[i+1])
	}
}

// Observe updates the mixture weights of the components with the scores of an event. lost returns the loss of its
// argument scores multiplied by factor, and must not keep the slice. The new weights take effect after Learn.
func (x *Experts) Observe(scores []float64, lost func(scores []float64, factor float64) float64) {
	if len(x.Weights) > 1 || x.Outputs > 1 {
		x.mixture.Observe(scores, x.Outputs, x.idles, lost)
	}
}

// Gain records the losses of an event without and with the experts.
func (x *Experts) Gain(without, with float64) { x.gain.Take(without, with) }

// idles reports whether the expert with the given component cannot predict.
func (x *Experts) idles(component int) bool {
	return x.HasColumns() && x.List[x.of[component]].Idle()
}

// apply makes the learned mixture weights take effect.
func (x *Experts) apply() {
	x.mixture.Apply(x.idles)
	x.stale = true
}

// Learn learns an event with its base scores and the scores of Score. target is by output; the first active outputs are
// in use.
func (x *Experts) Learn(in *Input, base, scores, target []float64, active int, weight float64) {
	for i, e := range x.List {
		from, to := x.first[i], x.first[i+1]
		if x.learns(i, x.mixture.Weights[from:to]) && !(x.fresh && i == 0) { // its scores are from before the reset
			own, stands := scores[from*x.Outputs:to*x.Outputs], 1.0
			if _, all := e.(learnsAll); !all && x.Samples {
				stands = schedule.StandsFor(x.learned, own, target[:active], x.Outputs)
			}
			if stands > 0 {
				e.Learn(in, base, own, target, active, stands*weight)
				x.stale = true
			}
		}
	}
	x.learned++
	x.center()
	if x.mixture.Observed() {
		x.apply()
	}
}

// learns reports whether an expert learns from the current event, given the mixture weights of its components.
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
			for _, e := range x.List {
				if e, ok := e.(centered); ok {
					e.Pull(c.BasisColumn(spline, 0), weights)
					x.stale = true
				}
			}
		}
	}
}

// Published returns the experts that can predict, with their mixture weights. weight is the total mixture weight of all
// experts.
func (x *Experts) Published(weight float64) (out []model.Expert) {
	x.each(func(e Expert, from, _ int) {
		for i, name := range e.Names() {
			if !x.idles(from + i) {
				out = append(out, model.Expert{Name: name, Weight: weight * x.mixture.Weights[from+i], Corrects: true})
			}
		}
	})
	return out
}

// Gain measures how much the experts reduce the loss of the base scores. By that gain it decides whether the experts
// rest. The zero value is for a new stream.
type Gain struct {
	judged     float64 // number of events passed to Take
	size, gain float64 // means over the latest events: loss of the base scores, and its reduction
	counted    uint64  // number of the latest event at which the experts had weight in predictions
	resting    bool
}

const (
	// The experts start to rest if their gain is below leastGain times the loss. They stop resting if the gain is above
	// wakeGain times the loss.
	leastGain, wakeGain = 0.0005, 0.001
	// gainMemory is the number of events over which the mean losses decay. The experts do not rest before Take has
	// received gainEnough events.
	gainMemory, gainEnough = 4096, 8192
	// mostGain bounds the gain of one event.
	mostGain = 8
	// The experts also rest after idleEnough events without mixture weight in predictions. This rule is needed because
	// the mean gain decays slowly from the first events, when the experts learned faster than the base.
	idleEnough = 4096
)

// Take adds the losses of an event without the experts (alone) and with them (mixed).
func (g *Gain) Take(alone, mixed float64) {
	less := alone - mixed
	if less != less {
		return
	}
	g.judged++
	rate := 1 / min(g.judged, gainMemory)
	g.size += rate * (min(math.Abs(alone), mostGain) - g.size)
	g.gain += rate * (max(-mostGain, min(less, mostGain)) - g.gain)
}

// Apply decides whether the experts rest, at the event with this number. counts reports whether they have weight in
// predictions.
func (g *Gain) Apply(event uint64, counts bool) {
	if counts {
		g.counted = event
	}
	switch idle := event-g.counted >= idleEnough; {
	case g.resting:
		g.resting = g.gain <= wakeGain*g.size
	case idle:
		g.resting, g.gain = true, 0
	default:
		g.resting = g.judged >= gainEnough && g.gain <= leastGain*g.size
	}
}

// Resting reports whether the experts rest, which means that they have no weight in predictions.
func (g *Gain) Resting() bool { return g.resting }

// State encodes or decodes the state.
func (g *Gain) State(c *coder.Coder) {
	c.Each(&g.judged, &g.size, &g.gain)
	c.Uint(&g.counted)
	c.Bool(&g.resting)
}

// The part below finds the spline columns among the followed columns.

// splines holds the followed splines. They are splines of followed numeric columns, and splines of sparse columns that
// are not themselves followed.
type splines struct {
	splines *model.Splines
	first   []int                // index of each spline's first column
	knots   [][fastKnots]float64 // knots of each spline, then infinities; empty if a spline has too many knots
	room    []float64
}

// fastKnots is one more than the number of knots of any spline that Knots allows.
const fastKnots = mostKnots + 1

// with returns numbers, which must be ascending, followed by the columns of the splines.
func (s *splines) with(numbers []uint32) []uint32 {
	c := s.splines
	if c == nil {
		return numbers
	}
	out := slices.Clone(numbers)
	for spline := range c.Columns {
		for knot := range c.Knots[spline] {
			out = append(out, c.BasisColumn(spline, knot))
		}
	}
	return out
}

// place determines, for each spline, the index in columns of its first basis column.
func (s *splines) place(columns []uint32) {
	s.first, s.knots = s.first[:0], s.knots[:0]
	if s.splines == nil {
		return
	}
	fast := !slices.ContainsFunc(s.splines.Knots, func(knots []float64) bool { return len(knots) >= fastKnots })
	for spline, knots := range s.splines.Knots {
		at, _ := slices.BinarySearch(columns, s.splines.BasisColumn(spline, 0))
		if s.first = append(s.first, at); fast {
			var padded [fastKnots]float64
			for i := copy(padded[:], knots); i < fastKnots; i++ {
				padded[i] = math.Inf(1)
			}
			s.knots = append(s.knots, padded)
		}
	}
}

// read adds the basis values of each spline, at the event's value, to an Input with room for them, from the given place
// on. It returns the place after them. columns must be ascending.
func (s *splines) read(columns []uint32, values []float64, to *Input, place int) int {
	at, index, x, sources := 0, to.Index, to.X, to.Source
	if slices.Equal(columns, s.splines.Columns) && len(s.knots) == len(columns) { // usual in a table
		return place + s.readAll(values, index[place:], x[place:], sources[place:])
	}
	for spline, source := range s.splines.Columns {
		for at < len(columns) && columns[at] < source {
			at++
		}
		if at == len(columns) {
			break
		}
		if columns[at] != source {
			continue
		}
		knot, first, next := s.splines.BasisValues(spline, values[at])
		i := s.first[spline] + knot
		index[place], x[place], sources[place] = i, first, at
		if place++; next > 0 {
			index[place], x[place], sources[place] = i+1, next, at
			place++
		}
	}
	return place
}

// readAll is read for an event with all columns that have a spline. It computes what Splines.BasisValues does, without
// unpredictable branches. index, x and sources have room for two columns of each spline. It returns the number of columns.
func (s *splines) readAll(values []float64, index []int, x []float64, sources []int) (n int) {
	for spline := range s.knots {
		knots, value := &s.knots[spline], values[spline]
		at := below(knots[0], value) + below(knots[1], value) + below(knots[2], value) + below(knots[3], value) + below(knots[4], value)
		first, next := 1.0, 0.0
		if at > 0 && knots[at] != value {
			at--
			next = (value - knots[at]) / (knots[at+1] - knots[at]) // 0 after the last knot
			first = 1 - next
		}
		here := s.first[spline] + at
		index[n], x[n], sources[n] = here, first, spline
		if n++; next > 0 {
			index[n], x[n], sources[n] = here+1, next, spline
			n++
		}
	}
	return n
}

// below returns 1 if a knot is below x, else 0.
func below(knot, x float64) (n int) {
	if knot < x {
		n = 1
	}
	return n
}

// fractions returns the fraction of readings near each knot of a spline, or nil if the spline has one knot. Knots are
// quantiles, so each interval between knots has equally many readings.
func (s *splines) fractions(spline int) []float64 {
	n := len(s.splines.Knots[spline])
	if n < 2 {
		return nil
	}
	s.room = s.room[:0]
	for knot := range n {
		weight := 1 / float64(n-1)
		if knot == 0 || knot == n-1 {
			weight /= 2
		}
		s.room = append(s.room, weight)
	}
	return s.room
}
