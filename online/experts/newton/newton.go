// Package newton has a second-order linear expert that corrects a base learner. It uses iteratively reweighted least
// squares over few dense columns. It stores a matrix over pairs of columns, so it is for numbers and their splines, not
// for categories.
//
// For output k the expert's score is the base score b_k plus a correction,
//
//	f_k = b_k + u_k'z,  z = (1, b, x) with one output, z = (1, x) with more,
//
// so the total weight of a column is the base learner's weight times [Weights.Base] plus the expert's own weight. An
// event adds to the curvature A, which starts at the ridge, and changes the weights by
//
//	A += (r - phi/h) z z',  u_k -= df_k A^-1 z,
//	h = z'A^-1 z,  phi = min(d (1 - 2^(-1/H)) min(1, 4 r), 1/2),
//
// where df is the loss's derivative, r its curvature (the largest over the outputs), d the number of variables in z and
// H the half-life. So A decays only in the direction of the event. A direction in which one event in d lies loses half
// of its curvature in H events. Under dropout of strength s = q/(1-q), the loss is the expected loss of the noisy
// score, and an event adds
//
//	A += V,  u_k -= A^-1 V u_k,  V = 2 s dv diag(x^2),
//
// where dv is the largest derivative with respect to the variance. V is summed over events, and one column of the sum
// is applied per event, in turn. A^-1 is stored in factorized form, see covariance. All sums have a fixed order.
package newton

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/experts"
)

// Settings are the settings of an Expert.
type Settings struct {
	Loss     loss.Loss
	Ridge    float64 // initial curvature, above 0
	HalfLife float64 // half-life in events, 0 for no forgetting
	Strength float64 // q/(1-q) for dropout with rate q, 0 without dropout
	Groups   float64 // q/(1-q) for noise of groups of columns, see Die
}

const (
	// The first learnAll events are learned. After them, one event in columns/everyColumns is learned, but at least one
	// in learnEvery.
	learnAll, learnEvery, everyColumns = 2000, 4, 64
	// mostForgotten is the largest phi, the fraction of the curvature that an event forgets.
	mostForgotten = 0.5
	// If a step would change the score by more than longStep, it uses the mean curvature along the step instead of the
	// curvature at its start.
	longStep = 0.5
	// mostWeight is the largest valid weight. If a weight is larger, the expert restarts.
	mostWeight = 1e6
	// pulled is the curvature that Pull adds.
	pulled = 8
	// mostEventCurvature is the largest curvature of an event.
	mostEventCurvature = 1e6
)

// Wanted reports whether the package supports a loss. The loss must be convex, and its derivative with respect to the
// variance must be half of its curvature.
func Wanted(l loss.Loss) bool {
	f := l.Facts()
	return f.CleanConvex && f.Convex && !f.Falls
}

// Expert is a second-order learner of correlated columns. If there is one output, it also learns a weight for the base
// score. An Expert is not safe for concurrent use.
type Expert struct {
	set     Settings
	slopes  Slopes
	outputs int
	first   int      // index of the first column in z
	columns []uint32 // columns of z from index first on, ascending

	p          covariance  // A^-1
	u          [][]float64 // weights by output
	noise      []float64   // by variable: diagonal of V that is summed but not applied yet
	met        uint64      // number of calls of Learn
	groupNoise groupNoise
	event      event // scratch of Learn
}

// event is the event that is learned, and scratch.
type event struct {
	at     []int // ascending indices of z
	z      []float64
	scores []float64 // by output
	df, dv []float64 // by output
	full   []float64 // z, and scratch for A^-1 z
	gain   []float64
}

// New returns an Expert without columns, whose score is the base score.
func New(s Settings, outputs int) *Expert {
	e := &Expert{set: s, slopes: NewSlopes(s.Loss)}
	e.begin(outputs)
	return e
}

// begin resets everything that depends on the number of outputs, and removes all columns.
func (e *Expert) begin(outputs int) {
	e.outputs, e.first, e.columns = outputs, 1, nil
	if outputs == 1 {
		e.first = 2
	}
	e.p, e.noise, e.u = covariance{}, nil, make([][]float64, outputs)
	for i := range e.first {
		e.insert(i)
	}
	e.groupNoise.reset()
	e.event = event{df: make([]float64, outputs), dv: make([]float64, outputs)}
}

