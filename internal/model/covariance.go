package model

// This file defines the covariance of numeric columns. With the covariance, missing values are imputed from the other
// columns.

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// Covariance is the covariance of standardized and clipped numeric columns. It is immutable and safe for concurrent
// use.
type Covariance struct {
	Columns []uint32 // the columns, ascending
	// Fields has one field id for each column, 0 for a column of a sparse text format. If several fields have the same
	// name, Fields has the id of the first of these fields, because an event declares only the first null.
	Fields []uint16
	Mean   []float64
	Matrix []float64 // covariance of the columns, row by row

	shrunk []float64 // Matrix with an increased diagonal, see shrink

	correlate   sync.Once
	correlated  *correlation
	invert      sync.Once
	precision   []float64 // the inverse of shrunk; nil if it cannot be computed
	imputations recent[*Imputation]
}

// MaxCovariance is the largest number of columns of a Covariance. The memory of a Covariance grows with the square of
// the columns, and the time for a new missing pattern grows with the cube.
const MaxCovariance = 1024

// shrinkCovariance is the fraction of a column's variance that is added to this variance, as if the column were noisy.
// It bounds the weight of a column that is almost a function of the other columns.
const shrinkCovariance = 0.001

// NewCovariance returns a Covariance that owns its arguments, or an error if they are not a covariance.
func NewCovariance(columns []uint32, fields []uint16, mean, matrix []float64) (*Covariance, error) {
	n := len(columns)
	if n == 0 || n > MaxCovariance || len(fields) != n || len(mean) != n || len(matrix) != n*n {
		return nil, fmt.Errorf("covariance: %d columns, %d fields, %d means and %d values do not fit each other, or are more than %d", n, len(fields), len(mean), len(matrix), MaxCovariance)
	}
	for i := range n {
		if i > 0 && columns[i] <= columns[i-1] {
			return nil, fmt.Errorf("covariance: column %d after %d", columns[i], columns[i-1])
		}
		for j, x := range matrix[i*n : i*n+i+1] {
			if !(math.Abs(x) <= 1e60) || matrix[j*n+i] != x {
				return nil, fmt.Errorf("covariance: entry %d, %d is %v, and %v across the diagonal", i, j, x, matrix[j*n+i])
			}
		}
		if !(math.Abs(mean[i]) <= 1e30) || matrix[i*n+i] < 0 {
			return nil, fmt.Errorf("covariance: column %d has the mean %v and the variance %v", columns[i], mean[i], matrix[i*n+i])
		}
	}
	c := &Covariance{Columns: columns, Fields: fields, Mean: mean, Matrix: matrix}
	c.shrink()
	if _, positive := factorize(n, slices.Clone(c.shrunk)); !positive {
		return nil, fmt.Errorf("covariance: it is not positive")
	}
	return c, nil
}

// shrink sets shrunk to C + lambda diag(C). A constant column gets the variance 1, so that it is independent of all
// others.
func (c *Covariance) shrink() {
	n := len(c.Columns)
	c.shrunk = slices.Clone(c.Matrix)
	for i := range n {
		v := &c.shrunk[i*n+i]
		if *v *= 1 + shrinkCovariance; *v == 0 {
			*v = 1
		}
	}
}

// row returns a row of shrunk.
func (c *Covariance) row(i int) []float64 { return c.shrunk[i*len(c.Columns):][:len(c.Columns)] }

// deviation returns the standard deviation of column i, or 0 if it is constant.
func (c *Covariance) deviation(i int) float64 { return math.Sqrt(c.Matrix[i*(len(c.Columns)+1)]) }

// Block returns the Covariance as a block for a model file.
func (c *Covariance) Block() event.Block {
	return event.Block{Name: blockCovariance, Data: coder.Encode(c.state)}
}

const blockCovariance = "covariance"

