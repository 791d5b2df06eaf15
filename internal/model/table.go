package model

// This file defines Table, which maps columns to rows.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"blankout/internal/event"
	"blankout/internal/pages"
)

// Table maps columns to rows of Width float64 values. A column gets a row when it is first touched, so memory grows
// with the columns seen, not with the possible columns. A row takes 8 Width bytes plus 15 to 26, in blocks of at most
// 512 KB. Each block records when it was last written, so that a Snapshot copies only changed blocks. Rows read from a
// file stay in the file's memory until a row of their block is written.
type Table struct {
	width   int
	perBits uint     // log2 of the rows in a block
	index   index    // maps columns to slots
	columns []uint32 // column of each slot
	basis   int      // number of spline columns among them
	blocks  []tableBlock
	lent    int         // number of blocks whose memory is shared
	chunk   pages.Chunk // memory for future blocks
	epoch   uint64      // number of Snapshots, from 1
	lazy    *lazyIndex  // index of a Snapshot; replaces index
	reading *lazyIndex  // index that the Snapshots of the current columns share
	latest  lookup
	derived func(block int, room []float64) []float64 // computes the rows of a block in room, see Derive; nil if blocks has the rows
}

type tableBlock struct {
	rows    []float64 // 1<<perBits rows; only the used rows for an unwritten last block
	written uint64    // epoch of the last write; 0 if the memory is shared and unwritten
}

// lookup caches the columns of the latest lookup, and their slots plus one.
type lookup struct{ columns, slots []uint32 }

// lazyIndex builds the index of a Snapshot when Row is first called. Snapshots and derived Tables of the same columns
// share it.
type lazyIndex struct {
	once    sync.Once
	columns int
	index
}

// made returns the index of columns, and builds it first if necessary.
func (x *lazyIndex) made(columns []uint32) *index {
	x.once.Do(func() { x.enterAll(columns) })
	return &x.index
}

// readers returns the index for readers of the current rows.
func (t *Table) readers() *lazyIndex {
	if t.reading == nil || t.reading.columns != len(t.columns) {
		t.reading = &lazyIndex{columns: len(t.columns)}
	}
	return t.reading
}

const (
	// blockBytes is the largest size of a block; the snapshot topic has one message per block.
	blockBytes = 1 << 19
	// chunkFrom is the number of blocks from which a Table allocates many blocks at a time.
	chunkFrom = 4
)

// index finds the slots of columns. Small columns, such as numbered features in a file, are in an array. Other columns,
// such as hashed names, are in an open-addressed hash table. The hash table is at most three quarters full, and eight
// neighboring columns share a cache line.
type index struct {
	low     []uint32 // slot+1 of each small column, 0 for none
	entries []uint64 // column<<32 | slot+1, 0 for empty
	shift   uint8    // 64 minus log2 of the number of cache lines
	used    int
}

const maxLow = 1 << 17 // number of columns in index.low

// home returns the first position for a column's entry.
func (x *index) home(column uint32) int {
	line := uint64(column>>3) * 0x9e3779b97f4a7c15 >> (x.shift & 63) // Fibonacci hashing
	return int(line<<3 | uint64(column&7))
}

// slot returns 1 + the slot of a column, or 0 if it has none.
func (x *index) slot(column uint32) uint32 {
	if column < uint32(len(x.low)) {
		return x.low[column]
	}
	return x.hashed(column)
}

// hashed is slot for columns that are not in x.low. It must not be inlined, so that slot is small enough to be inlined
// in loops.

//go:noinline
func (x *index) hashed(column uint32) uint32 {
	if len(x.entries) == 0 {
		return 0
	}
	for at := x.home(column); ; at++ {
		at &= len(x.entries) - 1
		if e := x.entries[at]; uint32(e>>32) == column || e == 0 {
			return uint32(e)
		}
	}
}

// enter adds a column that has no slot yet.
func (x *index) enter(column, slot uint32) {
	if column < maxLow {
		if column >= uint32(len(x.low)) {
			low := make([]uint32, max(64, 1<<bits.Len32(column)))
			copy(low, x.low)
			x.low = low
		}
		x.low[column] = slot + 1
		return
	}
	if x.used++; 4*x.used > 3*len(x.entries) {
		x.resize(max(64, 2*len(x.entries)))
	}
	x.put(uint64(column)<<32 | uint64(slot+1))
}

// resize rebuilds the index with the given number of entries, a power of two.
func (x *index) resize(size int) {
	old := x.entries
	x.entries, x.shift = make([]uint64, size), uint8(64-bits.TrailingZeros(uint(size/8)))
	pages.Large(unsafe.Slice((*byte)(unsafe.Pointer(&x.entries[0])), 8*size))
	for _, e := range old {
		if e != 0 {
			x.put(e)
		}
	}
}

