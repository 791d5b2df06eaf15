// Package additive corrects the scores of a base learner by a generalized additive model (Hastie & Tibshirani 1986): a
// linear model of numeric features and their spline columns. AdaGrad learns one such model for each of several learning
// rates. The package keeps no matrix over pairs of columns, so it supports splines of many numeric features.
//
// At learning rate r the score of output k is the base score b_k plus a correction,
//
//	f_rk = b_k + w_rk'z,  z = (1, x).
//
// Each learned event makes a proximal step of the optimizer "adagrad", for the loss under dropout of strength q/(1-q).
// A number and its spline columns are dropped independently.
package additive

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/online/experts"
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// Rates are the learning rates: the base learner's rate, and a high rate for streams whose neighboring events are
// similar.
var Rates = []float64{0.3, 10}

// mostMove bounds how much a change of a column's scale may change the score of one value of that column.
const mostMove = 0.1

// Expert holds the linear models of all learning rates, which are its components. An Expert is not safe for concurrent
// use.
type Expert struct {
	loss     loss.Loss
	strength float64
	outputs  int
	columns  []uint32 // ascending
	block    block    // one row per column, and a row of the intercepts

	// Scratch: the features of an event and its constant feature, their steps, and sum x^2 w^2 by rate and output.
	features, constant features
	steps, lastSteps   []float32
	q                  []float64
	step               rows.Step
}

// New returns an Expert without columns. Its scores are the base scores. strength is q/(1-q) for dropout with rate q,
// or 0 without dropout.
func New(l loss.Loss, strength float64, outputs int) *Expert {
	e := &Expert{loss: l, strength: strength}
	e.begin(outputs)
	return e
}

// begin resets everything that depends on the number of outputs, and removes all columns.
func (e *Expert) begin(outputs int) {
	n := len(Rates) * outputs
	e.outputs, e.columns, e.block = outputs, nil, newBlock(1, n)
	e.step = rows.NewStep(slices.Repeat([]float64{e.strength}, len(Rates)), outputs)
	e.q = make([]float64, n)
}

var names = []string{"splines", "fast splines"}

// Names implements experts.Expert.
func (e *Expert) Names() []string { return names }

// Idle implements experts.Expert.
func (e *Expert) Idle() bool { return len(e.columns) == 0 }

// Base implements experts.Expert.
func (e *Expert) Base(int) float64 { return 0 }

// Follow implements experts.Expert. New columns start with weight 0.
func (e *Expert) Follow(columns []uint32, _ int) {
	if !experts.ColumnsFit(len(columns), e.outputs) {
		columns = nil
	}
	was, known := e.block, e.columns
	e.columns, e.block = slices.Clone(columns), newBlock(len(columns)+1, len(e.q))
	keep := func(to, from int) {
		toWeights, toSquares := e.block.row(to)
		weights, squares := was.row(from)
		copy(toWeights, weights)
		copy(toSquares, squares)
	}
	for i, column := range columns {
		if at, ok := slices.BinarySearch(known, column); ok {
			keep(i, at)
		}
	}
	keep(len(columns), len(known))
}

// Sums implements experts.Expert, as do Sum and Scores. The sums are the scores.
func (e *Expert) Sums() int { return len(e.q) }

func (e *Expert) Scores(sums, _ []float64) []float64 { return sums }

func (e *Expert) Sum(in *experts.Input, out []float64) {
	weights, _ := e.block.row(len(e.columns))
	for j := range out {
		out[j] = in.One * float64(weights[j])
	}
	if e.has(in) {
		e.block.sum(in.Index, in.X, out)
	}
}

// has reports whether an event has features that are followed: all are, or none.
func (e *Expert) has(in *experts.Input) bool {
	n := len(in.Index)
	return n > 0 && in.Index[n-1] < len(e.columns)
}

// read reads an event into e.features and e.constant, and writes the sums of x^2 w^2 to e.q. The intercepts have no
// noise.
func (e *Expert) read(in *experts.Input) {
	if e.has(in) {
		e.features.read(in.Index, in.X)
	} else {
		e.features.read(nil, nil)
	}
	e.constant = features{append(e.constant.index[:0], len(e.columns)), append(e.constant.x[:0], single(in.One)), append(e.constant.basis[:0], 0)}
	if e.strength > 0 {
		e.block.variance(&e.features, e.q)
	}
}

