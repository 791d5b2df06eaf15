// Package adagrad is the expert that learns a linear model by AdaGrad under several levels of noise at once, each as
// if it were the only one.
package adagrad

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/next/encode"
	"blankout/online/pace"
	"blankout/online/rows"
)

// Settings are what an Expert is made from.
type Settings struct {
	Loss    loss.Loss
	Noises  []loss.Noise // of the levels: none, dropout of features, or silent noise, which is the last one
	Outputs int          // 1 for two classes
	Rate    float64      // the learning rate
	// FreeRate says that nobody has set the Rate, so that it may be another one for a level of silent noise.
	FreeRate bool
	Start    float64 // what the sums of squared gradients start from
	// Ridge is the factor of w_d^2/2 in the objective of one pass, which is spread over a feature's own events. With one
	// output there is none where Start stands for it.
	Ridge float64
	// Average is the share of the stream that averages reach back over, 0 for none. Adapts says that each level chooses
	// between its average and its iterate and tunes its rate.
	Average float64
	Adapts  bool
	// Intercept says that there is one, Penalized that it has the Ridge, too.
	Intercept, Penalized bool
}

// Expert is the levels. What they know of a feature is in its row, from the statistics on: n weights, n sums of squared
// gradients and n lags, by level and output, n being their product. A lag is what the average of the iterates is off
// the weight, in units of the level's Coefficient (math.md 6).
type Expert struct {
	Settings
	levels []level
	layout rows.Layout
	ridge  float64 // in force
	active int     // outputs in use: those of classes that have come
	steps  uint64
	growth float64 // of what is added to sums of squares, so that what is in force is the sum divided by it
	step   step
	silent *silentLevel // nil where no level has silent noise
}

// level is a level of noise. The variance of its score is strength sum x^2 w^2.
type level struct {
	strength float64
	pace.Pace
}

// Scores are what an Expert says of an event, by level and output.
type Scores struct {
	Iterate []float64 // sum w x
	Lag     []float64 // the average's score less the iterate's, in units of the level's Coefficient
	Square  []float64 // sum x^2 w^2 over the features, those of a pair together
	sums    []float64 // the three in one piece
	basis   []float64 // x^2 by row, 0 for the intercepts and what is of a pair
	pairs   []float64 // by pair of features, level and output what the two add to the score
}

// New returns an Expert that has learned nothing.
func New(c Settings) *Expert {
	e := &Expert{Settings: c, growth: 1}
	for _, n := range c.Noises {
		_, _, strength := n.Coefficients()
		e.levels = append(e.levels, level{strength, pace.New(c.Average, c.Adapts)})
	}
	e.setOutputs(c.Outputs)
	return e
}

// setOutputs makes what depends on the number of outputs.
func (e *Expert) setOutputs(outputs int) {
	e.Outputs = outputs
	e.layout = rows.Layout{Outputs: outputs, N: len(e.levels) * outputs}
	if e.ridge = e.Ridge; outputs == 1 {
		e.active = 1
		if math.Sqrt(e.Start) >= (1-1e-9)*e.Rate*e.Ridge {
			e.ridge = 0
		}
	}
	e.step = newStep(e.layout.N, len(e.levels))
	e.setSilent()
}

// Grow gives the Expert more outputs, one for each class, and returns how a row is made of one as it was. Nothing begins
// anew: outputs keep what they have learned. Where one has told two classes apart it becomes that of the second, and its
// negation that of the first.
func (e *Expert) Grow(outputs int) (fill func(to, from []float64)) {
	was := *e
	e.setOutputs(outputs)
	e.active = max(was.active, 2)
	return func(to, from []float64) {
		for part := range 3 {
			x, y := e.layout.Part(to, part), was.layout.Part(from, part)
			for v := range e.levels {
				x, y := x[v*outputs:], y[v*was.Outputs:(v+1)*was.Outputs]
				if copy(x, y); was.Outputs > 1 {
					continue
				}
				if x[1] = y[0]; part != 1 { // sums of squares have no sign
					x[0] = -y[0]
				}
			}
		}
	}
}

// Regroup gives the Expert as many outputs as there are lists, each of which begins as the mean of the former ones on its
// list, and returns how a row is made of one as it was. All are in use.
func (e *Expert) Regroup(from [][]int) (fill func(to, from []float64)) {
	was := *e
	e.setOutputs(len(from))
	e.active = e.Outputs
	return func(to, of []float64) {
		for part := range 3 {
			rows.Regroup(e.layout.Part(to, part), was.layout.Part(of, part), from, was.Outputs)
		}
	}
}

