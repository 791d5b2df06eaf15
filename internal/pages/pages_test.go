package pages

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"blankout/internal/must"
)

// TestChunk checks that pieces are zero, aligned, and do not overlap.
func TestChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c Chunk
	var pieces [][]byte
	for i := range 60 {
		n := 1 + r.IntN(1<<(4+i%20))
		p := c.Bytes(n, r.IntN(1<<24))
		must.Require(t, len(p) == n && cap(p) == n && !slices.ContainsFunc(p, func(b byte) bool { return b != 0 }), "%d bytes: %d, room for %d, or not zeros", n, len(p), cap(p))
		must.True(t, n <= 64 || uintptr(unsafe.Pointer(&p[0]))%64 == 0, "%d bytes at %p", n, &p[0])
		for j := range p {
			p[j] = byte(i + 1)
		}
		pieces = append(pieces, p)
	}
	for i, p := range pieces {
		must.Require(t, !slices.ContainsFunc(p, func(b byte) bool { return b != byte(i+1) }), "piece %d is another's too", i)
	}
	p := c.Bytes(chunkBytes, 0)
	must.True(t, len(p) == chunkBytes, "%d bytes", len(p))
}

func TestFloats(t *testing.T) {
	x := []float64{1, -2.5, math.Inf(1), 0}
	memory := Memory(x)
	must.EqualSlices(t, memory[:16], []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0x04, 0xc0})
	y, ok := Floats(memory)
	must.True(t, !littleEndian() || ok && slices.Equal(x, y) && &x[0] == &y[0], "%v %v", y, ok)
	for _, odd := range [][]byte{memory[1:9], memory[:9]} {
		y, ok := Floats(odd)
		must.True(t, !ok, "%d bytes from %p: %v", len(odd), &odd[0], y)
	}
	y, ok = Floats(nil)
	must.True(t, len(y) <= 0 && ok == littleEndian(), "%v %v", y, ok)
	must.True(t, len(Memory(nil)) <= 0, "bytes of nothing")
}