// Learn implements experts.Expert. An Expert whose scores are not finite restarts.
func (e *Expert) Learn(in *experts.Input, _, scores, targets []float64, active int, importance float64) {
	if e.Idle() {
		return
	}
	s := &e.step
	e.read(in)
	copy(s.F, scores)
	for j := range s.DF {
		k := j % e.outputs
		s.MinusEta[j], s.DF[j], s.H[j], s.Shrink[j] = 0, 0, 0, 0
		if k >= active {
			continue
		}
		s.Y[j], s.Variance[j] = targets[k], e.strength*e.q[j]
		_, df, dv := e.loss.At(s.Y[j], s.F[j], s.Variance[j])
		if s.F[j]-s.F[j] != 0 {
			e.restart()
			return
		}
		if df-df != 0 || dv-dv != 0 { // the loss has no derivative here
			continue
		}
		s.MinusEta[j] = -Rates[j/e.outputs]
		s.DF[j], s.H[j] = importance*df, 2*importance*dv
		s.Shrink[j] = e.strength * s.H[j]
	}
	s.Importance = importance
	e.descend()
}

// descend makes the proximal step of AdaGrad that e.step describes.
func (e *Expert) descend() {
	s, n := &e.step, len(e.features.index)
	e.steps, e.lastSteps = slices.Grow(e.steps[:0], n*lanesAtOnce)[:n*lanesAtOnce], slices.Grow(e.lastSteps[:0], lanesAtOnce)[:lanesAtOnce]
	for from := 0; from < len(s.DF); from += lanesAtOnce {
		var by factors
		var kappa, rate [lanesAtOnce]float32
		lanes := min(lanesAtOnce, len(s.DF)-from)
		for l := range lanes {
			by.df[l], by.shrink[l] = single(s.DF[from+l]), single(s.Shrink[from+l])
		}
		e.block.gradients(&e.features, from, &by, e.steps, &kappa)
		e.block.gradients(&e.constant, from, &by, e.lastSteps, &kappa)
		for l := range lanes {
			j := from + l
			rate[l] = float32(s.MinusEta[j] * optimizers.Fraction(e.loss, s, j, s.DF[j], -s.MinusEta[j]*float64(kappa[l])))
		}
		e.block.descend(&e.features, from, &rate, e.steps)
		e.block.descend(&e.constant, from, &rate, e.lastSteps)
	}
}

// restart resets everything except the columns.
func (e *Expert) restart() {
	columns := e.columns
	e.begin(e.outputs)
	e.Follow(columns, len(columns))
}

// The part below has the weights of the experts: single-precision numbers, contiguous by column, so that a step reads and
// writes as little memory as possible.

// block has the weights and the sums of squared gradients (AdaGrad's accumulators) of the columns. Row i of each has one
// value for each lane: rate and output, padded to a multiple of lanesAtOnce.
type block struct {
	lanes   int
	weights []float32
	squares []float32
}

const (
	lanesAtOnce = 8
	// mostValue bounds values and derivatives, so that squared gradients are finite. Standardized values are far smaller,
	// and derivatives are only as large with the importance weight of an event.
	mostValue = 1e9
	// leastValue is the smallest value and derivative that is not 0. The square of a gradient would else be too small for
	// a normal number, with which the processor is a hundred times slower. Epsilon hides such gradients anyway.
	leastValue = 1e-9
	epsilon    = 1e-8
)

// newBlock returns a block of rows of 0 with n lanes in use.
func newBlock(rows, n int) block {
	lanes := (n + lanesAtOnce - 1) / lanesAtOnce * lanesAtOnce
	return block{lanes, make([]float32, rows*lanes), make([]float32, rows*lanes)}
}

// row returns the weights and the sums of squares of a row.
func (b *block) row(i int) (weights, squares []float32) {
	from, to := i*b.lanes, (i+1)*b.lanes
	return b.weights[from:to:to], b.squares[from:to:to]
}

// features has the features of an event: the index of each row, the value, and the value's factor in the noise variance.
type features struct {
	index    []int
	x, basis []float32
}

// read sets f to features with the given indices, which it does not copy. The basis of a value is its square.
func (f *features) read(index []int, x []float64) {
	n := len(x)
	f.index, f.x, f.basis = index, slices.Grow(f.x[:0], n)[:n], slices.Grow(f.basis[:0], n)[:n]
	values, basis := f.x, f.basis
	for i, v := range x {
		s := float32(v)
		if size := math.Abs(v); !(size >= leastValue && size <= mostValue) {
			s = single(v)
		}
		values[i], basis[i] = s, s*s
	}
}