// insert adds variable i to z. The value of the variable counts as 0 in all earlier events.
func (e *Expert) insert(i int) {
	e.p = e.p.with(i, 1/e.set.Ridge)
	e.noise = slices.Insert(e.noise, i, 0)
	for k := range e.u {
		e.u[k] = slices.Insert(e.u[k], i, 0)
	}
}

var names = []string{"second order"}

// Names implements experts.Expert.
func (e *Expert) Names() []string { return names }

// Idle implements experts.Expert.
func (e *Expert) Idle() bool { return len(e.columns) == 0 }

// Base implements experts.Expert.
func (e *Expert) Base(int) float64 {
	if e.first == 2 {
		return e.u[0][1]
	}
	return 0
}

// Sums implements experts.Expert, as do Sum and Scores. The sums are the scores.
func (e *Expert) Sums() int { return e.outputs }

func (e *Expert) Scores(sums, _ []float64) []float64 { return sums }

func (e *Expert) Sum(in *experts.Input, out []float64) {
	for k, u := range e.u {
		out[k] = in.One * u[0]
	}
	switch columns := e.followed(in); columns {
	case 0:
	case 1: // for the weights of a column
		for k, u := range e.u {
			out[k] += float64(u[e.first+in.Index[0]] * in.X[0])
		}
	default:
		e.event.room(e.p.n)
		full := e.event.full[e.first:]
		for n, at := range in.Index[:columns] {
			full[at] = in.X[n]
		}
		for k, u := range e.u {
			out[k] += model.Product(u[e.first:], full)
		}
	}
}

// followed returns the number of features whose columns are followed.
func (e *Expert) followed(in *experts.Input) int {
	columns, _ := slices.BinarySearch(in.Index, len(e.columns))
	return columns
}

// Learn implements experts.Expert. It skips some events, because only a sample of the events is learned.
func (e *Expert) Learn(in *experts.Input, base, scores, target []float64, active int, weight float64) {
	e.learn(in, base, scores, target, active, weight)
}

// take makes an event the event that is learned.
func (e *Expert) take(in *experts.Input, base, scores []float64) {
	ev := &e.event
	ev.scores = scores
	at, z := append(ev.at[:0], 0), append(ev.z[:0], 1)
	if e.first == 2 {
		at, z = append(at, 1), append(z, base[0])
	}
	e.groupNoise.of = e.groupNoise.of[:0]
	for range e.first {
		e.groupNoise.of = append(e.groupNoise.of, -1)
	}
	for n, column := range in.Index[:e.followed(in)] {
		if in.X[n] != 0 {
			at, z = append(at, e.first+column), append(z, in.X[n])
			if len(in.Groups.Keys) > 0 {
				e.groupNoise.of = append(e.groupNoise.of, in.Groups.Of[n])
			}
		}
	}
	ev.at, ev.z = at, z
	e.setGroups(in.Groups)
}

// learn is Learn. moved is false if the event was skipped.
func (e *Expert) learn(in *experts.Input, base, scores, targets []float64, active int, importance float64) (moved bool) {
	ev := &e.event
	every := e.every()
	if e.met++; e.met%every != 0 {
		return false
	}
	e.take(in, base, scores)
	ev.room(e.p.n)
	for n, i := range ev.at {
		ev.full[i] = ev.z[n]
	}
	h := e.p.leverage(ev.full, 0)
	if !(h > 0) || math.IsInf(h, 1) {
		e.restart()
		return true
	}
	r, dv := 0.0, 0.0
	for k := range active {
		var c, d float64
		ev.df[k], d, c = e.slopes.Derive(targets[k], ev.scores[k], e.variance(k), h)
		r, dv, ev.dv[k] = max(r, c), max(dv, d), d
	}
	forgotten := min(e.forgets(every)*min(1, 4*r), mostForgotten)
	alpha := e.p.update(importance*r-forgotten/h, ev.gain)
	for k := range active {
		e.step(k, -importance*ev.df[k]/alpha)
	}
	if e.set.Strength > 0 && len(e.columns) > 0 {
		e.shrink(importance*dv, int(e.met/every))
	}
	if e.set.Groups > 0 {
		e.sumGroups(importance, active)
		e.takeGroup()
	}
	if !(alpha > 0) || !e.bounded(active) {
		e.restart()
	}
	return true
}

