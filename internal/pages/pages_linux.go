package pages

import (
	"syscall"
	"unsafe"
)

// Large asks the kernel for pages of 2 MB in memory that has not been touched. The kernel may refuse; then only the
// speed differs.
func Large(memory []byte) {
	const size = 2 << 20
	from := min(len(memory), int(-uintptr(unsafe.Pointer(unsafe.SliceData(memory)))&(size-1)))
	if n := (len(memory) - from) &^ (size - 1); n > 0 {
		_ = syscall.Madvise(memory[from:from+n], syscall.MADV_HUGEPAGE)
	}
}
