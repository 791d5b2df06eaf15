// Package levels is the expert that learns a linear model under several levels of noise at once, each as if it were the
// only one: by AdaGrad or by another optimizer of package rules.
package levels

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/refresh"
	"blankout/online/rows"
	"blankout/online/rules"
	"blankout/online/schedule"
	"blankout/online/share"
)

// Settings are what an Expert is made from.
type Settings struct {
	Rule    rules.Entry // the optimizer
	Loss    loss.Loss
	Noises  []loss.Noise // of the levels; silent noise is the last one
	Outputs int          // 1 for two classes
	Rate    float64      // the learning rate
	// FreeRate says that nobody has set the Rate, so that it may be another one for a level of silent noise.
	FreeRate bool
	Start    float64 // what the sums of squared gradients start from
	// Ridge is the factor of w_d^2/2 in the objective of one pass, which is spread over a feature's own events. With one
	// output there is none where Start stands for it.
	Ridge float64
	L1    float64
	// Average is the share of the stream that averages reach back over, 0 for none. Adapts says that each level chooses
	// between its average and its iterate and tunes its rate.
	Average float64
	Adapts  bool
	// Intercept says that there is one, Penalized that it has the Ridge, too.
	Intercept, Penalized bool
	// Clean says that gradients are those of the loss without noise, which the optimizer alone knows.
	Clean bool
	// Grouping says which features die together, where noise is of groups. Observed says that the rates at which they do are
	// those of SetRates.
	Grouping *model.Grouping
	Observed bool
	Window   refresh.Settings // of events that are solved exactly
}

// Expert is the levels. What they know of a feature is in its row, see rows.Layout.
type Expert struct {
	Settings
	levels []level
	layout rows.Layout
	rule   rules.Rule
	kind   kind    // of noise
	ridge  float64 // in force
	active int     // outputs in use: those of classes that have come
	steps  uint64
	period uint64  // steps of the first pass, 0 while in it
	growth float64 // of what is added to sums of squares, so that what is in force is the sum divided by it
	step   step
	window refresh.Refresh
	silent *silentLevel    // nil where no level has silent noise
	rated  int             // how often rates have been set
	shared *share.Interval // nil where it learns alone
	// Rewritten is how often all rows have been written at once; no part of the state.
	Rewritten uint64
}

// level is a level of noise.
type level struct {
	strength float64   // the variance of a feature's noise, times its basis
	squares  []float64 // by output the sum of all squared weights, where noise is constant
	schedule.Pace
}

// Scores are what an Expert says of an event, by level and output.
type Scores struct {
	Iterate  []float64 // sum w x
	Lag      []float64 // the average's score less the iterate's, in units of the level's Coefficient
	square   []float64 // sum basis w^2 over the features, those of a pair together
	sums     []float64 // the three in one piece
	basis    []float64 // see Expert.basis
	pairs    []float64 // by pair of features, level and output what the two add to the score
	together *together // nil where no features die together, and of an event that is not learned
}

// New returns an Expert that has learned nothing.
func New(c Settings) *Expert {
	e := &Expert{Settings: c, growth: 1, window: refresh.Refresh{Settings: c.Window}}
	e.Noises = slices.Clone(c.Noises)
	for _, n := range c.Noises {
		c0, c1, c2 := n.Coefficients()
		e.levels = append(e.levels, level{strength: c0 + c1 + c2, Pace: schedule.New(c.Average, c.Adapts)})
		e.kind = max(e.kind, kindOf(n))
	}
	e.setOutputs(c.Outputs)
	return e
}