// state encodes or decodes the block: columns, fields, means, and the lower triangle of the matrix, row by row.
func (c *Covariance) state(w *coder.Coder) {
	w.Uint32s(&c.Columns)
	w.WideUint16s(&c.Fields)
	w.Floats(&c.Mean)
	n := len(c.Columns)
	var triangle []float64
	if !w.Decode {
		for i := range n {
			triangle = append(triangle, c.Matrix[i*n:i*n+i+1]...)
		}
	}
	w.Floats(&triangle)
	if !w.Decode || n > MaxCovariance || len(triangle) != n*(n+1)/2 {
		return
	}
	c.Matrix = make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			c.Matrix[i*n+j], c.Matrix[j*n+i] = triangle[0], triangle[0]
			triangle = triangle[1:]
		}
	}
}

// readCovariance reads the Covariance of a model file, or returns nil if the file has no Covariance.
func readCovariance(blocks []event.Block) (*Covariance, error) {
	data, err := event.FindBlock(blocks, blockCovariance)
	if err != nil {
		return nil, nil // the block is optional
	}
	r := coder.Read(data)
	var c Covariance
	if c.state(r); !r.Done() {
		return nil, fmt.Errorf("block covariance: %d bytes do not fit its format", len(data))
	}
	out, err := NewCovariance(c.Columns, c.Fields, c.Mean, c.Matrix)
	if err != nil {
		return nil, fmt.Errorf("block %w", err)
	}
	return out, nil
}

// ColumnRoles has the role of each column of a Covariance in one event: Ignored, Observed or Imputed.
type ColumnRoles []byte

// The roles of a column.
const (
	Ignored  = iota // ignored: an outlier, or an absent column that most events do not have
	Observed        // used to impute missing values
	Imputed         // missing, and is imputed
)

// Indices appends the indices of the columns with a role to at, in ascending order.
func (p ColumnRoles) Indices(part byte, at []int) []int {
	for i, q := range p {
		if q == part {
			at = append(at, i)
		}
	}
	return at
}

// Imputation imputes the missing columns m of an event from the observed columns o. If the values are normally
// distributed, the expectation of the missing values is
//
//	mu_m + B'(x_o - mu_o),  B = C_oo^-1 C_om,
//
// and their covariance is R = C_mm - C_mo B. Let P be the inverse of C, and let u be all columns that are not observed.
// Then B' = -P_uu^-1 P_uo and R = P_uu^-1, both restricted to m. Either form factorizes a matrix; the Imputation uses
// the form with the smaller matrix.
type Imputation struct {
	c                 *Covariance
	observed, imputed []int // indices of columns
	unobserved        []int // indices u if P_uu is factorized, else nil
	factor            triangle
}

// Imputation returns the Imputation for a pattern of roles, or nil if nothing is imputed. It caches the latest
// patterns, and is safe for concurrent use.
func (c *Covariance) Imputation(p ColumnRoles) *Imputation {
	if f, ok := c.imputations.get(string(p)); ok {
		return f
	}
	if bytes.IndexByte(p, Imputed) < 0 {
		return nil
	}
	places := p.Indices(Observed, make([]int, 0, 2*len(p)))
	observed := len(places)
	places = p.Indices(Imputed, places)
	f := &Imputation{c: c, observed: places[:observed:observed], imputed: slices.Clip(places[observed:])}
	if n := len(p) - observed; n < observed && c.inverse() != nil {
		from := len(places)
		for i, part := range p {
			if part != Observed {
				places = append(places, i)
			}
		}
		f.unobserved = places[from:]
		if !f.factorize(c.precision, f.unobserved) {
			f.unobserved = nil
		}
	}
	if f.unobserved == nil && len(f.observed) > 0 && !f.factorize(c.shrunk, f.observed) {
		f.observed = nil
	}
	return c.imputations.add(string(p), f, len(p)*len(p))
}

// inverse returns the inverse of shrunk, or nil if it cannot be computed or overflows.
func (c *Covariance) inverse() []float64 {
	c.invert.Do(func() {
		c.precision = inverseOf(len(c.Columns), slices.Clone(c.shrunk))
		if slices.ContainsFunc(c.precision, func(x float64) bool { return !(math.Abs(x) <= math.MaxFloat64) }) {
			c.precision = nil
		}
	})
	return c.precision
}

// correlation returns the correlation of the columns.
func (c *Covariance) correlation() *correlation {
	c.correlate.Do(func() { c.correlated = newCorrelation(c) })
	return c.correlated
}

