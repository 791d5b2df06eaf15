package batch

// This file computes the matrix of a kernel row by row.

import (
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
	slots    [][]float64
	slotOf   []int32 // cache slot by row; -1 if the row is not cached
	rowOf    []int32 // row by cache slot
	newer    []int32 // next newer slot, by slot: a ring in order of use
	older    []int32
	latest   int32 // most recently used slot
	computed int
}

// NewCachedGram returns a CachedGram with as many rows as fit in cacheBytes, at least two. It returns an error if a
// diagonal value is not finite.
func NewCachedGram(k kernel.Kernel, d *Data, cacheBytes, threads int) (*CachedGram, error) {
	n := d.Rows()
	slots := min(max(cacheBytes/(8*max(n, 1)), 2), max(n, 2))
	c := &CachedGram{rows: NewKernelRows(k, d), threads: threads,
		slots: make([][]float64, slots), slotOf: make([]int32, n), rowOf: make([]int32, slots),
		newer: make([]int32, slots), older: make([]int32, slots)}
	for i := range c.slotOf {
		c.slotOf[i] = -1
	}
	for s := range c.slots {
		c.rowOf[s] = -1
		c.newer[s], c.older[s] = int32((s+slots-1)%slots), int32((s+1)%slots)
	}
	// Checking the diagonal suffices: |k(x, y)| <= max k(x, x) for a positive semidefinite kernel.
	for i, v := range c.Diagonal() {
		if v-v != 0 {
			return nil, fmt.Errorf("kernel %s: the value of example %d with itself is not finite: rescale the features", k, i)
		}
	}
	return c, nil
}

// Len returns the number of rows.
func (c *CachedGram) Len() int { return len(c.slotOf) }

// Diagonal returns the diagonal.
func (c *CachedGram) Diagonal() []float64 {
	out := make([]float64, len(c.slotOf))
	for i, s := range c.rows.Self {
		out[i] = c.rows.Kernel.Of(s, s, s)
	}
	return out
}

// Row returns row i. The slice stays valid until the second call after this one.
func (c *CachedGram) Row(i int) []float64 {
	s := c.slotOf[i]
	if s < 0 {
		s = c.newer[c.latest] // next in the ring after the latest: the least recently used slot
		if old := c.rowOf[s]; old >= 0 {
			c.slotOf[old] = -1
		}
		if c.slots[s] == nil {
			c.slots[s] = make([]float64, len(c.slotOf))
		}
		c.slotOf[i], c.rowOf[s] = s, int32(i)
		c.rows.Row(i, c.slots[s], c.threads)
		c.computed++
	}
	if s != c.latest {
		// Remove slot s from the ring and insert it before the latest slot.
		n, o := c.newer[s], c.older[s]
		c.older[n], c.newer[o] = o, n
		last := c.newer[c.latest]
		c.older[last], c.newer[s] = s, last
		c.older[s], c.newer[c.latest] = c.latest, s
		c.latest = s
	}
	return c.slots[s]
}