// setOutputs makes what depends on the number of outputs.
func (e *Expert) setOutputs(outputs int) {
	e.Outputs = outputs
	e.layout = rows.Layout{Outputs: outputs, N: len(e.levels) * outputs, Refresh: e.Rule.Parts}
	e.window.Layout = e.layout
	if e.ridge = e.Ridge; outputs == 1 {
		e.active = 1
		if e.Rule.Ridges && math.Sqrt(e.Start) >= (1-1e-9)*e.Rate*e.Ridge {
			e.ridge = 0
		}
	}
	var strength []float64
	for v := range e.levels {
		e.levels[v].squares = make([]float64, outputs)
		strength = append(strength, e.levels[v].strength)
	}
	e.step = newStep(strength, outputs)
	e.setSilent()
	c := rules.Settings{
		Layout: e.layout, Loss: e.Loss, Eta: e.Rate, Ridge: e.Ridge, Penalized: e.Penalized, StartSum: e.Start, L1: e.L1,
		Proximal: e.Adapts && outputs == 1, UnscaledNoise: e.kind != square,
	}
	if e.silent != nil {
		c.Left = outputs
	}
	e.rule = e.Rule.Make(c)
}

// StartRow fills a new row, which is all zero.
func (e *Expert) StartRow(row []float64) { e.rule.Start(row) }

// Grow gives the Expert more outputs, one for each class, and returns how a row is made of one as it was. Nothing begins
// anew: outputs keep what they have learned. Where one has told two classes apart it becomes that of the second, and its
// negation that of the first.
func (e *Expert) Grow(outputs int) (fill func(to, from []float64)) {
	was, squares := *e, e.squares()
	e.setOutputs(outputs)
	e.active = max(was.active, 2)
	for v, from := range squares {
		if to := e.levels[v].squares; copy(to, from) == 1 {
			to[1] = from[0]
		}
	}
	return func(to, from []float64) {
		e.rule.Start(to)
		for part := range e.parts() {
			x, y := e.layout.Part(to, part), was.layout.Part(from, part)
			for v := range e.levels {
				x, y := x[v*outputs:], y[v*was.Outputs:(v+1)*was.Outputs]
				if copy(x, y); was.Outputs > 1 {
					continue
				}
				if x[1] = y[0]; e.odd(part) {
					x[0] = -y[0]
				}
			}
		}
	}
}

// Regroup gives the Expert as many outputs as there are lists, each of which begins as the mean of the former ones on its
// list, and returns how a row is made of one as it was. All are in use.
func (e *Expert) Regroup(from [][]int) (fill func(to, from []float64)) {
	was, squares := *e, e.squares()
	e.setOutputs(len(from))
	e.active = e.Outputs
	for v, of := range squares {
		rows.Regroup(e.levels[v].squares, of, from, was.Outputs)
	}
	return func(to, of []float64) {
		e.rule.Start(to)
		for part := range e.parts() {
			rows.Regroup(e.layout.Part(to, part), was.layout.Part(of, part), from, was.Outputs)
		}
	}
}

// Shift adds to the intercepts of an output; the averages follow.
func (e *Expert) Shift(output int, by float64, intercepts []float64) {
	for j := output; e.Intercept && j < e.layout.N; j += e.Outputs {
		e.setIntercept(intercepts, j, e.layout.Weights(intercepts)[j]+by, e.window.CenterOf(intercepts)[j]+by)
	}
}

// Together returns by level the intercept of what is as likely as the given outputs together.
func (e *Expert) Together(outputs []int, intercepts []float64) (by []float64) {
	for v := range e.levels {
		sum := 0.0
		for _, k := range outputs {
			sum += math.Exp(e.layout.Weights(intercepts)[v*e.Outputs+k])
		}
		by = append(by, math.Log(sum))
	}
	return by
}

// Place makes the intercepts of an output those given by level; the averages follow.
func (e *Expert) Place(output int, by, intercepts []float64) {
	for v, b := range by {
		if j := v*e.Outputs + output; e.Intercept {
			e.setIntercept(intercepts, j, b, b)
		}
	}
}

// Activate puts the first n outputs in use, where there are several: each begins as if all events before had been of
// other classes.
func (e *Expert) Activate(n int, intercepts []float64) {
	for ; e.Outputs > 1 && e.active < n; e.active++ {
		if !e.Intercept {
			continue
		}
		for j := e.active; j < e.layout.N; j += e.Outputs {
			b := -math.Log(float64(e.steps + 1))
			e.setIntercept(intercepts, j, b, b)
			if e.layout.Lags(intercepts)[j] = 0; e.shared != nil { // as the fold will
				e.layout.Weights(e.shared.Bias)[j] = e.layout.Weights(intercepts)[j]
			}
		}
	}
}