func (x *index) put(entry uint64) {
	at := x.home(uint32(entry >> 32))
	for x.entries[at] != 0 {
		at = (at + 1) & (len(x.entries) - 1)
	}
	x.entries[at] = entry
}

// enterAll adds the columns of slots 0, 1, … to an empty index. If a column occurs twice, ok is false and twice is that
// column.
func (x *index) enterAll(columns []uint32) (twice uint32, ok bool) {
	hashed, size := 0, 64
	for _, column := range columns {
		if column >= maxLow {
			hashed++
		}
	}
	for 4*hashed > 3*size {
		size *= 2
	}
	if hashed > 0 {
		x.resize(size)
	}
	for slot, column := range columns {
		if x.slot(column) != 0 {
			return column, false
		}
		x.enter(column, uint32(slot))
	}
	return 0, true
}

// NewTable returns an empty Table with rows of the given width.
func NewTable(width int) *Table {
	if width <= 0 || width > blockBytes/8 {
		panic(fmt.Sprintf("blankout: a row of %d values", width))
	}
	t := &Table{width: width, epoch: 1}
	for width*8<<(t.perBits+1) <= blockBytes {
		t.perBits++
	}
	return t
}

// Width returns the number of values in a row.
func (t *Table) Width() int { return t.width }

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.columns) }

// Features returns the number of rows of features: rows that are not of a knot of a spline.
func (t *Table) Features() int { return len(t.columns) - t.basis }

// countBasis counts the spline columns.
func (t *Table) countBasis(columns ...uint32) {
	for _, column := range columns {
		if column >= FirstBasisColumn {
			t.basis++
		}
	}
}

// Bytes returns the memory of the Table, without the unused memory after its last block.
func (t *Table) Bytes() int {
	n := 4*cap(t.columns) + 4*cap(t.index.low) + 8*cap(t.index.entries) + 32*cap(t.blocks)
	for _, b := range t.blocks {
		n += 8 * cap(b.rows)
	}
	return n
}

// Row returns the row of a column for reading, or nil. The slice remains valid for the life of the Table.
func (t *Table) Row(column uint32) []float64 {
	if slot := t.place(column); slot != 0 {
		return t.slot(slot - 1)
	}
	return nil
}

// Find appends the rows of columns to rows, as Row returns them. Find looks up all columns first and prefetches their
// rows, so that the memory accesses overlap. room is scratch memory.
func (t *Table) Find(columns []uint32, room *[]uint32, rows [][]float64) [][]float64 {
	x := &t.index
	if t.lazy != nil {
		x = t.lazy.made(t.columns)
	}
	*room = x.places(columns, (*room)[:0])
	t.ahead(*room)
	for _, place := range *room {
		if place == 0 {
			rows = append(rows, nil)
		} else {
			rows = append(rows, t.slot(place-1))
		}
	}
	return rows
}

// place returns 1 + the slot of a column, or 0 if it has none.
func (t *Table) place(column uint32) uint32 {
	if t.lazy == nil {
		return t.index.slot(column)
	}
	return t.lazy.made(t.columns).slot(column)
}

func (t *Table) slot(slot uint32) []float64 {
	at := int(slot&(1<<t.perBits-1)) * t.width
	return t.blocks[slot>>t.perBits].rows[at : at+t.width : at+t.width]
}

// Touch returns the row of a column for writing, and creates a row of zeros if the column has no row. The row counts as
// written until the next Snapshot. To write it after that Snapshot, call Touch again.
func (t *Table) Touch(column uint32) []float64 {
	if slot := t.index.slot(column); slot != 0 {
		t.write(&t.blocks[(slot-1)>>t.perBits])
		return t.slot(slot - 1)
	}
	return t.add(column)
}

// write marks a block as written. It first copies the block's memory if that is shared.
func (t *Table) write(b *tableBlock) {
	if b.written == 0 {
		rows := t.blockRows()
		copy(rows, b.rows)
		b.rows = rows
		t.lent--
	}
	b.written = t.epoch
}

