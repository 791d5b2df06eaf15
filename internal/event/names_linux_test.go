package event

import (
	"syscall"
	"testing"

	"blankout/internal/must"
)

// TestNamesBeyond32Bits checks names whose total length exceeds 4 GiB. The text of the first names is memory that the
// test reserves but never writes, so it reads as zeros.
func TestNamesBeyond32Bits(t *testing.T) {
	const first = 1<<32 + 5
	text := must.Get(syscall.Mmap(-1, 0, first+100, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE))(t)
	defer syscall.Munmap(text)
	n := NewNames(3)
	n.text, n.ends, n.hashes = text[:first], []int{first}, []uint64{1}
	n.Add(2, []byte("second"))
	n.Add(3, []byte("third"))
	must.Equal(t, n.Find(2)+n.View().Find(2)+n.Find(3), "secondsecondthird", "found")
}