// Active returns how many outputs are in use.
func (e *Expert) Active() int { return e.active }

// Width returns how many values a row has of so many outputs: what the parts need and, behind them, so many more for each
// output, in whole lines of the cache.
func (c *Settings) Width(outputs, more int) int {
	const line = 8
	return (rows.FirstPart + (c.parts()*len(c.Noises)+more)*outputs + line - 1) / line * line
}

// End returns where in a row the parts end.
func (e *Expert) End() int { return rows.FirstPart + e.parts()*e.layout.N }

// NewScores returns room for what the Expert says of an event, NewOwn for what it says of one that it may then learn.
func (e *Expert) NewScores() Scores {
	n := e.layout.N
	all := make([]float64, 3*n)
	return Scores{Iterate: all[:n:n], Lag: all[n : 2*n : 2*n], square: all[2*n:], sums: all}
}

func (e *Expert) NewOwn() Scores {
	s := e.NewScores()
	s.together = e.newTogether()
	return s
}

// Score writes to s what the levels say of an event.
func (e *Expert) Score(in *encode.Input, s *Scores) {
	clear(s.sums)
	if s.basis = e.basis(in, s.basis); s.together != nil {
		e.scoreTogether(in, s)
		return
	}
	for _, p := range in.Pairs {
		s.basis[p[0]], s.basis[p[1]] = 0, 0
	}
	rows.Sum(in.Rows, rows.FirstPart, e.layout.N, in.X, s.basis, s.Iterate, s.Lag, s.square)
	e.scorePairs(in, s)
}

// Published writes to out what each level answers, by level and output: its average's score, or its iterate's.
func (e *Expert) Published(s *Scores, out []float64) {
	k := e.Outputs
	for v := range e.levels {
		c := e.levels[v].LagShare()
		for j := v * k; j < (v+1)*k; j++ {
			out[j] = s.Iterate[j] + c*s.Lag[j]
		}
	}
}

// AppendLanes appends what the iterates of the levels say, and behind them what their averages do.
func (e *Expert) AppendLanes(s *Scores, out []float64) []float64 {
	out = append(out, s.Iterate...)
	for j, f := range s.Iterate {
		out = append(out, f+e.levels[j/e.Outputs].Coefficient*s.Lag[j])
	}
	return out
}

// Lanes returns how many values AppendLanes appends.
func (e *Expert) Lanes() int { return 2 * e.layout.N }

// PublishedLanes is Published for what AppendLanes has written.
func (e *Expert) PublishedLanes(lanes, out []float64) {
	n := e.layout.N
	for j, f := range lanes[:n] {
		out[j] = f + e.levels[j/e.Outputs].AverageShare()*(lanes[n+j]-f)
	}
}

// PublishedIntercepts writes to out what each level answers to an event without features, by level and output.
func (e *Expert) PublishedIntercepts(intercepts, out []float64) {
	w, u := e.layout.Weights(intercepts), e.layout.Lags(intercepts)
	for j := range out {
		out[j] = w[j] + e.levels[j/e.Outputs].LagShare()*u[j]
	}
}

// Weight returns the weight of a row for an output, as a mixture has it of the levels.
func (e *Expert) Weight(row, mixture []float64, output int) (sum float64) {
	w, u := e.layout.Weights(row), e.layout.Lags(row)
	for v, share := range mixture {
		if share != 0 {
			j := v*e.Outputs + output
			sum += share * (w[j] + e.levels[v].LagShare()*u[j])
		}
	}
	return sum
}

// Parts returns where in a row the weights of the levels are that a mixture has, and by what they count; intercepts
// gets their intercepts, by output.
func (e *Expert) Parts(mixture []float64, row, intercepts []float64) (parts []model.Part) {
	n, k := e.layout.N, e.Outputs
	w, u := e.layout.Weights(row), e.layout.Lags(row)
	for v, share := range mixture {
		if share == 0 {
			continue
		}
		c, at := e.levels[v].LagShare(), v*k
		parts = append(parts, model.Part{Share: share, Weight: rows.FirstPart + at, Lag: rows.FirstPart + 2*n + at, Average: c})
		for j := range k {
			intercepts[j] += share * (w[at+j] + c*u[at+j])
		}
	}
	return parts
}