// step changes the weights of output k by the given factor times the latest gain (A^-1 z).
func (e *Expert) step(k int, by float64) {
	model.Subtract(e.u[k], -by, e.event.gain)
}

func (e *Expert) bounded(active int) bool {
	for _, u := range e.u[:active] {
		if model.Product(u, u) <= mostWeight { // so is each weight
			continue
		}
		for _, x := range u {
			if !(x <= mostWeight && x >= -mostWeight) {
				return false
			}
		}
	}
	return true
}

// shrink adds the noise of an event to V, and applies the sum for one variable (turn). dv is the largest derivative
// with respect to the variance.
func (e *Expert) shrink(dv float64, turn int) {
	for n, i := range e.event.at {
		if i >= e.first {
			e.noise[i] += 2 * dv * e.set.Strength * e.event.z[n] * e.event.z[n]
		}
	}
	i := e.first + turn%len(e.columns)
	e.fix(i, e.noise[i])
	e.noise[i] = 0
}

// fix adds a to A_ii. It changes the weights like a quadratic penalty of curvature a that pulls weight i of each output
// towards 0.
func (e *Expert) fix(i int, a float64) {
	ev := &e.event
	ev.room(e.p.n)
	ev.full[i] = 1
	e.fixTo(a, i)
}

// fixTo adds a v v' to A, where v is event.full, whose entries before index first are 0. It changes the weights like a
// quadratic penalty that pulls v'u of each output towards 0.
func (e *Expert) fixTo(a float64, first int) {
	ev := &e.event
	e.p.leverage(ev.full, first)
	alpha := e.p.update(a, ev.gain)
	for k, u := range e.u {
		e.step(k, -a*model.Product(u, ev.full)/alpha)
	}
}

// Pull centers the weights of consecutive columns, starting at the column first. It pulls the sum of their weights
// times fractions towards 0. The curvature of this pull is the constant pulled.
func (e *Expert) Pull(first uint32, fractions []float64) {
	at, known := slices.BinarySearch(e.columns, first)
	if !known || at+len(fractions) > len(e.columns) {
		return
	}
	e.event.room(e.p.n)
	copy(e.event.full[e.first+at:], fractions)
	e.fixTo(pulled, e.first+at)
}

// room prepares the memory for a z with n variables.
func (ev *event) room(n int) {
	if len(ev.full) != n {
		ev.full, ev.gain = make([]float64, n), make([]float64, n)
	}
	clear(ev.full)
}

// Restart implements experts.Expert. The current event counts as an event, but is not learned.
func (e *Expert) Restart() {
	e.restart()
	e.met = 1
}

// restart resets everything except the columns.
func (e *Expert) restart() {
	columns := e.columns
	e.begin(e.outputs)
	e.met = 0
	e.follow(columns)
}

// every returns the interval, in events, at which an event is learned.
func (e *Expert) every() uint64 {
	if e.met < learnAll {
		return 1
	}
	return uint64(max(1, min(e.p.n/everyColumns, learnEvery)))
}

// forgets returns the fraction of the curvature, in the direction of a learned event, that is forgotten. every is the
// interval at which an event is learned.
func (e *Expert) forgets(every uint64) float64 {
	if e.set.HalfLife == 0 {
		return 0
	}
	return float64(e.p.n) * -math.Expm1(-math.Ln2*float64(every)/e.set.HalfLife)
}

// variance returns the variance of output k's score under dropout. It includes only the expert's own weights, not the
// base learner's.
func (e *Expert) variance(k int) (v float64) {
	if e.set.Groups > 0 {
		v = e.groupNoise.variance(k, e.outputs, e.set.Groups)
	}
	if e.set.Strength == 0 {
		return v
	}
	own := 0.0
	u, ev := e.u[k], &e.event
	for n, i := range ev.at {
		if i >= e.first {
			own += u[i] * ev.z[n] * u[i] * ev.z[n]
		}
	}
	return v + e.set.Strength*own
}

