// Package levels has the expert that learns one linear model for each of several noise levels (dropout rates). The
// models do not affect one another. Each model is learned by AdaGrad or another optimizer of package optimizers.
package levels

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/optimizers"
	"blankout/online/refresh"
	"blankout/online/rows"
	"blankout/online/schedule"
	"blankout/online/silent"

	"gonum.org/v1/gonum/floats"
)

// Settings are the settings of an Expert.
type Settings struct {
	Optimizer optimizers.Entry
	Loss      loss.Loss
	Noises    []loss.Noise // noise of each level; silent noise is last
	Outputs   int          // number of outputs; 1 for two classes
	Rate      float64      // the learning rate
	// FreeRate is true if the user has not set Rate. A noise level with silent noise may then use another rate.
	FreeRate bool
	Start    float64 // initial value of the accumulators
	// Ridge is the factor of w_d^2/2 in the objective of one pass, spread over the events of feature d. If there is one
	// output, a large enough Start replaces the ridge in the first pass.
	Ridge float64
	L1    float64
	// Average is the fraction of the stream over which weights are averaged, or 0 for no averages. If Adapts is true,
	// each noise level chooses between its average and its iterate (current weights), and adapts its learning rate.
	Average float64
	Adapts  bool
	// Intercept adds an intercept. Penalized applies the ridge to it.
	Intercept, Penalized bool
	// Clean selects gradients of the loss without noise. Only the preconditioner of the optimizer then depends on the
	// noise.
	Clean bool
	// Grouping defines which features are dropped together, for noise of groups. If Observed is true, the rates at
	// which groups are dropped are those that SetRates sets.
	Grouping *model.Grouping
	Observed bool
	Window   refresh.Settings // settings of the event windows that IRLS solves
	More     int              // number of values per output that follow those of the Expert in a row
}

// Expert holds the noise levels. The row of a feature contains the feature's weights at all levels, see rows.Layout.
type Expert struct {
	Settings
	levels       []level
	layout       rows.Layout
	optimizer    optimizers.Optimizer
	samples      bool    // confident events are sampled
	kind         kind    // dependence of the noise on values
	ridge        float64 // the ridge in effect, see Settings.Ridge
	active       int     // number of outputs in use, that is, of classes seen so far
	steps        uint64
	period       uint64  // number of steps of the first pass, 0 during that pass
	inverseDecay float64 // factor of new terms of the accumulators; the effective accumulator is the sum divided by inverseDecay
	step         step
	window       refresh.Refresh
	silent       *silent.Event // nil if no level has silent noise
	rows         *encode.Rows
}

var _ experts.Expert = (*Expert)(nil)

// level is the state of one noise level.
type level struct {
	strength float64   // variance of a feature's noise, divided by its basis (x^2 for dropout)
	squares  []float64 // by output: sum of all squared weights, for constant noise
	schedule.Schedule
}

// New returns an Expert in its initial state. It learns weights in the given rows.
func New(c Settings, of *encode.Rows) *Expert {
	e := &Expert{Settings: c, rows: of, samples: c.Adapts && schedule.Samples(c.Loss), inverseDecay: 1, window: refresh.Refresh{Settings: c.Window}}
	e.Noises = slices.Clone(c.Noises)
	for _, n := range c.Noises {
		c0, c1, c2 := n.Coefficients()
		e.levels = append(e.levels, level{strength: c0 + c1 + c2, Schedule: schedule.New(c.Average, c.Adapts)})
		e.kind = max(e.kind, kindOf(n))
	}
	e.setOutputs(c.Outputs)
	return e
}

// setOutputs allocates everything that depends on the number of outputs.
func (e *Expert) setOutputs(outputs int) {
	e.Outputs = outputs
	e.layout = rows.Layout{Outputs: outputs, N: len(e.levels) * outputs, Refresh: e.Optimizer.Parts}
	e.window.SetLayout(e.layout)
	if e.ridge = e.Ridge; outputs == 1 {
		e.active = 1
		if e.Optimizer.Ridges && math.Sqrt(e.Start) >= (1-1e-9)*e.Rate*e.Ridge {
			e.ridge = 0
		}
	}
	var strength []float64
	for v := range e.levels {
		e.levels[v].squares = make([]float64, outputs)
		strength = append(strength, e.levels[v].strength)
	}
	e.step = newStep(strength, outputs)
	if e.Grouped() && !e.Clean {
		e.step.groups = rows.NewGroups(e.Grouping, e.Noises, outputs, false)
	}
	if noise, some := e.Silent(); some {
		e.silent = &silent.Event{Noise: noise, Loss: e.Loss, First: e.layout.N - outputs, Outputs: outputs, N: e.layout.N}
	}
	c := optimizers.Settings{
		Layout: e.layout, Loss: e.Loss, Eta: e.Rate, Ridge: e.Ridge, Penalized: e.Penalized, StartSum: e.Start, L1: e.L1,
		Proximal: e.Adapts && outputs == 1, UnscaledNoise: e.kind != square,
	}
	if e.silent != nil {
		c.Left = outputs
	}
	e.optimizer = e.Optimizer.Make(c)
}