// maxMove is the most that an intercept, which all events share, or the score of a reading one deviation from the
// center may change by when the scale of a column moves: beyond it weights would be extrapolated too far.
const maxMove = 1

// Move makes the weights of a row fit its column's new scale, level by level. A level whose weights it would take too
// far keeps them as they are.
func (e *Expert) Move(m encode.Move, intercepts []float64) {
	if m.Keep != 1 {
		e.rule.Forget(m.Row, false, m.Keep)
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
			e.rule.Shifted(intercepts, m.Row, from, to, m.Shift)
		}
		if e.kind == constant {
			for k, w := range w[from:to] {
				square := &e.levels[v].squares[k]
				*square = max(0, *square+w*w*(m.Ratio*m.Ratio-1))
			}
		}
		e.rule.Rescale(m.Row, from, to, m.Ratio)
		e.window.Rescale(m.Row, from, to, m.Ratio)
	}
}

// tooFar says whether a weight of the iterate or the average is larger than most.
func (e *Expert) tooFar(w, u []float64, coefficient, most float64) bool {
	for j, w := range w {
		if !(math.Abs(w) <= most && math.Abs(w+coefficient*u[j]) <= most) {
			return true
		}
	}
	return false
}

// Rescale multiplies all weights by factor and adds shift to the intercepts, because the unit of the targets has changed.
// Of the sums of squared gradients it leaves a share.
func (e *Expert) Rescale(factor, shift, keep float64, t *model.Table, intercepts []float64) {
	e.each(t, intercepts, func(row []float64, intercept bool) {
		if intercept && !e.Intercept {
			return
		}
		e.rule.Rescale(row, 0, e.layout.N, factor)
		e.rule.Forget(row, intercept, keep*factor*factor) // Rescale divides by the square
	})
	for v := range e.levels {
		for k := range e.levels[v].squares {
			e.levels[v].squares[k] *= factor * factor
		}
	}
	for j := range e.layout.N {
		if e.Intercept && shift != 0 {
			e.rule.Set(intercepts, j, e.layout.Weights(intercepts)[j]+shift)
		}
	}
}

// each calls do with all rows, which it may change.
func (e *Expert) each(t *model.Table, intercepts []float64, do func(row []float64, intercept bool)) {
	e.Rewritten++
	do(intercepts, true)
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		do(t.Touch(column), false)
	}
}

// Decay leaves a share of what steps are divided by, such as the sums of squared gradients.
func (e *Expert) Decay(keep float64, t *model.Table, intercepts []float64) {
	const most = 1e100
	if e.Rule.Sums {
		if e.growth /= keep; e.growth < most {
			return
		}
		keep, e.growth = 1/e.growth, 1
	}
	e.each(t, intercepts, func(row []float64, intercept bool) {
		e.rule.Forget(row, intercept, keep)
		e.window.Forget(row, keep)
	})
}

// rebase makes the Coefficient of a level's average 1, multiplying it into every lag.
func (e *Expert) rebase(v int, t *model.Table, intercepts []float64) {
	g := e.levels[v].Rebase()
	e.each(t, intercepts, func(row []float64, _ bool) {
		u := e.layout.Lags(row)
		for j := v * e.Outputs; j < (v+1)*e.Outputs; j++ {
			u[j] *= g
		}
	})
}

// EndPass says that the events so far were one pass over a finite set, which is about to be presented again. From here on
// the ridge counts once a pass, and nothing is adapted: the rate is the configured one and averages are published.
func (e *Expert) EndPass() {
	if e.period > 0 {
		return
	}
	e.period = e.steps
	for v := range e.levels {
		e.levels[v].EndPass()
	}
}

// Passed says whether a first pass has ended.
func (e *Expert) Passed() bool { return e.period > 0 }

// State codes all but the rows.
func (e *Expert) State(c *coder.Coder) {
	c.Uint(&e.steps)
	c.Uint(&e.period)
	c.Int(&e.active)
	c.Float(&e.growth)
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
