package event

// This file defines Names, the bounded dictionary of names for reports.

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names is the bounded dictionary of a Schema. It keeps the hashed names in the order of their first appearance, until
// it is full. Like the Schema it belongs to the decoder's goroutine; other goroutines use a View. A nil *Names keeps
// nothing.
//
// The column of a name is the low bits of its hash, so names that share a column are found by comparing hashes. Two
// names with the same 64-bit hash count as one.
type Names struct {
	max    int
	hashes []uint64
	ends   []int // name i is text[ends[i-1]:ends[i]]
	text   []byte
	seen   []uint64 // open-addressed set of hashes; 0 marks an empty slot
	number []uint32 // index of the name, parallel to seen
}

// MaxNameBytes is the largest length of a kept name. Names cuts a longer name to MaxNameBytes bytes and adds an
// ellipsis.
const MaxNameBytes = 256

// NewNames returns an empty dictionary of at most max names.
func NewNames(max int) *Names { return &Names{max: max} }

// Len returns the number of names.
func (n *Names) Len() int {
	if n == nil {
		return 0
	}
	return len(n.hashes)
}

// Wants reports whether a name with this hash would be added: it is new and there is capacity.
func (n *Names) Wants(hash uint64) bool {
	if n == nil || len(n.hashes) >= n.max || hash == 0 {
		return false
	}
	if n.seen == nil {
		n.grow()
	}
	return n.seen[n.slot(hash)] == 0
}

// Find returns the name with a hash, or "" if it is not in the dictionary.
func (n *Names) Find(hash uint64) (name string) {
	if n.Len() == 0 || hash == 0 {
		return ""
	}
	if n.seen == nil {
		n.grow()
	}
	at := n.slot(hash)
	if n.seen[at] == 0 {
		return ""
	}
	_, name = n.At(int(n.number[at]))
	return name
}

// slot returns the index of hash in seen, or the index of the empty slot where hash belongs.
func (n *Names) slot(hash uint64) uint64 {
	mask := uint64(len(n.seen) - 1)
	// Start from the high bits: the low bits are the column, and names that share a column must not share a slot.
	at := bits.RotateLeft64(hash, 32) & mask
	for n.seen[at] != hash && n.seen[at] != 0 {
		at = (at + 1) & mask
	}
	return at
}

// Add adds a name for which Wants returns true; it copies the bytes.
func (n *Names) Add(hash uint64, name []byte) {
	if len(name) > MaxNameBytes {
		n.text = append(append(n.text, name[:MaxNameBytes]...), "…"...)
	} else {
		n.text = append(n.text, name...)
	}
	n.hashes = append(n.hashes, hash)
	n.ends = append(n.ends, len(n.text))
	if 2*len(n.hashes) > len(n.seen) {
		n.grow()
	} else {
		n.mark(hash, len(n.hashes)-1)
	}
}

func (n *Names) grow() {
	size := 1024
	for size < 4*len(n.hashes) {
		size *= 2
	}
	n.seen, n.number = make([]uint64, size), make([]uint32, size)
	for i, h := range n.hashes {
		n.mark(h, i)
	}
}

func (n *Names) mark(hash uint64, i int) {
	at := n.slot(hash)
	n.seen[at], n.number[at] = hash, uint32(i)
}

// At returns name i and its hash.
func (n *Names) At(i int) (hash uint64, name string) {
	start := 0
	if i > 0 {
		start = n.ends[i-1]
	}
	return n.hashes[i], string(n.text[start:n.ends[i]])
}

// View returns the current dictionary. The View shares memory with n. n and the View may both grow; names that are
// added to one are not in the other.
func (n *Names) View() *Names {
	if n == nil {
		return nil
	}
	return &Names{max: n.max, hashes: slices.Clip(n.hashes), ends: slices.Clip(n.ends), text: slices.Clip(n.text)}
}

// Printable escapes all unprintable characters in a text as in Go, for example \x1b or \n, so that a terminal or log
// can show it. Unprintable are ESC, newlines, tabs, and marks that change the writing direction. Applying Printable
// twice gives the same text as applying it once.
func Printable(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 && utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unprintable(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.Quote(text[:size])
			out = append(out, quoted[1:len(quoted)-1]...)
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return string(out)
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// Full reports whether the dictionary is full, so that no further name is added.
func (n *Names) Full() bool { return n != nil && len(n.hashes) >= n.max }

// Blocks encodes the dictionary as the block "names", or returns no blocks if n is nil. The block has the capacity and
// the length, then the hash, the length and the bytes of each name. Numbers are little-endian: 64 bits for a hash, 32
// bits for the others.
func (n *Names) Blocks() []Block {
	if n == nil {
		return nil
	}
	b := make([]byte, 0, 8+12*len(n.hashes)+len(n.text))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.max))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(n.hashes)))
	for i := range n.hashes {
		hash, name := n.At(i)
		b = binary.LittleEndian.AppendUint64(b, hash)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
	}
	return []Block{{"names", b}}
}

// ReadNames decodes the result of Names.Blocks. It returns nil if there is no block "names".
func ReadNames(blocks []Block) (*Names, error) {
	b, err := FindBlock(blocks, "names")
	if err != nil {
		return nil, nil
	}
	damaged := fmt.Errorf("block names: it ends early or does not end")
	if len(b) < 8 {
		return nil, damaged
	}
	n := NewNames(int(binary.LittleEndian.Uint32(b)))
	count := binary.LittleEndian.Uint32(b[4:])
	for b = b[8:]; count > 0; count-- {
		if len(b) < 12 {
			return nil, damaged
		}
		hash, size := binary.LittleEndian.Uint64(b), uint64(binary.LittleEndian.Uint32(b[8:]))
		if uint64(len(b)-12) < size {
			return nil, damaged
		}
		n.hashes = append(n.hashes, hash)
		n.text = append(n.text, b[12:12+size]...)
		n.ends = append(n.ends, len(n.text))
		b = b[12+size:]
	}
	if len(b) > 0 {
		return nil, damaged
	}
	return n, nil
}
