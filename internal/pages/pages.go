// Package pages allocates memory by the megabyte, in large pages if the kernel supports them. If pages are small (4
// KB), random access also waits for the address translation of nearly every page.
package pages

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// chunkBytes is the number of bytes that a Chunk allocates at a time. The garbage collector frees a chunk when no piece
// of it is referenced.
const chunkBytes = 8 << 20

// Chunk allocates pieces of memory next to each other. Its zero value is ready for use.
type Chunk struct{ spare []byte }

// Bytes returns n zero bytes, aligned to 64 bytes if n is larger than that. most is the largest number of bytes to
// allocate for later pieces.
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

// Floats returns the float64 values whose little-endian bytes are in memory, without a copy. ok is false if this
// machine is not little-endian, if memory is not aligned to 8 bytes, or if its length is not a multiple of 8.
func Floats(memory []byte) (x []float64, ok bool) {
	p := unsafe.Pointer(unsafe.SliceData(memory))
	if len(memory)%8 != 0 || uintptr(p)%8 != 0 || !littleEndian() {
		return nil, false
	}
	return unsafe.Slice((*float64)(p), len(memory)/8), true
}

// Memory returns the bytes of x in little-endian order: the same memory, or a copy if this machine is not
// little-endian.
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
