// Package svm trains kernel machines exactly, the support vector machine and DropSVM, on
// the Data and with the solver of package batch.
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

// Resolve checks that k can be computed on d and fills a width that is
// left open with the mean distance of two different examples (Tran 2016,
// section 4): of all pairs, or of 100,000 pairs drawn with a fixed seed where
// there are more. Where every distance is zero the width is 1.
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

// pairSum returns s(x, y) by a merge of the two rows.
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
	squared []float64 // the product with itself, if it is kept
}

// KeptGram is the Gram matrix of the Data and the kernel that were last trained with, and
// its square, which is most of what DropSVM's penalties have in common. It must not be used
// by several goroutines at a time.
type KeptGram struct {
	data   *batch.Data
	kernel string
	kept   *Gram
}

// gram returns the matrix of the labeled examples of data. The kernel must be resolved.
func (g *KeptGram) gram(k kernel.Kernel, data, labeled *batch.Data, threads int) (*Gram, error) {
	if g.data == data && g.kernel == k.String() {
		return g.kept, nil
	}
	gram, err := NewGram(k, labeled, threads)
	if err != nil {
		return nil, err
	}
	gram.squared = make([]float64, len(gram.data))
	syrk(gram.data, gram.squared, gram.n)
	g.data, g.kernel, g.kept = data, k.String(), gram
	return gram, nil
}

// NewGram computes the Gram matrix of all examples: 8 n^2 bytes. It is the same
// to the bit for any number of threads. The kernel must be resolved. An error
// means that a value is not finite.
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

// Row returns row i of the matrix, not a copy.
func (g *Gram) Row(i int) []float64 { return g.data[i*g.n : (i+1)*g.n : (i+1)*g.n] }

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

// NewModel returns the model of coefficients coef[i*outputs+k] for the rows of d, as the
// kernel sees them, and output k. Rows without a coefficient are left out; the others are
// copied. The kernel must be resolved.
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
