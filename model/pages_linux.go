package model

import (
	"syscall"
	"unsafe"
)

// largePages asks the kernel for pages of 2 MB, as far as any fit in rows. A Table
// is looked into at random: with pages of 4 KB nearly every row would wait for its
// page's address, too. The kernel need not grant it; without it learning is slower, and
// its results are the same.
func largePages(rows []float64) {
	const size = 2 << 20
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 8*len(rows))
	from := min(len(memory), int(-uintptr(unsafe.Pointer(&rows[0]))&(size-1)))
	if n := (len(memory) - from) &^ (size - 1); n > 0 {
		_ = syscall.Madvise(memory[from:from+n], syscall.MADV_HUGEPAGE)
	}
}
