package batch

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"blankout"
)

// Data is a training set in compressed sparse rows. Its columns are compact:
// columns 0 … Columns()-1 are the ones that occur in the set, in ascending order
// of the Schema's columns; Column translates back. It is immutable and safe
// for concurrent use; [Data.Subset] shares its memory.
//
// An entry takes 4 bytes where every value in its chunk is 1, 8 where all are
// exact as float32 and 12 elsewhere.
type Data struct {
	// Schema is the one the examples were decoded under.
	Schema *blankout.Schema

	rows    []rowRef
	chunks  []*chunk
	columns []uint32 // compact column -> column of the Schema
	entries int

	labels  []int32
	weights []float64 // nil while every weight is 1

	// Rows that are noisy copies of those of clean, drawn when they are read.
	corruption *corruption
	clean      *Data
}

type rowRef struct{ chunk, from, n uint32 }

// chunk holds the entries of consecutive rows. Without values every value is 1.
type chunk struct {
	index []uint32
	f32   []float32
	f64   []float64
}

// Row is one row of Data, borrowed from it: Index[i] is a compact column and
// At(i) the value there.
type Row struct {
	Index []uint32
	f32   []float32
	f64   []float64
}

// Rows returns the number of examples.
func (d *Data) Rows() int { return len(d.rows) }

// Columns returns the number of compact columns.
func (d *Data) Columns() int { return len(d.columns) }

// Column returns the Schema's column of a compact one.
func (d *Data) Column(c int) uint32 { return d.columns[c] }

// Entries returns the number of stored entries of all rows.
func (d *Data) Entries() int { return d.entries }

// Label returns the class of example i or blankout.Unlabelled.
func (d *Data) Label(i int) int { return int(d.labels[i]) }

// Weight returns the importance of example i.
func (d *Data) Weight(i int) float64 {
	if d.weights == nil {
		return 1
	}
	return d.weights[i]
}

// Row returns row i.
func (d *Data) Row(i int) Row {
	if d.corruption != nil {
		return d.corruption.row(d, i)
	}
	r := d.rows[i]
	c := d.chunks[r.chunk]
	from, to := r.from, r.from+r.n
	row := Row{Index: c.index[from:to]}
	switch {
	case c.f32 != nil:
		row.f32 = c.f32[from:to]
	case c.f64 != nil:
		row.f64 = c.f64[from:to]
	}
	return row
}

// Vec returns row i in the Schema's columns, in the memory of x.
func (d *Data) Vec(i int, x blankout.Vec) blankout.Vec {
	row := d.Row(i)
	x = blankout.Vec{Index: x.Index[:0], Value: x.Value[:0]}
	for j, c := range row.Index {
		x.Index, x.Value = append(x.Index, d.columns[c]), append(x.Value, row.At(j))
	}
	return x
}

// Len returns the number of entries.
func (r Row) Len() int { return len(r.Index) }

// At returns the value of entry i.
func (r Row) At(i int) float64 {
	if r.f32 != nil {
		return float64(r.f32[i])
	}
	if r.f64 != nil {
		return r.f64[i]
	}
	return 1
}

// Dot returns w.x. w may be longer than the columns.
func (r Row) Dot(w []float64) float64 {
	switch {
	case r.f32 != nil:
		return dotOf(r.Index, r.f32, w)
	case r.f64 != nil:
		return dotOf(r.Index, r.f64, w)
	}
	var s, s1, s2, s3 float64
	index := r.Index
	for len(index) >= 4 {
		s += w[index[0]]
		s1 += w[index[1]]
		s2 += w[index[2]]
		s3 += w[index[3]]
		index = index[4:]
	}
	for _, d := range index {
		s += w[d]
	}
	return s + s1 + (s2 + s3)
}

// dotOf adds up four sums: one would wait for its own last addition.
func dotOf[T float32 | float64](index []uint32, values []T, w []float64) float64 {
	var s, s1, s2, s3 float64
	for len(index) >= 4 && len(values) >= 4 {
		s += w[index[0]] * float64(values[0])
		s1 += w[index[1]] * float64(values[1])
		s2 += w[index[2]] * float64(values[2])
		s3 += w[index[3]] * float64(values[3])
		index, values = index[4:], values[4:]
	}
	for i, d := range index {
		s += w[d] * float64(values[i])
	}
	return s + s1 + (s2 + s3)
}

// AddTo adds a x to w.
func (r Row) AddTo(w []float64, a float64) {
	switch {
	case r.f32 != nil:
		for i, d := range r.Index {
			w[d] += a * float64(r.f32[i])
		}
	case r.f64 != nil:
		for i, d := range r.Index {
			w[d] += a * r.f64[i]
		}
	default:
		for _, d := range r.Index {
			w[d] += a
		}
	}
}

