package batch

// This file reads the matrix of a kernel row by row.

import (
	"fmt"
	"slices"
)

// Kernel is a positive semidefinite similarity of two feature vectors. Every
// kernel here is a function of three sums: s(x, y), s(x, x) and s(y, y), where
// s is the scalar product or another sum over the columns, as Pair says.
// So only columns that two vectors share cost anything.
type Kernel interface {
	// Pair returns the term of s(x, y) of a column in which the two vectors hold
	// x and y; a column that one of them lacks has none.
	Pair(x, y float64) float64
	// Scalar reports whether Pair is the product, so that KernelRows need not call it.
	Scalar() bool
	// Of returns k(x, y) from the sums s(x, y), s(x, x) and s(y, y).
	Of(xy, xx, yy float64) float64
	// String returns the kernel as people write it.
	String() string
}

// LinearKernel is x.y.
type LinearKernel struct{}

func (LinearKernel) Pair(x, y float64) float64   { return x * y }
func (LinearKernel) Scalar() bool                { return true }
func (LinearKernel) Of(xy, _, _ float64) float64 { return xy }
func (LinearKernel) String() string              { return "linear" }

// SelfSums returns s(x, x) of each row of d.
func SelfSums(k Kernel, d *Data) []float64 {
	self := make([]float64, d.Rows())
	for i := range self {
		row := d.Row(i)
		for j := range row.Len() {
			self[i] += k.Pair(row.At(j), row.At(j))
		}
	}
	return self
}

// KernelRows computes k(x, x_j) for all rows x_j of a Data at once, by an index
// of the rows by column: only shared columns are touched, in ascending order, so
// that the value of a pair does not depend on which of the two is x, nor on the
// shard or thread it is computed in.
type KernelRows struct {
	kernel Kernel
	data   *Data
	self   []float64 // s(x_j, x_j)
	shards []kernelShard
}

// kernelShard indexes the rows lo … hi-1.
type kernelShard struct {
	lo, hi int
	start  []uint32 // by column: its entries are start[c] … start[c+1]-1
	row    []uint32 // counted from lo
	value  []float64
}

const kernelShardRows = 4096

// NewKernelRows makes the index. The kernel must be resolved.
func NewKernelRows(k Kernel, d *Data) *KernelRows {
	n := d.Rows()
	r := &KernelRows{kernel: k, data: d, self: SelfSums(k, d)}
	shards := min(max(n/kernelShardRows, 1), 16)
	for s := range shards {
		sh := kernelShard{lo: n * s / shards, hi: n * (s + 1) / shards, start: make([]uint32, d.Columns()+1)}
		for i := sh.lo; i < sh.hi; i++ {
			for _, c := range d.Row(i).Index {
				sh.start[c+1]++
			}
		}
		for c := range d.Columns() {
			sh.start[c+1] += sh.start[c]
		}
		entries := sh.start[d.Columns()]
		sh.row, sh.value = make([]uint32, entries), make([]float64, entries)
		next := slices.Clone(sh.start)
		for i := sh.lo; i < sh.hi; i++ {
			row := d.Row(i)
			for j, c := range row.Index {
				sh.row[next[c]], sh.value[next[c]] = uint32(i-sh.lo), row.At(j)
				next[c]++
			}
		}
		r.shards = append(r.shards, sh)
	}
	return r
}

// Row writes k(x_i, x_j) for every j to out.
func (r *KernelRows) Row(i int, out []float64, threads int) {
	row := r.data.Row(i)
	r.Into(row.Index, rowValues(row), r.self[i], out, threads)
}

// Into writes k(x, x_j) for every j to out. x is given by columns of the Data,
// ascending, and xx = s(x, x).
func (r *KernelRows) Into(columns []uint32, values []float64, xx float64, out []float64, threads int) {
	scalar := r.kernel.Scalar()
	Parallel(threads, len(r.shards), func(s int) {
		sh := &r.shards[s]
		acc := out[sh.lo:sh.hi]
		clear(acc)
		for i, c := range columns {
			x := values[i]
			lo, hi := sh.start[c], sh.start[c+1]
			rows, ys := sh.row[lo:hi], sh.value[lo:hi]
			if scalar {
				for j, y := range ys {
					acc[rows[j]] += x * y
				}
				continue
			}
			for j, y := range ys {
				acc[rows[j]] += r.kernel.Pair(x, y)
			}
		}
		for j, xy := range acc {
			acc[j] = r.kernel.Of(xy, xx, r.self[sh.lo+j])
		}
	})
}

func rowValues(r Row) []float64 {
	out := make([]float64, r.Len())
	for i := range out {
		out[i] = r.At(i)
	}
	return out
}

// CachedGram is the matrix k(x_i, x_j) of all pairs. A row is computed when it is asked
// for, and those used last are kept. It is not safe for concurrent use.
type CachedGram struct {
	rows     *KernelRows
	threads  int
	slots    [][]float64
	slotOf   []int32 // by row, -1 if it is not held
	rowOf    []int32 // by slot
	newer    []int32 // by slot: a ring ordered by use,
	older    []int32
	latest   int32 // from the slot used last
	computed int
}

// NewCachedGram holds as many rows of the Gram matrix as fit in cacheBytes, at
// least two. Diagonal values that are not finite are an error.
func NewCachedGram(k Kernel, d *Data, cacheBytes, threads int) (*CachedGram, error) {
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
	// |k(x, y)| <= max k(x, x) for a positive semidefinite kernel.
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
	for i, s := range c.rows.self {
		out[i] = c.rows.kernel.Of(s, s, s)
	}
	return out
}

// Row returns row i. It stays valid until the second next call.
func (c *CachedGram) Row(i int) []float64 {
	s := c.slotOf[i]
	if s < 0 {
		s = c.newer[c.latest] // around the ring: the one not used for longest
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
		// Take s out of the ring and put it before the latest.
		n, o := c.newer[s], c.older[s]
		c.older[n], c.newer[o] = o, n
		last := c.newer[c.latest]
		c.older[last], c.newer[s] = s, last
		c.older[s], c.newer[c.latest] = c.latest, s
		c.latest = s
	}
	return c.slots[s]
}
