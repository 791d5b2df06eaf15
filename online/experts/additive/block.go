package additive

// This file has the weights of the experts: single-precision numbers, contiguous by column, so that a step reads and
// writes as little memory as possible.

import (
	"math"
	"slices"
)

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