// single returns a value in single precision, within bounds.
func single(x float64) float32 {
	if math.Abs(x) < leastValue {
		return 0
	}
	return float32(min(max(x, -mostValue), mostValue))
}

// sum adds sum w x to out, by lane, in double precision. The values are by index.
func (b *block) sum(index []int, x, out []float64) {
	for from := 0; from < len(out); from += lanesAtOnce {
		var sums [lanesAtOnce]float64
		if n := len(index); n > 0 && hasAVX2 {
			sumAVX2(&b.weights[from], &index[0], &x[0], n, b.lanes, &sums)
		} else {
			sumGo(b.weights[from:], index, x, b.lanes, &sums)
		}
		for l := range min(lanesAtOnce, len(out)-from) {
			out[from+l] += sums[l]
		}
	}
}

// sumGo is the slow reference for sumAVX2. weights begins with the first lane.
func sumGo(weights []float32, index []int, x []float64, lanes int, sums *[lanesAtOnce]float64) {
	for n, i := range index {
		for l := range sums {
			sums[l] += float64(x[n] * float64(weights[i*lanes+l]))
		}
	}
}

// variance writes sum basis w^2 to q, by lane.
func (b *block) variance(f *features, q []float64) {
	for from := 0; from < len(q); from += lanesAtOnce {
		var sums [lanesAtOnce]float32
		if n := len(f.index); n > 0 && hasAVX2 {
			varianceAVX2(&b.weights[from], &f.index[0], &f.basis[0], n, b.lanes, &sums)
		} else {
			varianceGo(b.weights[from:], f, b.lanes, &sums)
		}
		for l := range min(lanesAtOnce, len(q)-from) {
			q[from+l] = float64(sums[l])
		}
	}
}

// varianceGo is the slow reference for varianceAVX2.
func varianceGo(weights []float32, f *features, lanes int, sums *[lanesAtOnce]float32) {
	for n, i := range f.index {
		for l := range sums {
			w := weights[i*lanes+l]
			sums[l] += float32(f.basis[n] * float32(w*w))
		}
	}
}

// factors are what a step needs of the loss, by lane.
type factors struct{ df, shrink [lanesAtOnce]float32 }

// gradients adds the squares of the gradients g = df x + shrink basis w to the sums of squares. It writes g divided by
// the root of the sums to steps, by feature, and adds x^2 divided by the root to kappa. The lanes begin with from.
func (b *block) gradients(f *features, from int, by *factors, steps []float32, kappa *[lanesAtOnce]float32) {
	if n := len(f.index); n > 0 && hasAVX2 {
		gradientsAVX2(&b.weights[from], &b.squares[from], &f.index[0], &f.x[0], &f.basis[0], n, b.lanes, by, &steps[0], kappa)
		return
	}
	gradientsGo(b.weights[from:], b.squares[from:], f, b.lanes, by, steps, kappa)
}

// gradientsGo is the slow reference for gradientsAVX2.
func gradientsGo(weights, squares []float32, f *features, lanes int, by *factors, steps []float32, kappa *[lanesAtOnce]float32) {
	for n, i := range f.index {
		x, basis := f.x[n], f.basis[n]
		for l := range kappa {
			g := float32(by.df[l]*x) + float32(float32(by.shrink[l]*basis)*weights[i*lanes+l])
			m := &squares[i*lanes+l]
			*m += float32(g * g)
			inverse := 1 / (float32(math.Sqrt(float64(*m))) + epsilon)
			steps[n*lanesAtOnce+l] = g * inverse
			kappa[l] += float32(float32(x*x) * inverse)
		}
	}
}

// descend adds rate times the steps to the weights. The lanes begin with from.
func (b *block) descend(f *features, from int, rate *[lanesAtOnce]float32, steps []float32) {
	if n := len(f.index); n > 0 && hasAVX2 {
		descendAVX2(&b.weights[from], &f.index[0], n, b.lanes, rate, &steps[0])
		return
	}
	descendGo(b.weights[from:], f, b.lanes, rate, steps)
}

// descendGo is the slow reference for descendAVX2.
func descendGo(weights []float32, f *features, lanes int, rate *[lanesAtOnce]float32, steps []float32) {
	for n, i := range f.index {
		for l, r := range rate {
			weights[i*lanes+l] += float32(r * steps[n*lanesAtOnce+l])
		}
	}
}
