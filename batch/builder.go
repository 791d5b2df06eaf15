package batch

// This file packs events into the compressed rows of Data, on which the solvers work.

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Builder gathers events into Data. Add adds one event. If several goroutines decode events, they call Pack, and
// AddPacked adds the results in order. The zero value is ready for use.
type Builder struct {
	Threads int // largest number of threads that Data may use; 0 means one
	// Splines are the splines whose columns occur in the events; nil for none.
	Splines *model.Splines

	d Data
}

// chunkEntries is the capacity of a chunk that Add fills event by event.
const chunkEntries = 1 << 18

// Packed has the features of consecutive events in the form of Data.
type Packed struct {
	chunk *chunk
	ends  []uint32 // end of each row in the chunk
	bad   error    // error of the next row
	added bool     // whether Data already has the chunk
	at    uint32   // index of the chunk in Data, if added
}

// Pack copies and checks the features of events. It ignores labels, weights and the errors of refused events. Many
// goroutines may call Pack concurrently. Add its results with AddPacked before you call Data.
func (b *Builder) Pack(examples []event.Example) *Packed {
	n := 0
	for i := range examples {
		n += examples[i].Features.Len()
	}
	p := &Packed{chunk: &chunk{index: make([]uint32, 0, n)}, ends: make([]uint32, 0, len(examples))}
	for i := range examples {
		if p.bad = p.chunk.add(examples[i].Features); p.bad != nil {
			break
		}
		p.ends = append(p.ends, uint32(len(p.chunk.index)))
	}
	return p
}

// AddPacked adds the event e, whose features are row i of p. Add the rows of p in order; you may skip rows. The errors
// are the same as for Add.
func (b *Builder) AddPacked(p *Packed, i int, e *event.Example) error {
	if err := check(e); err != nil {
		return err
	}
	if i == len(p.ends) {
		return unusable(e, p.bad)
	}
	from := uint32(0)
	if i > 0 {
		from = p.ends[i-1]
	}
	if !p.added {
		p.added, p.at = true, uint32(len(b.d.chunks))
		b.d.chunks = append(b.d.chunks, p.chunk)
	}
	b.add(e, rowRef{p.at, from, p.ends[i] - from})
	return nil
}

// Add adds a copy of an event. It returns an error if the event violates the contract of event.Example or was refused
// by the decoder.
func (b *Builder) Add(e *event.Example) error {
	if err := check(e); err != nil {
		return err
	}
	d, n := &b.d, e.Features.Len()
	last := len(d.chunks) - 1
	if last < 0 || cap(d.chunks[last].index)-len(d.chunks[last].index) < n {
		d.chunks = append(d.chunks, &chunk{index: make([]uint32, 0, max(chunkEntries, n))})
		last++
	}
	c := d.chunks[last]
	from := len(c.index)
	if err := c.add(e.Features); err != nil {
		return unusable(e, err)
	}
	b.add(e, rowRef{uint32(last), uint32(from), uint32(n)})
	return nil
}

// check returns an error if an event is invalid. It does not check the features.
func check(e *event.Example) error {
	switch {
	case e.Refused != nil:
		return unusable(e, e.Refused)
	case !(e.Weight >= 0) || math.IsInf(e.Weight, 0):
		return unusable(e, fmt.Errorf("weight %v", e.Weight))
	case math.IsNaN(e.Target) || math.IsInf(e.Target, 0):
		return unusable(e, fmt.Errorf("target %v", e.Target))
	case e.Label < event.Unlabeled || e.Label > math.MaxInt32:
		return unusable(e, fmt.Errorf("label %d", e.Label))
	}
	return nil
}

func unusable(e *event.Example, why error) error {
	return fmt.Errorf("example at offset %d: %w", e.Offset, why)
}

// add adds an event whose features are already stored as row.
func (b *Builder) add(e *event.Example, row rowRef) {
	d := &b.d
	if len(e.Field) == e.Features.Len() {
		b.Fields(e)
	}
	d.rows = append(d.rows, row)
	d.entries += int(row.n)
	if e.Weight != 1 && d.weights == nil {
		d.weights = slices.Repeat([]float64{1}, len(d.labels))
	}
	if e.Target != 0 && d.targets == nil {
		d.targets = make([]float64, len(d.labels))
	}
	if d.targets != nil {
		d.targets = append(d.targets, e.Target)
	}
	d.labels = append(d.labels, int32(e.Label))
	if d.weights != nil {
		d.weights = append(d.weights, e.Weight)
	}
}