// factorize factorizes the submatrix of a positive definite matrix whose rows and columns have the indices places. It
// returns false if rounding makes that impossible.
func (f *Imputation) factorize(matrix []float64, places []int) (positive bool) {
	n, k := len(f.c.Columns), len(places)
	part := make([]float64, k*k) // values below the diagonal are not used
	for a, i := range places {
		from, to := matrix[i*n:][:n], part[a*k:][:k]
		for b := a; b < k; b++ {
			to[b] = from[places[b]]
		}
	}
	f.factor, positive = factorize(k, part)
	return positive
}

// Weigh moves the weights of missing columns to observed columns. w has the weights of all columns. Given the observed
// values, the expectation of the sum of w x over observed and missing columns is
//
//	sum (w_o + extra_o) x_o + shift,
//
// and its variance is w_m' R w_m. Weigh sets extra to 0 for columns that are not observed.
func (f *Imputation) Weigh(w, extra []float64) (shift, variance float64) {
	clear(extra)
	if f.unobserved != nil && len(f.observed) > 0 {
		return f.weighPrecise(w, extra)
	}
	return f.weighPlain(w, extra)
}

// Variances writes the variance that Weigh returns to out, for each of several lists of weights. w has one list after the
// other, in which the weights of columns that are not missing are 0. Variances returns its scratch memory, for the next
// call.
func (f *Imputation) Variances(w, out, scratch []float64) []float64 {
	n, lists, of, precise := len(f.c.Columns), len(out), f.observed, f.unobserved != nil && len(f.observed) > 0
	if clear(out); precise {
		of = f.unobserved
	}
	solved := slices.Grow(scratch[:0], len(of)*lists)[:len(of)*lists]
	for a, i := range of {
		row := f.c.shrunk[i*n:][:n]
		for l := range out { // a row that is read serves all lists
			if w := w[l*n:][:n]; precise {
				solved[a*lists+l] = w[i]
			} else {
				solved[a*lists+l] = Product(row, w)
			}
		}
	}
	for _, i := range f.imputed {
		row := f.c.shrunk[i*n:][:n]
		for l := 0; l < lists && !precise; l++ { // the matrix is symmetric
			w := w[l*n:][:n]
			out[l] += float64(w[i] * (2*Product(row[:i], w) + float64(row[i]*w[i])))
		}
	}
	sign := -1.0
	if precise {
		sign = 1
	}
	if len(of) > 0 {
		f.factor.solveRows(solved, lists, false)
	}
	for at := 0; at < len(solved); at += lists {
		for l, y := range solved[at:][:lists] {
			out[l] += sign * float64(y*y)
		}
	}
	for l := range out {
		out[l] = max(0, out[l])
	}
	return solved
}

// weighPlain computes Weigh with the covariance C.
func (f *Imputation) weighPlain(w, extra []float64) (shift, variance float64) {
	c := f.c
	var few [4][fewPlaces]float64
	missing := few[0][:0]
	for _, i := range f.imputed {
		missing = append(missing, w[i])
	}
	for a, sum := range f.products(few[1][:0], c.shrunk, f.imputed, f.imputed, missing) {
		shift += missing[a] * c.Mean[f.imputed[a]]
		variance += missing[a] * sum
	}
	if len(f.observed) == 0 {
		return shift, max(0, variance)
	}
	right := f.products(few[2][:0], c.shrunk, f.observed, f.imputed, missing)
	solved := append(few[3][:0], right...)
	f.factor.solve(solved)
	for a, i := range f.observed {
		extra[i] = solved[a]
		shift -= extra[i] * c.Mean[i]
		variance -= right[a] * extra[i]
	}
	return shift, max(0, variance)
}

// weighPrecise computes Weigh with the inverse P of C: extra_o = -P_ou z with z = P_uu^-1 w_u. In w_u, the weights of
// columns that are not missing are replaced by 0.
func (f *Imputation) weighPrecise(w, extra []float64) (shift, variance float64) {
	c := f.c
	var few [2][fewPlaces]float64
	z := f.solvePrecise(few[0][:0], func(i int) float64 {
		if _, filled := slices.BinarySearch(f.imputed, i); filled {
			return w[i]
		}
		return 0
	})
	for a, sum := range f.products(few[1][:0], c.precision, f.observed, f.unobserved, z) {
		o := f.observed[a]
		extra[o] = -sum
		shift += sum * c.Mean[o]
	}
	for a, i := range f.unobserved {
		if _, filled := slices.BinarySearch(f.imputed, i); filled {
			shift += w[i] * c.Mean[i]
			variance += w[i] * z[a]
		}
	}
	return shift, max(0, variance)
}