// TouchAll appends the rows of columns to rows, as Touch returns them.
func (t *Table) TouchAll(columns []uint32, rows [][]float64) [][]float64 {
	at := len(rows)
	rows = slices.Grow(rows, len(columns))[:at+len(columns)]
	out := rows[at:]
	if !slices.Equal(columns, t.latest.columns) {
		t.find(columns)
	}
	if t.lent > 0 {
		for _, slot := range t.latest.slots {
			if slot != 0 {
				t.write(&t.blocks[(slot-1)>>t.perBits])
			}
		}
	}
	blocks, epoch, width, perBits := t.blocks, t.epoch, t.width, t.perBits&31
	inBlock := uint32(1)<<perBits - 1
	for i, slot := range t.latest.slots[:len(out)] {
		if slot == 0 { // an earlier column of this call may have created the row
			out[i] = t.Touch(columns[i])
			t.latest.slots[i] = t.index.slot(columns[i])
			blocks = t.blocks
			continue
		}
		slot--
		b, from := &blocks[slot>>perBits], int(slot&inBlock)*width
		b.written = epoch
		out[i] = b.rows[from : from+width : from+width]
	}
	return rows
}

// find looks up the slots of columns, and stores them in latest.
func (t *Table) find(columns []uint32) {
	a := &t.latest
	a.columns = append(a.columns[:0], columns...)
	a.slots = t.index.places(columns, a.slots[:0])
}

// places appends 1 + the slot of each column to out, or 0 for a column without a slot. It does not change x.
func (x *index) places(columns, out []uint32) []uint32 {
	at, low := len(out), x.low
	out = slices.Grow(out, len(columns))[:at+len(columns)]
	for i, column := range columns {
		if int(column) < len(low) {
			out[at+i] = low[column]
		} else {
			out[at+i] = x.hashed(column)
		}
	}
	return out
}

// Prefetch loads the rows of the columns of x, and its values, into the cache. It never changes the Table. It does
// nothing for a small Table, which is in the cache anyway.
func (t *Table) Prefetch(x event.Vec) {
	if t.isNear() || x.Len() == 0 {
		return
	}
	prefetchLines(&x.Value[0], 8*x.Len())
	t.find(x.Index)
	t.ahead(t.latest.slots)
}

// isNear reports whether the rows fit in the L1 and L2 caches.
func (t *Table) isNear() bool {
	const small = 1 << 20 // bytes
	return len(t.columns)*t.width*8 <= small
}

// ahead prefetches the rows at places, unless the Table is small, see isNear.
func (t *Table) ahead(places []uint32) {
	const lines = 4 // cache lines per row; the processor prefetches the rest of longer rows
	if !t.isNear() && len(places) > 0 {
		prefetch(&places[0], len(places), &t.blocks[0], int(t.perBits), 8*t.width, min(8*t.width, 64*lines))
	}
}

func (t *Table) add(column uint32) []float64 {
	slot := uint32(len(t.columns))
	t.columns = append(t.columns, column)
	t.countBasis(column)
	t.index.enter(column, slot)
	if block := int(slot >> t.perBits); block == len(t.blocks) {
		t.blocks = append(t.blocks, tableBlock{t.blockRows(), t.epoch})
	} else {
		t.write(&t.blocks[block])
	}
	return t.slot(slot)
}

// blockRows returns the memory of a new block. Blocks of a large Table are adjacent, in large pages that the kernel
// allocates on first use.
func (t *Table) blockRows() []float64 {
	n := t.width << t.perBits
	if len(t.blocks) < chunkFrom {
		return make([]float64, n)
	}
	memory := t.chunk.Bytes(8*n, math.MaxInt)
	return unsafe.Slice((*float64)(unsafe.Pointer(&memory[0])), n)
}

// Column returns the column and the row (for reading) of slot i, 0 <= i < Len, in the order of first touch.
func (t *Table) Column(i int) (column uint32, row []float64) {
	return t.columns[i], t.slot(uint32(i))
}

// Snapshot returns an immutable copy of the current rows, safe for concurrent use. prev is the latest earlier Snapshot
// of the same Table, or nil. Snapshot shares the blocks that have not been written since prev, and copies only the
// other blocks. The index is built when Row is first called.
func (t *Table) Snapshot(prev *Table) *Table {
	s := &Table{width: t.width, perBits: t.perBits, basis: t.basis, epoch: t.epoch}
	s.columns, s.lazy = t.columns[:len(t.columns):len(t.columns)], t.readers() // append-only, so sharing is safe
	s.blocks = make([]tableBlock, len(t.blocks))
	for i, b := range t.blocks {
		switch {
		case b.written == 0:
			s.blocks[i] = b
		case prev != nil && i < len(prev.blocks) && b.written <= prev.epoch:
			s.blocks[i] = prev.blocks[i]
		default:
			s.blocks[i].rows = slices.Clone(b.rows)
		}
	}
	t.epoch++
	return s
}