// Regroup implements experts.Expert. It also changes the width of all rows. New outputs are in use if their old ones are,
// and at least two.
func (e *Expert) Regroup(from [][]int) (factor float64) {
	was := *e
	was.levels = slices.Clone(e.levels)
	e.setOutputs(len(from))
	for e.active = 0; e.active < len(from) && len(from[e.active]) > 0 && from[e.active][0] < was.active; {
		e.active++
	}
	e.active = max(e.active, 2)
	for v := range e.levels {
		rows.Regroup(e.levels[v].squares, was.levels[v].squares, from, was.Outputs, false)
	}
	e.rows.Widen(e.Width(e.Outputs), func(to, of []float64) {
		for part := range e.parts() {
			rows.Regroup(e.layout.Part(to, part), was.layout.Part(of, part), from, was.Outputs, e.signed(part))
		}
	})
	return 1
}

// Shift adds by to the intercepts of an output at all noise levels. It also adds by to the averages of these
// intercepts.
func (e *Expert) Shift(output int, by float64) {
	intercepts := e.rows.Intercepts
	for j := output; j < e.layout.N; j += e.Outputs {
		e.setIntercept(j, e.layout.Weights(intercepts)[j]+by, e.window.CenterOf(intercepts)[j]+by)
	}
}

// Together returns, by noise level, the intercept of a class that is as probable as all given outputs together.
func (e *Expert) Together(outputs []int) (by []float64) {
	for v := range e.levels {
		sum := 0.0
		for _, k := range outputs {
			sum += loss.Exp(e.layout.Weights(e.rows.Intercepts)[v*e.Outputs+k])
		}
		by = append(by, math.Log(sum))
	}
	return by
}

// Place sets the intercepts of an output, and their averages, to by. by is indexed by noise level.
func (e *Expert) Place(output int, by []float64) {
	for v, b := range by {
		e.setIntercept(v*e.Outputs+output, b, b)
	}
}

// Activate sets the number of outputs in use to n, if there are several outputs. A new output starts as if all earlier
// events had been of other classes.
func (e *Expert) Activate(n int) {
	for ; e.Outputs > 1 && e.active < n; e.active++ {
		for j := e.active; j < e.layout.N; j += e.Outputs {
			b := -math.Log(float64(e.steps + 1))
			e.setIntercept(j, b, b)
			e.layout.Lags(e.rows.Intercepts)[j] = 0
		}
	}
}

// Active returns the number of outputs in use.
func (e *Expert) Active() int { return e.active }

// Width returns the number of values per row for the given number of outputs. These are the values of all parts,
// followed by More values per output, padded to whole cache lines.
func (c *Settings) Width(outputs int) int {
	const line = 8
	return (c.End(outputs) + c.More*outputs + line - 1) / line * line
}

// End returns the index in a row after the last part that belongs to the Expert, for the given number of outputs.
func (c *Settings) End(outputs int) int { return rows.FirstPart + c.parts()*len(c.Noises)*outputs }

// Names implements experts.Expert, as do the following methods. The components are the noise levels.
func (e *Expert) Names() (names []string) {
	for _, n := range e.Noises {
		names = append(names, loss.ShortNoise(n.String()))
	}
	return names
}

// Follow does nothing, because the Expert learns each column that has a row.
func (e *Expert) Follow([]uint32, int) {}

// Idle returns false.
func (e *Expert) Idle() bool { return false }

// Base returns -1, because the scores do not contain those of other experts.
func (e *Expert) Base(int) float64 { return -1 }

// Sums returns the number of values that Sum writes: three by noise level and output. They are the score of the current
// weights, sum w x, the score of the lags, and the sum basis w^2 over the features, of which a pair counts as one.
func (e *Expert) Sums() int { return 3 * e.layout.N }

func (e *Expert) Sum(in *experts.Input, sums []float64) {
	clear(sums)
	e.basis(in)
	e.add(in, 0, len(in.Rows), sums)
	if in.Event != nil && e.step.groups == nil {
		n := e.layout.N * len(in.Event.Pairs)
		in.Pairs = slices.Grow(in.Pairs[:0], n)[:n]
		for i := range in.Event.Pairs {
			e.sumPair(in, i, sums[2*e.layout.N:])
		}
	}
}