// fewPlaces is the largest number of values for which nothing is allocated.
const fewPlaces = 32

// solvePrecise appends P_uu^-1 times a vector to out, which must be empty. right returns an element of the vector by
// its index.
func (f *Imputation) solvePrecise(out []float64, right func(place int) float64) []float64 {
	for _, i := range f.unobserved {
		out = append(out, right(i))
	}
	f.factor.solve(out)
	return out
}

// products returns the product of a submatrix with x. The submatrix has the given rows and columns of a matrix like
// Covariance.Matrix, and x has a value for each of these columns. The result is stored in the memory of out if that is
// large enough. Whole rows are multiplied.
func (f *Imputation) products(out, matrix []float64, rows, columns []int, x []float64) []float64 {
	n := len(f.c.Columns)
	var few [fewPlaces]float64
	whole := slices.Grow(few[:0], n)[:n]
	for b, j := range columns {
		whole[j] = x[b]
	}
	for _, i := range rows {
		out = append(out, Product(matrix[i*n:][:n], whole))
	}
	return out
}

// Expect sets the missing values in x to their expectation given the observed values.
func (f *Imputation) Expect(x []float64) {
	c := f.c
	var few [2][fewPlaces]float64
	for _, i := range f.imputed {
		x[i] = c.Mean[i]
	}
	if len(f.observed) == 0 {
		return
	}
	known := slices.Grow(few[0][:0], len(x))[:len(x)] // deviations of the observed values, and 0 for the other columns
	for _, o := range f.observed {
		known[o] = x[o] - c.Mean[o]
	}
	if f.unobserved != nil {
		z := f.solvePrecise(few[1][:0], func(i int) float64 { return -Product(c.precision[i*len(x):][:len(x)], known) })
		for a, i := range f.unobserved {
			if _, filled := slices.BinarySearch(f.imputed, i); filled {
				x[i] += z[a]
			}
		}
		return
	}
	solved := few[1][:0]
	for _, o := range f.observed {
		solved = append(solved, known[o])
	}
	f.factor.solve(solved)
	for a, o := range f.observed {
		known[o] = solved[a]
	}
	for _, i := range f.imputed {
		x[i] += Product(c.row(i), known)
	}
}

// AddResidual adds weight times the residual covariance R to a matrix like Covariance.Matrix.
func (f *Imputation) AddResidual(weight float64, to []float64) {
	c, n := f.c, len(f.c.Columns)
	add := func(i, j int, r float64) {
		to[i*n+j] += weight * r
		if i != j {
			to[j*n+i] += weight * r
		}
	}
	if f.unobserved != nil {
		r := f.factor.inverse()
		var filled []int // indices in unobserved of the imputed columns
		for a, i := range f.unobserved {
			if _, is := slices.BinarySearch(f.imputed, i); is {
				filled = append(filled, a)
			}
		}
		for b, i := range f.imputed {
			for d, j := range f.imputed[:b+1] {
				add(i, j, r[filled[d]*f.factor.n+filled[b]])
			}
		}
		return
	}
	m := len(f.observed)
	left := make([]float64, 0, len(f.imputed)*m) // C_mo
	for _, i := range f.imputed {
		row := c.row(i)
		for _, o := range f.observed {
			left = append(left, row[o])
		}
	}
	k, solved := len(f.imputed), slices.Clone(left) // B'
	if m > 0 {
		for b := range k {
			f.factor.solve(solved[b*m:][:m])
		}
	}
	for b, i := range f.imputed {
		row := c.row(i)
		for d, j := range f.imputed[:b+1] {
			r := row[j]
			other := solved[d*m:][:m]
			for a, x := range left[b*m:][:m] {
				r -= x * other[a]
			}
			add(i, j, r)
		}
	}
}
