package kernel

// Rows computes k(x, x_j) for many rows x_j at once, with an index of the rows by column. For each row, the sum visits
// only the columns that x and x_j share, in ascending order. So k(x, y) equals k(y, x) bit by bit, and does not depend
// on the shards.
type Rows struct {
	Kernel Kernel
	Self   []float64 // s(x_j, x_j)
	shards []shard
}

// shard indexes the rows from lo to hi-1.
type shard struct {
	lo, hi int
	start  []uint32 // the entries of column c have the indices start[c] to start[c+1]-1
	row    []uint32 // row of each entry, relative to lo
	value  []float64
}

const shardRows = 4096

// NewRows creates the index of n rows. Each row is a list of ascending column numbers below columns, and its values;
// rows may share memory. The width of the kernel must be set.
func NewRows(k Kernel, n, columns int, row func(i int) ([]uint32, []float64)) *Rows {
	r := &Rows{Kernel: k, Self: make([]float64, n)}
	shards := min(max(n/shardRows, 1), 16)
	for s := range shards {
		sh := shard{lo: n * s / shards, hi: n * (s + 1) / shards, start: make([]uint32, columns+1)}
		for i := sh.lo; i < sh.hi; i++ {
			index, values := row(i)
			for j, c := range index {
				sh.start[c+1]++
				r.Self[i] += k.Pair(values[j], values[j])
			}
		}
		for c := range columns {
			sh.start[c+1] += sh.start[c]
		}
		entries := sh.start[columns]
		sh.row, sh.value = make([]uint32, entries), make([]float64, entries)
		next := append([]uint32(nil), sh.start...)
		for i := sh.lo; i < sh.hi; i++ {
			index, values := row(i)
			for j, c := range index {
				sh.row[next[c]], sh.value[next[c]] = uint32(i-sh.lo), values[j]
				next[c]++
			}
		}
		r.shards = append(r.shards, sh)
	}
	return r
}

// Shards returns the number of shards, which may be computed concurrently.
func (r *Rows) Shards() int { return len(r.shards) }

// Into writes k(x, x_j) for every row j of a shard to out[j]. x is given by its ascending columns and values, and xx =
// s(x, x).
func (r *Rows) Into(shard int, columns []uint32, values []float64, xx float64, out []float64) {
	sh, scalar := &r.shards[shard], r.Kernel.Scalar()
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
			acc[rows[j]] += r.Kernel.Pair(x, y)
		}
	}
	for j, xy := range acc {
		acc[j] = r.Kernel.Of(xy, xx, r.Self[sh.lo+j])
	}
}