// Shift adds to the intercepts of an output; the averages follow.
func (e *Expert) Shift(output int, by float64, intercepts []float64) {
	for j := output; e.Intercept && j < e.layout.N; j += e.Outputs {
		e.layout.Weights(intercepts)[j] += by
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
			e.layout.Weights(intercepts)[j] = b
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
			e.layout.Weights(intercepts)[j], e.layout.Lags(intercepts)[j] = -math.Log(float64(e.steps+1)), 0
		}
	}
}

// Active returns how many outputs are in use.
func (e *Expert) Active() int { return e.active }

// Width returns how many values a row has: what the parts need, in whole lines of the cache.
func Width(levels, outputs int) int {
	const line = 8
	return (rows.FirstPart + 3*levels*outputs + line - 1) / line * line
}

// NewScores returns room for what the Expert says of an event.
func (e *Expert) NewScores() Scores {
	n := e.layout.N
	all := make([]float64, 3*n)
	return Scores{Iterate: all[:n:n], Lag: all[n : 2*n : 2*n], Square: all[2*n:], sums: all}
}

// Score writes to s what the levels say of an event.
func (e *Expert) Score(in *encode.Input, s *Scores) {
	if cap(s.basis) < len(in.X) {
		s.basis = make([]float64, 2*len(in.X))
	}
	s.basis = s.basis[:len(in.X)]
	for i, x := range in.X {
		s.basis[i] = x * x
	}
	s.basis[in.Features()] = 0
	for _, p := range in.Pairs {
		s.basis[p[0]], s.basis[p[1]] = 0, 0
	}
	clear(s.sums)
	rows.Sum(in.Rows, rows.FirstPart, e.layout.N, in.X, s.basis, s.Iterate, s.Lag, s.Square)
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
		for j, s := range e.layout.Preconditioner(m.Row) {
			e.layout.Preconditioner(m.Row)[j] = s * m.Keep
		}
	}
	if m.Ratio == 1 && m.Shift == 0 {
		return
	}
	w, s, u := e.layout.Weights(m.Row), e.layout.Preconditioner(m.Row), e.layout.Lags(m.Row)
	b, bu := e.layout.Weights(intercepts), e.layout.Lags(intercepts)
	most := maxMove / max(math.Abs(m.Shift), m.Ratio-1)
	inverse := 1 / (m.Ratio * m.Ratio)
	for v := range e.levels {
		from, to := v*e.Outputs, (v+1)*e.Outputs
		if e.tooFar(w[from:to], u[from:to], e.levels[v].Coefficient, most) {
			continue
		}
		for j := from; j < to; j++ {
			if e.Intercept && m.Shift != 0 {
				b[j] += w[j] * m.Shift
				bu[j] += u[j] * m.Shift
			}
			w[j] *= m.Ratio
			u[j] *= m.Ratio
			s[j] *= inverse // a gradient by w shrinks as w grows
		}
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
	scale := func(row []float64) {
		w, s, u := e.layout.Weights(row), e.layout.Preconditioner(row), e.layout.Lags(row)
		for j := range w {
			w[j], s[j], u[j] = w[j]*factor, s[j]*keep, u[j]*factor
		}
	}
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		scale(t.Touch(column))
	}
	if !e.Intercept {
		return
	}
	scale(intercepts)
	for j := range e.layout.N {
		e.layout.Weights(intercepts)[j] += shift
	}
}

// Decay leaves a share of the sums of squared gradients.
func (e *Expert) Decay(keep float64, t *model.Table, intercepts []float64) {
	const most = 1e100
	if e.growth /= keep; e.growth < most {
		return
	}
	scale := func(row []float64) {
		s := e.layout.Preconditioner(row)
		for j := range s {
			s[j] /= e.growth
		}
	}
	scale(intercepts)
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		scale(t.Touch(column))
	}
	e.growth = 1
}

// rebase makes the Coefficient of a level's average 1, multiplying it into every lag.
func (e *Expert) rebase(v int, t *model.Table, intercepts []float64) {
	g := e.levels[v].Rebase()
	scale := func(row []float64) {
		u := e.layout.Lags(row)
		for j := v * e.Outputs; j < (v+1)*e.Outputs; j++ {
			u[j] *= g
		}
	}
	scale(intercepts)
	for slot := range t.Len() {
		column, _ := t.Column(slot)
		scale(t.Touch(column))
	}
}

// State codes all but the rows.
func (e *Expert) State(c *coder.Coder) {
	c.Uint(&e.steps)
	c.Int(&e.active)
	c.Float(&e.growth)
	for v := range e.levels {
		e.levels[v].State(c)
	}
	c.Failed = c.Failed || e.active < 0 || e.active > e.Outputs
}