// add adds a range of features to sums.
func (e *Expert) add(in *experts.Input, from, to int, sums []float64) {
	n := e.layout.N
	rows.Sum(in.Rows[from:to], rows.FirstPart, n, in.Values[from:to], in.Basis[from:to], sums[:n:n], sums[n:2*n:2*n], sums[2*n:])
}

// SumAgain updates the sums of an event while change carries out its Moves. If few Moves rescale, only the parts of their
// features are computed again.
func (e *Expert) SumAgain(in *experts.Input, sums []float64, change func()) {
	if !in.Event.Rescales || 4*len(in.Event.Moves) > in.Event.Features() {
		if change(); in.Event.Rescales {
			e.Sum(in, sums)
		}
		return
	}
	floats.Scale(-1, sums)
	e.addMoved(in, sums)
	floats.Scale(-1, sums)
	change()
	e.basis(in)
	e.addMoved(in, sums)
}

// addMoved adds the parts of the features that move and of the intercepts to sums.
func (e *Expert) addMoved(in *experts.Input, sums []float64) {
	at := in.Event.Features()
	for next := 0; ; next++ {
		e.add(in, at, at+1, sums)
		if next == len(in.Event.Moves) {
			return
		}
		at = in.Event.Moves[next].At
		if pair, ok := slices.BinarySearchFunc(in.Event.Pairs, at, func(p [2]int32, at int) int { return int(p[0]) - at }); ok && e.step.groups == nil {
			e.sumPair(in, pair, sums[2*e.layout.N:])
		}
	}
}

// Scores returns the published scores: of the average of each noise level, or of its iterate.
func (e *Expert) Scores(sums, room []float64) []float64 {
	k, n := e.Outputs, e.layout.N
	for v := range e.levels {
		c := e.levels[v].LagWeight()
		for j := v * k; j < (v+1)*k; j++ {
			room[j] = sums[j] + c*sums[n+j]
		}
	}
	return room[:n]
}

// AppendComponents appends the scores of the iterates, followed by the scores of the averages.
func (e *Expert) AppendComponents(sums, out []float64) []float64 {
	n := e.layout.N
	out = append(out, sums[:n]...)
	for j, f := range sums[:n] {
		out = append(out, f+e.levels[j/e.Outputs].Coefficient*sums[n+j])
	}
	return out
}

// Components returns the number of values that AppendComponents appends.
func (e *Expert) Components() int { return 2 * e.layout.N }

// PublishedComponents is Scores, computed from values that AppendComponents has appended.
func (e *Expert) PublishedComponents(components, out []float64) {
	n := e.layout.N
	for j, f := range components[:n] {
		out[j] = f + e.levels[j/e.Outputs].AverageWeight()*(components[n+j]-f)
	}
}

// Intercepts writes to out, by level and output, the score of an event without features.
func (e *Expert) Intercepts(out []float64) {
	u := e.layout.Lags(e.rows.Intercepts)
	for j, w := range e.layout.Weights(e.rows.Intercepts) {
		out[j] = w + e.levels[j/e.Outputs].LagWeight()*u[j]
	}
}

// Weights adds the mixed weights of a row to own times the weights in to, by output. mixture holds the mixture weights of
// the noise levels.
func (e *Expert) Weights(row, mixture []float64, own float64, to []float64) {
	w, u := e.layout.Weights(row), e.layout.Lags(row)
	for k := range to[:e.active] {
		sum := 0.0
		for v, fraction := range mixture {
			if fraction != 0 {
				j := v*e.Outputs + k
				sum += fraction * (w[j] + e.levels[v].LagWeight()*u[j])
			}
		}
		to[k] = sum + own*to[k]
	}
}

// Parts returns the index in a row of the weights of each noise level with mixture weight, and the factors of these
// weights.
func (e *Expert) Parts(mixture []float64) (parts []model.Part) {
	for v, fraction := range mixture {
		if at := rows.FirstPart + v*e.Outputs; fraction != 0 {
			parts = append(parts, model.Part{Factor: fraction, Weight: at, Lag: at + 2*e.layout.N, Average: e.levels[v].LagWeight()})
		}
	}
	return parts
}

// maxMove bounds two effects of a change of a column's scale. One is the change of an intercept, which affects all
// events. The other is the change of the score at one standard deviation from the center. Larger changes would
// extrapolate the weights too far.
const maxMove = 1