// Derive returns a read-only Table with other rows for the same columns. fill sets all values of the row to, of the given
// width, from a row of t. The rows are computed by Fill. Without Fill the result can only be written: EachBlock computes
// one block at a time, from the rows that t has then.
func (t *Table) Derive(width int, fill func(to, row []float64)) *Table {
	d := NewTable(width)
	d.basis = t.basis
	d.columns, d.lazy = t.columns[:len(t.columns):len(t.columns)], t.readers()
	d.derived = func(block int, room []float64) []float64 {
		first := block << d.perBits
		n := min(1<<d.perBits, len(d.columns)-first)
		rows := slices.Grow(room[:0], n*width)[:n*width]
		for i := range n {
			fill(rows[i*width:][:width:width], t.slot(uint32(first+i)))
		}
		return rows
	}
	return d
}

// Fill computes the rows of a Table that Derive has returned.
func (t *Table) Fill() *Table {
	for i := range t.blockCount() {
		t.blocks = append(t.blocks, tableBlock{rows: t.derived(i, nil)})
	}
	t.derived = nil
	return t
}

// blockCount returns the number of blocks that the rows need.
func (t *Table) blockCount() int { return (len(t.columns) + 1<<t.perBits - 1) >> t.perBits }

// Blocks encodes the Table as named blocks, little-endian. The block "columns" has the column (uint32) of each slot.
// The blocks "rows/0000", "rows/0001", … have the rows of a fixed number of slots each; the last block has only the
// used slots.
func (t *Table) Blocks() (blocks []event.Block) {
	for b := range t.EachBlock() {
		blocks = append(blocks, event.Block{Name: b.Name, Data: bytes.Clone(b.Data)})
	}
	return blocks
}

// EachBlock yields the blocks of Blocks without a second copy in memory. The blocks share the memory of the rows, and
// are valid until the next Touch; those of a Table of Derive without Fill are valid until the next block.
func (t *Table) EachBlock() iter.Seq[event.Block] {
	return func(yield func(event.Block) bool) {
		columns := make([]byte, 0, 4*len(t.columns))
		for _, c := range t.columns {
			columns = binary.LittleEndian.AppendUint32(columns, c)
		}
		if !yield(event.Block{Name: "columns", Data: columns}) {
			return
		}
		var room []float64
		for i := range t.blockCount() {
			if t.derived == nil {
				rows := t.blocks[i].rows
				room = rows[:min(len(rows), (len(t.columns)-i<<t.perBits)*t.width):len(rows)]
			} else {
				room = t.derived(i, room)
			}
			if !yield(event.Block{Name: fmt.Sprintf("rows/%04d", i), Data: pages.Memory(room)}) {
				return
			}
		}
	}
}

// ReadTable decodes the result of Blocks, which may be among other blocks. It allocates memory only after it has
// checked that the rows of all columns exist. If possible the Table shares memory with the blocks, so callers must not
// change them.
func ReadTable(width int, blocks []event.Block) (*Table, error) {
	if width <= 0 || width > blockBytes/8 {
		return nil, fmt.Errorf("rows of %d values", width)
	}
	t := NewTable(width)
	columns, err := event.FindBlock(blocks, "columns")
	if err != nil {
		return nil, err
	}
	if len(columns)%4 != 0 {
		return nil, fmt.Errorf("block columns: %d bytes are not a whole number of columns", len(columns))
	}
	var rows [][]byte
	for left := len(columns) / 4; left > 0; left -= 1 << t.perBits {
		name := fmt.Sprintf("rows/%04d", len(rows))
		data, err := event.FindBlock(blocks, name)
		if err != nil {
			return nil, err
		}
		if want := 8 * width * min(left, 1<<t.perBits); len(data) != want {
			return nil, fmt.Errorf("block %s: %d bytes, want %d", name, len(data), want)
		}
		rows = append(rows, data)
	}
	name := fmt.Sprintf("rows/%04d", len(rows))
	if _, err := event.FindBlock(blocks, name); err == nil {
		return nil, fmt.Errorf("block %s: the %d columns have no rows in it", name, len(columns)/4)
	}
	t.columns = make([]uint32, len(columns)/4)
	for i := range t.columns {
		t.columns[i] = binary.LittleEndian.Uint32(columns[4*i:])
	}
	t.countBasis(t.columns...)
	if column, ok := t.index.enterAll(t.columns); !ok {
		return nil, fmt.Errorf("block columns: column %d twice", column)
	}
	for _, data := range rows {
		if there, ok := pages.Floats(data); ok {
			t.blocks = append(t.blocks, tableBlock{rows: there})
			t.lent++
			continue
		}
		block := tableBlock{t.blockRows(), t.epoch}
		for j := range len(data) / 8 {
			block.rows[j] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*j:]))
		}
		t.blocks = append(t.blocks, block)
	}
	return t, nil
}