// The part below has what a second-order expert of many columns shares with Expert: the derivatives, and a curvature matrix of
// blocks.

// Slopes has the derivatives of a loss for steps that do not overshoot.
type Slopes struct {
	loss  loss.Loss
	kink  bool // the loss has a kink
	signs bool // targets are -1 or +1
	reals bool // targets are real numbers, and the score predicts the target
}

// NewSlopes returns the Slopes of a loss for which Wanted is true.
func NewSlopes(l loss.Loss) Slopes {
	f := l.Facts()
	return Slopes{loss: l, kink: f.Kink != nil, signs: f.Target == loss.Sign, reals: f.Target == loss.Real}
}

// Derive returns the derivatives df and dv of the loss, and its curvature r. r is the curvature at the score, or a
// larger value that keeps a step from overshooting. If the label is the less likely class, r is the curvature of a
// majorizer: the slope of the derivative from the score to its negative. If targets are real numbers, r moves the score
// at most to the target. If the event alone would move the score far, or the loss has a kink, r is the mean curvature
// along the step.
func (e *Slopes) Derive(y, f, v, h float64) (df, dv, r float64) {
	_, df, dv = e.loss.At(y, f, v)
	if r = min(2*dv, mostEventCurvature); r-r != 0 {
		r, dv = 0, 0 // the loss has no derivative here
	}
	if e.signs && y*f < 0 {
		r = max(r, e.slope(y, f, -f, v, df))
	}
	if e.reals && y != f {
		r = max(r, min(df/(f-y), mostEventCurvature))
	}
	if d := -df * h; e.kink || d > longStep || d < -longStep {
		r = max(r, e.slope(y, f, f+d, v, df))
	}
	return df, dv, r
}

// slope returns the mean curvature of the loss between the scores f and to. df is the derivative at f.
func (e *Slopes) slope(y, f, to, v, df float64) float64 {
	if to == f {
		return 0
	}
	_, then, _ := e.loss.At(y, to, v)
	return min((then-df)/(to-f), mostEventCurvature)
}

// Blocks is A^-1 of many variables, where A is zero between the variables of different blocks. An update takes time in
// proportion to the number of variables times the size of a block.
type Blocks struct {
	size int
	list []covariance
	gain []float64
}

// NewBlocks returns Blocks of the given size for a number of variables that is a multiple of it. A starts as the ridge.
func NewBlocks(variables, size int, ridge float64) Blocks {
	b := Blocks{size: size, gain: make([]float64, size)}
	for range variables / size {
		p := covariance{n: size}
		for j := range size {
			p.data = append(append(p.data, make([]float64, j)...), 1/ridge)
		}
		b.list = append(b.list, p)
	}
	return b
}

// Leverage returns h = z'A^-1 z. The next call of Update uses this z.
func (b *Blocks) Leverage(z []float64) (h float64) {
	for i := range b.list {
		h += b.list[i].leverage(z[i*b.size:][:b.size], 0)
	}
	return h
}

// Update adds a z z' to A within each block, and calls each with every variable and its entry of the old A^-1 z. The result
// is false if A is not positive definite any longer.
func (b *Blocks) Update(a float64, each func(variable int, gain float64)) (positive bool) {
	positive = true
	for i := range b.list {
		positive = b.list[i].update(a, b.gain) > 0 && positive
		for j, g := range b.gain {
			each(i*b.size+j, g)
		}
	}
	return positive
}

// State encodes or decodes the matrix.
func (b *Blocks) State(c *coder.Coder) {
	for i := range b.list {
		p := &b.list[i]
		n := len(p.data)
		if c.Floats(&p.data); len(p.data) != n {
			c.Failed = true
			p.data = make([]float64, n)
		}
		for j := range p.n {
			c.Failed = c.Failed || !(p.column(j)[j] > 0)
		}
	}
}