// Subset returns the given rows as Data of their own, in the given order. It
// shares entries and columns with d.
func (d *Data) Subset(rows []int) *Data {
	if d.corruption != nil {
		panic("batch: a subset of corrupted copies; corrupt the subset")
	}
	s := &Data{Schema: d.Schema, chunks: d.chunks, columns: d.columns}
	s.rows = make([]rowRef, len(rows))
	s.labels = make([]int32, len(rows))
	if d.weights != nil {
		s.weights = make([]float64, len(rows))
	}
	for j, i := range rows {
		s.rows[j] = d.rows[i]
		s.labels[j] = d.labels[i]
		s.entries += int(d.rows[i].n)
		if d.weights != nil {
			s.weights[j] = d.weights[i]
		}
	}
	return s
}

// A Builder gathers examples into Data. The zero value is ready for use.
type Builder struct {
	Threads int // that Data may use; 0 means one

	d       Data
	seen    [][]uint64 // bitmap of the columns that occur, in pages of 1<<16
	highest int        // 1 + the highest column
}

const (
	chunkEntries = 1 << 18
	seenPageBits = 16
)

// Add copies an example in. It returns an error for an example that breaks
// the contract of blankout.Example; a refused one must not come here.
func (b *Builder) Add(e *blankout.Example) error {
	x := e.Features
	if e.Refused != nil {
		return fmt.Errorf("example at offset %d: %w", e.Offset, e.Refused)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("example at offset %d: %w", e.Offset, err)
	}
	if !(e.Weight >= 0) || math.IsInf(e.Weight, 0) {
		return fmt.Errorf("example at offset %d: weight %v", e.Offset, e.Weight)
	}
	if e.Label < blankout.Unlabelled || e.Label > math.MaxInt32 {
		return fmt.Errorf("example at offset %d: label %d", e.Offset, e.Label)
	}
	n := x.Len()
	if n > 0 && int(x.Index[n-1]) >= b.highest {
		b.highest = int(x.Index[n-1]) + 1
		for len(b.seen) <= int(x.Index[n-1]>>seenPageBits) {
			b.seen = append(b.seen, nil)
		}
	}
	d := &b.d
	if len(d.chunks) == 0 || len(d.chunks[len(d.chunks)-1].index)+n > chunkEntries {
		d.chunks = append(d.chunks, &chunk{index: make([]uint32, 0, max(chunkEntries, n))})
	}
	c := d.chunks[len(d.chunks)-1]
	d.rows = append(d.rows, rowRef{uint32(len(d.chunks) - 1), uint32(len(c.index)), uint32(n)})
	c.add(x)
	for _, col := range x.Index {
		page := b.seen[col>>seenPageBits]
		if page == nil {
			page = make([]uint64, 1<<seenPageBits/64)
			b.seen[col>>seenPageBits] = page
		}
		page[col&(1<<seenPageBits-1)/64] |= 1 << (col & 63)
	}
	d.entries += n
	if e.Weight != 1 && d.weights == nil {
		d.weights = slices.Repeat([]float64{1}, len(d.labels))
	}
	d.labels = append(d.labels, int32(e.Label))
	if d.weights != nil {
		d.weights = append(d.weights, e.Weight)
	}
	return nil
}

// add appends a row, widening the values of the chunk as they need it.
func (c *chunk) add(x blankout.Vec) {
	at := len(c.index)
	c.index = append(c.index, x.Index...)
	if c.f64 == nil {
		ones, exact := true, true
		for _, v := range x.Value {
			ones = ones && v == 1
			exact = exact && float64(float32(v)) == v
		}
		if ones && c.f32 == nil {
			return
		}
		if exact {
			if c.f32 == nil {
				c.f32 = make([]float32, at, cap(c.index))
				for i := range c.f32 {
					c.f32[i] = 1
				}
			}
			c.f32 = c.f32[:len(c.index)]
			for i, v := range x.Value {
				c.f32[at+i] = float32(v)
			}
			return
		}
		c.f64 = make([]float64, at, cap(c.index))
		for i := range c.f64 {
			c.f64[i] = 1
			if c.f32 != nil {
				c.f64[i] = float64(c.f32[i])
			}
		}
		c.f32 = nil
	}
	c.f64 = append(c.f64, x.Value...)
}

// Data returns the examples added so far and leaves the Builder empty.
func (b *Builder) Data(schema *blankout.Schema) *Data {
	d := b.d
	d.Schema = schema
	// rank[page][word] counts the columns seen before that word.
	rank := make([][]uint32, len(b.seen))
	for p, page := range b.seen {
		if page == nil {
			continue
		}
		rank[p] = make([]uint32, len(page))
		for w, word := range page {
			rank[p][w] = uint32(len(d.columns))
			for ; word != 0; word &= word - 1 {
				d.columns = append(d.columns, uint32(p<<seenPageBits|w*64|bits.TrailingZeros64(word)))
			}
		}
	}
	if len(d.columns) != b.highest {
		parallel(b.Threads, len(d.chunks), func(k int) {
			index := d.chunks[k].index
			for i, col := range index {
				page, in := col>>seenPageBits, col&(1<<seenPageBits-1)
				below := b.seen[page][in/64] & (1<<(in&63) - 1)
				index[i] = rank[page][in/64] + uint32(bits.OnesCount64(below))
			}
		})
	}
	*b = Builder{}
	return &d
}