// Move converts the weights of a row to the new scale of its column. A noise level keeps its weights if the conversion
// would exceed maxMove.
func (e *Expert) Move(m *encode.Move) {
	intercepts := e.rows.Intercepts
	if m.Keep != 1 {
		e.optimizer.Forget(m.Row, false, m.Keep)
	}
	if m.Ratio == 1 && m.Shift == 0 {
		return
	}
	w, u := e.layout.Weights(m.Row), e.layout.Lags(m.Row)
	b, bu := e.layout.Weights(intercepts), e.layout.Lags(intercepts)
	most := maxMove / max(math.Abs(m.Shift), m.Ratio-1)
	for v := range e.levels {
		from, to := v*e.Outputs, (v+1)*e.Outputs
		if e.tooFar(w[from:to], u[from:to], e.levels[v].Coefficient, most) {
			continue
		}
		if e.Intercept && m.Shift != 0 {
			for j := from; j < to; j++ {
				b[j] += w[j] * m.Shift
				bu[j] += u[j] * m.Shift
			}
			e.window.Shifted(intercepts, m.Row, from, to, m.Shift)
			e.optimizer.Shifted(intercepts, m.Row, from, to, m.Shift)
		}
		if e.kind == constant {
			for k, w := range w[from:to] {
				square := &e.levels[v].squares[k]
				*square = max(0, *square+w*w*(m.Ratio*m.Ratio-1))
			}
		}
		e.optimizer.Rescale(m.Row, from, to, m.Ratio)
		e.window.Rescale(m.Row, from, to, m.Ratio)
	}
}

// tooFar reports whether a weight of the iterate or of the average exceeds most in magnitude.
func (e *Expert) tooFar(w, u []float64, coefficient, most float64) bool {
	for j, w := range w {
		if !(math.Abs(w) <= most && math.Abs(w+coefficient*u[j]) <= most) {
			return true
		}
	}
	return false
}

// Rescale converts the weights to a new unit of targets: it multiplies them by factor and adds shift to the intercepts.
// It also multiplies the accumulators by keep.
func (e *Expert) Rescale(factor, shift, keep float64) {
	e.each(func(row []float64, intercept bool) {
		if intercept && !e.Intercept {
			return
		}
		e.optimizer.Rescale(row, 0, e.layout.N, factor)
		e.optimizer.Forget(row, intercept, keep*factor*factor) // exponent 2, because optimizer.Rescale divides accumulators by the square of factor
	})
	for v := range e.levels {
		for k := range e.levels[v].squares {
			e.levels[v].squares[k] *= factor * factor
		}
	}
	for j := range e.layout.N {
		if e.Intercept && shift != 0 {
			e.optimizer.Set(e.rows.Intercepts, j, e.layout.Weights(e.rows.Intercepts)[j]+shift)
		}
	}
}

// each calls do with each row. intercept is true for the row of the intercepts. do may change the row.
func (e *Expert) each(do func(row []float64, intercept bool)) {
	do(e.rows.Intercepts, true)
	t := e.rows.Table
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		do(t.Touch(column), false)
	}
}

// Forget multiplies the accumulators by keep.
func (e *Expert) Forget(keep float64) {
	const most = 1e100
	if e.Optimizer.Sums {
		if e.inverseDecay /= keep; e.inverseDecay < most {
			return
		}
		keep, e.inverseDecay = 1/e.inverseDecay, 1
	}
	e.each(func(row []float64, intercept bool) {
		e.optimizer.Forget(row, intercept, keep)
		e.window.Forget(row, keep)
	})
}

// rebase multiplies the lags of a noise level, so that the Coefficient of its average becomes 1.
func (e *Expert) rebase(v int) {
	g := e.levels[v].Rebase()
	e.each(func(row []float64, _ bool) {
		u := e.layout.Lags(row)
		for j := v * e.Outputs; j < (v+1)*e.Outputs; j++ {
			u[j] *= g
		}
	})
}

// EndPass marks the end of one pass over a finite data set, before the next pass. From then on the ridge counts once
// per pass, the learning rate is the configured rate, and predictions use the averages.
func (e *Expert) EndPass() {
	if e.period > 0 {
		return
	}
	e.period = e.steps
	for v := range e.levels {
		e.levels[v].EndPass()
	}
}

// Passed reports whether the first pass has ended.
func (e *Expert) Passed() bool { return e.period > 0 }

// State encodes or decodes the state except the rows.
func (e *Expert) State(c *coder.Coder) {
	c.Uint(&e.steps)
	c.Uint(&e.period)
	c.Int(&e.active)
	c.Float(&e.inverseDecay)
	for v := range e.levels {
		c.Floats(&e.levels[v].squares)
		if e.levels[v].State(c); c.Decode && e.period > 0 {
			e.levels[v].EndPass()
		}
		c.Failed = c.Failed || len(e.levels[v].squares) != e.Outputs
	}
	e.ratesState(c)
	e.window.State(c)
	c.Failed = c.Failed || !e.window.Consistent()
	c.Failed = c.Failed || e.active < 0 || e.active > e.Outputs
}
