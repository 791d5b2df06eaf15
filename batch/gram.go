package batch

// This file computes the matrix of a kernel row by row.

import (
	"container/list"
	"fmt"

	"blankout/internal/kernel"
)

// KernelRows computes k(x_i, x_j) for row i of a Data and all rows j, in parallel.
type KernelRows struct {
	*kernel.Rows
	data *Data
}

// NewKernelRows creates an index over the rows of d. The kernel must be resolved.
func NewKernelRows(k kernel.Kernel, d *Data) *KernelRows {
	var values []float64
	return &KernelRows{kernel.NewRows(k, d.Rows(), d.Columns(), func(i int) ([]uint32, []float64) {
		row := d.Row(i)
		values = values[:0]
		for j := range row.Len() {
			values = append(values, row.At(j))
		}
		return row.Index, values
	}), d}
}

// Row writes k(x_i, x_j) for every j to out.
func (r *KernelRows) Row(i int, out []float64, threads int) {
	row := r.data.Row(i)
	values := make([]float64, row.Len())
	for j := range values {
		values[j] = row.At(j)
	}
	Parallel(threads, r.Shards(), func(s int) { r.Into(s, row.Index, values, r.Self[i], out) })
}

// CachedGram is the matrix k(x_i, x_j) of all pairs of rows. A row of the matrix is computed on request, and the most
// recently used rows are cached. CachedGram is not safe for concurrent use.
type CachedGram struct {
	rows     *KernelRows
	threads  int
	most     int             // largest number of cached rows, at least 2
	cache    *list.List      // of *cachedRow, in order of use, the latest first
	place    []*list.Element // place of each row in cache; nil if it is not cached
	computed int
}

type cachedRow struct {
	row    int
	values []float64
}

// NewCachedGram returns the matrix of all rows of d. The cache has at most cacheBytes, but at least two rows. threads is
// the number of threads that compute a row. NewCachedGram returns an error if a row's value with itself is not finite.
func NewCachedGram(k kernel.Kernel, d *Data, cacheBytes, threads int) (*CachedGram, error) {
	n := d.Rows()
	c := &CachedGram{rows: NewKernelRows(k, d), threads: threads, most: max(cacheBytes/(8*max(n, 1)), 2), cache: list.New(), place: make([]*list.Element, n)}
	// Checking the diagonal suffices: |k(x, y)| <= max k(x, x) for a positive semidefinite kernel.
	for i, v := range c.Diagonal() {
		if v-v != 0 {
			return nil, fmt.Errorf("kernel %s: the value of example %d with itself is not finite: rescale the features", k, i)
		}
	}
	return c, nil
}

// Len returns the number of rows.
func (c *CachedGram) Len() int { return len(c.place) }

// Diagonal returns the diagonal.
func (c *CachedGram) Diagonal() []float64 {
	out := make([]float64, len(c.place))
	for i, s := range c.rows.Self {
		out[i] = c.rows.Kernel.Of(s, s, s)
	}
	return out
}

// Row returns row i. The slice stays valid until the second call after this one.
func (c *CachedGram) Row(i int) []float64 {
	at := c.place[i]
	if at == nil {
		if c.cache.Len() < c.most {
			at = c.cache.PushFront(&cachedRow{values: make([]float64, len(c.place))})
		} else {
			at = c.cache.Back()
			c.place[at.Value.(*cachedRow).row] = nil
		}
		r := at.Value.(*cachedRow)
		r.row, c.place[i] = i, at
		c.rows.Row(i, r.values, c.threads)
		c.computed++
	}
	c.cache.MoveToFront(at)
	return at.Value.(*cachedRow).values
}
