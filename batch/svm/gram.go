// Package svm trains kernel machines exactly: the support vector machine and DropSVM. It uses the Data and the solver
// of package batch.
package svm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/model"
)

// Resolve checks that k can be computed on d. If the width of k is not set, it becomes the mean distance of two
// different examples (Tran 2016, section 4). The mean is over all pairs, or over 100,000 pairs drawn with a fixed seed
// if there are more. If every distance is zero, the width is 1.
func Resolve(k kernel.Kernel, d *batch.Data) (kernel.Kernel, error) {
	if _, ok := k.(kernel.Chi2); ok {
		for i := range d.Rows() {
			row := d.Row(i)
			for j := range row.Len() {
				if row.At(j) < 0 {
					return nil, fmt.Errorf("kernel chi2: example %d holds %v in column %d; it is for features that are not negative", i, row.At(j), d.Column(int(row.Index[j])))
				}
			}
		}
	}
	switch t := k.(type) {
	case kernel.RBF:
		if t.Sigma == 0 {
			t.Sigma = meanDistance(k, d)
		}
		return t, checkSigma(t.Sigma)
	case kernel.Chi2:
		if t.Sigma == 0 {
			t.Sigma = meanDistance(k, d)
		}
		return t, checkSigma(t.Sigma)
	}
	return k, nil
}

func checkSigma(sigma float64) error {
	if !(sigma*sigma > 0 && sigma*sigma < math.Inf(1)) {
		return fmt.Errorf("the kernel's width %v is out of range: rescale the features", sigma)
	}
	return nil
}

func meanDistance(k kernel.Kernel, d *batch.Data) float64 {
	self := batch.NewKernelRows(k, d).Self
	distance := func(i, j int) float64 {
		return math.Sqrt(max(self[i]+self[j]-2*pairSum(k, d.Row(i), d.Row(j)), 0))
	}
	n, sum, count := d.Rows(), 0.0, 0
	const most = 100_000
	if n*(n-1)/2 <= most {
		for i := range n {
			for j := range i {
				sum += distance(i, j)
				count++
			}
		}
	} else {
		r := rand.New(rand.NewPCG(1, 0))
		for count < most {
			if i, j := r.IntN(n), r.IntN(n); i != j {
				sum += distance(i, j)
				count++
			}
		}
	}
	if sum == 0 {
		return 1
	}
	return sum / float64(count)
}

// pairSum returns the kernel's sum s(x, y) over the columns of both rows, by merging the rows.
func pairSum(k kernel.Kernel, x, y batch.Row) float64 {
	s, j := 0.0, 0
	for i, d := range x.Index {
		for j < len(y.Index) && y.Index[j] < d {
			j++
		}
		if j < len(y.Index) && y.Index[j] == d {
			s += k.Pair(x.At(i), y.At(j))
		}
	}
	return s
}

// Gram is a symmetric matrix in memory, usually k(x_i, x_j) of all pairs.
type Gram struct {
	n       int
	data    []float64
	squared []float64 // product of the matrix with itself, the most expensive part of a DropSVM penalty; nil if not computed
}

// NewGram computes the Gram matrix of all examples, which takes 8 n^2 bytes. The result has the same bits for any
// number of threads. The kernel must be resolved. NewGram returns an error if a value is not finite.
func NewGram(k kernel.Kernel, d *batch.Data, threads int) (*Gram, error) {
	rows := batch.NewKernelRows(k, d)
	g := &Gram{n: d.Rows(), data: make([]float64, d.Rows()*d.Rows())}
	var failed atomic.Bool
	batch.Parallel(threads, g.n, func(i int) {
		out := g.Row(i)
		rows.Row(i, out, 1)
		for _, v := range out {
			if v-v != 0 {
				failed.Store(true)
			}
		}
	})
	if failed.Load() {
		return nil, fmt.Errorf("kernel %s: a value is not finite: rescale the features", k)
	}
	return g, nil
}

// Len returns the number of rows.
func (g *Gram) Len() int { return g.n }

// Row returns row i of the matrix without copying it.
func (g *Gram) Row(i int) []float64 { return g.data[i*g.n : (i+1)*g.n : (i+1)*g.n] }

// times returns the product of the matrix with v.
func (g *Gram) times(v []float64) []float64 {
	out := make([]float64, g.n)
	for i := range out {
		out[i] = batch.Dot(g.Row(i), v)
	}
	return out
}

// At returns the element in row i and column j.
func (g *Gram) At(i, j int) float64 { return g.data[i*g.n+j] }

// Diagonal returns a copy of the diagonal.
func (g *Gram) Diagonal() []float64 {
	out := make([]float64, g.n)
	for i := range out {
		out[i] = g.At(i, i)
	}
	return out
}

// NewModel returns the kernel model with the coefficient coef[i*outputs+k] for row i of d and output k. The rows of d
// must be in the form that the kernel uses. Rows whose coefficients are all 0 are left out; the other rows are copied.
// The kernel must be resolved.
func NewModel(head model.Head, k kernel.Kernel, d *batch.Data, coef []float64) (*kernel.Model, error) {
	n := head.Outputs
	if len(coef) != d.Rows()*n || len(head.Intercept) != n {
		panic(fmt.Sprintf("svm: %d coefficients and %d intercepts for %d rows and %d outputs", len(coef), len(head.Intercept), d.Rows(), n))
	}
	var vectors []event.Vec
	var kept []float64
	for i := range d.Rows() {
		c := coef[i*n : (i+1)*n]
		if slices.ContainsFunc(c, func(v float64) bool { return v != 0 }) {
			vectors, kept = append(vectors, d.Vec(i, event.Vec{})), append(kept, c...)
		}
	}
	head.Schema = d.Schema
	return kernel.NewModel(head, k, vectors, kept)
}