// add appends a row to a chunk with enough capacity, and widens the chunk's value type if necessary. If x violates its
// contract, add returns an error and does not append the row.
func (c *chunk) add(x event.Vec) error {
	at, n := len(c.index), len(x.Index)
	if len(x.Value) != n {
		return x.Check()
	}
	index := c.index[:at+n]
	row, last := index[at:][:len(x.Index)], int64(-1)
	for i, col := range x.Index {
		if int64(col) <= last {
			return x.Check()
		}
		row[i], last = col, int64(col)
	}
	if !c.addValues(x.Value) {
		return x.Check()
	}
	c.index = index
	return nil
}

// addValues appends the values of a row and reports whether they are finite.
func (c *chunk) addValues(x []float64) bool {
	at, most := len(c.index), cap(c.index)
	if c.f32 == nil && c.f64 == nil {
		if !slices.ContainsFunc(x, func(v float64) bool { return v != 1 }) {
			return true
		}
		if narrow(make([]float32, len(x)), x) {
			c.f32 = make([]float32, at, most)
			for i := range c.f32 {
				c.f32[i] = 1
			}
		}
	}
	if c.f32 != nil {
		if row := c.f32[:at+len(x)]; narrow(row[at:], x) {
			c.f32 = row
			return true
		}
	}
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	if c.f64 == nil {
		c.f64 = make([]float64, at, most)
		for i := range c.f64 {
			c.f64[i] = 1
			if c.f32 != nil {
				c.f64[i] = float64(c.f32[i])
			}
		}
		c.f32 = nil
	}
	c.f64 = append(c.f64, x...)
	return true
}

// narrow copies x to the slice to. It reports whether all values are finite and can be stored as float32 without
// rounding.
func narrow(to []float32, x []float64) bool {
	to = to[:len(x)]
	for i, v := range x {
		to[i] = float32(v)
		if float64(to[i]) != v || to[i]-to[i] != 0 {
			return false
		}
	}
	return true
}

const pageBits = 16

type columnPage [1 << pageBits / 64]uint64

// Data returns the events added so far and empties the Builder.
func (b *Builder) Data(schema *event.Schema) *Data {
	d := b.d
	d.Schema, d.splines = schema, b.Splines
	var pages []*columnPage // bitmap of the used columns; a page without columns is nil
	for _, c := range d.chunks {
		for _, col := range c.index {
			number := int(col >> pageBits)
			for number >= len(pages) {
				pages = append(pages, nil)
			}
			if pages[number] == nil {
				pages[number] = new(columnPage)
			}
			pages[number][col%(1<<pageBits)/64] |= 1 << (col & 63)
		}
	}
	// rank[page][word] is the number of columns before that word.
	rank := make([][]uint32, len(pages))
	for p, page := range pages {
		if page == nil {
			continue
		}
		rank[p] = make([]uint32, len(page))
		for w, word := range page {
			rank[p][w] = uint32(len(d.columns))
			for ; word != 0; word &= word - 1 {
				d.columns = append(d.columns, uint32(p<<pageBits|w*64|bits.TrailingZeros64(word)))
			}
		}
	}
	// Columns are often numbered by frequency. Columns before the first unused number keep their numbers, so they need
	// no translation.
	gap := uint32(sort.Search(len(d.columns), func(c int) bool { return d.columns[c] != uint32(c) }))
	if int(gap) < len(d.columns) {
		Parallel(b.Threads, len(d.chunks), func(k int) {
			index := d.chunks[k].index
			for i, col := range index {
				if col < gap {
					continue
				}
				page, in := col>>pageBits, col%(1<<pageBits)
				below := pages[page][in/64] & (1<<(in&63) - 1)
				index[i] = rank[page][in/64] + uint32(bits.OnesCount64(below))
			}
		})
	}
	*b = Builder{}
	return &d
}
