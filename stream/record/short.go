package record

// This file caches the columns of short values. Streams repeat values such as countries and jobs, and finding a cached
// value takes a third of the time of hashing it.

import (
	"encoding/binary"
	"math/bits"

	"blankout/internal/event"
)

// shortText is a text of at most 15 bytes. low has the first eight bytes. high has the next seven bytes, and the length
// in its highest byte. The bytes after the end of the text are 0.
type shortText struct{ low, high uint64 }

func (t shortText) size() int { return int(t.high >> 56) }

// shortString returns the string whose opening quote is before data[p]. ok is false if the string is longer, not
// closed, or not plain ASCII.
func shortString(data []byte, p int) (t shortText, ok bool) {
	var tail [16]byte
	from := tail[:]
	if len(data)-p >= len(tail) {
		from = data[p : p+len(tail)]
	} else {
		copy(from, data[p:]) // zero bytes do not count as plain
	}
	// If lengths vary, a branch on the length costs more than reading both words.
	x0, x1 := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[8:])
	n0, n1 := uint(bits.TrailingZeros64(notPlain(x0)))/8, uint(bits.TrailingZeros64(notPlain(x1)))/8
	n1 &= -(n0 / 8) // 0 unless the whole first word is plain
	n := n0 + n1
	if n == 16 || from[n] != '"' {
		return t, false
	}
	return shortText{x0 & (1<<(8*n0) - 1), x1&(1<<(8*n1)-1) | uint64(n)<<56}, true
}

// notPlain returns the highest bit of each of eight bytes that is a quote, a backslash, a control character or not
// ASCII. The first byte is the lowest. Bits after the first such bit may be wrong.
func notPlain(x uint64) uint64 {
	const low = 0x0101010101010101
	quote, slash := x^('"'*low), x^('\\'*low)
	return ((quote-low)&^quote | (slash-low)&^slash | (x-' '*low)&^x | x) & (0x80 * low)
}

// shortColumns caches the columns of the most recent short values. Each value has one possible slot, which is
// determined by its bits.
type shortColumns struct{ table []shortColumn }

type shortColumn struct {
	text   shortText
	field  uint64 // hash of the field
	taken  uint64 // fieldTable.taken when the column was found; 0 for an empty slot
	column uint32
}

const shortBits = 11 // 2,048 columns, which take 80 KB

func (c *shortColumns) at(field uint64, t shortText) *shortColumn {
	if c.table == nil {
		c.table = make([]shortColumn, 1<<shortBits)
	}
	return &c.table[((t.low^field)*0x9e3779b97f4a7c15^t.high)*0xff51afd7ed558ccd>>(64-shortBits)]
}

// shortPair is pair for a short value t. It caches the column of a value whose name the dictionary no longer needs. It
// caches nothing if there are crosses, because crosses need the hash of the value. It updates n.strange.
func (d *core) shortPair(n *named, t shortText, value []byte) {
	c := d.shortColumns.at(n.hash, t)
	if c.text == t && c.field == n.hash && c.taken == d.taken && len(d.crosses) == 0 {
		d.put(c.column, d.idOf(n, event.Categorical), 1)
		if n.strange > 0 {
			n.strange--
		}
		return
	}
	n.strange = min(n.strange+1, 16)
	if d.isRead(n) || n.reading == 0 && !isWord(value) {
		if as, ms := d.readString(n, value, false); n.reading > 0 {
			d.addRead(n, value, as, ms) // 15 bytes have few words
			return
		}
	}
	if column, wanted := d.pair(n, event.Categorical, value, 1); !wanted {
		*c = shortColumn{t, n.hash, d.taken, column}
	}
}
