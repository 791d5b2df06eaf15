// Package pages takes memory by the megabyte, in large pages where the kernel has them. What
// is looked into at random would otherwise wait for nearly every page's address too, and what is
// read at once for every page of 4 KB.
package pages

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// chunkBytes is how much a Chunk takes at a time. Memory goes back when nobody holds any of it.
const chunkBytes = 8 << 20

// Chunk gives out memory, one piece behind the other. Its zero value is ready for use.
type Chunk struct{ spare []byte }

// Bytes returns n zeros that begin at a multiple of 64 bytes, if n is larger than that. most
// bounds what may be taken for later pieces beside them.
func (c *Chunk) Bytes(n, most int) []byte {
	if n > chunkBytes/2 {
		p := make([]byte, n)
		Large(p)
		return p
	}
	if len(c.spare) < n {
		c.spare = make([]byte, max(n, min(most, chunkBytes)))
		Large(c.spare)
	}
	p := c.spare[:n:n]
	c.spare = c.spare[min(len(c.spare), (n+63)&^63):]
	return p
}

// Floats returns the float64 that the bytes of memory are in little-endian order, in the same
// memory. ok is false where this machine does not hold them so.
func Floats(memory []byte) (x []float64, ok bool) {
	p := unsafe.Pointer(unsafe.SliceData(memory))
	if len(memory)%8 != 0 || uintptr(p)%8 != 0 || !littleEndian() {
		return nil, false
	}
	return unsafe.Slice((*float64)(p), len(memory)/8), true
}

// Memory returns the bytes of x in little-endian order: the same memory, or a copy where this
// machine does not hold them so.
func Memory(x []float64) []byte {
	if littleEndian() {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 8*len(x))
	}
	data := make([]byte, 0, 8*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return data
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }
