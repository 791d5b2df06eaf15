package batch

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// The functions here process n entries. n must be a positive multiple of four.

//go:noescape
func gatherAVX2(index *uint32, n int, values unsafe.Pointer, kind int, p, z *float64, c1, c2 float64) (s, t, u float64)

//go:noescape
func addMixedAVX2(index *uint32, n int, values unsafe.Pointer, kind int, acc, z *float64, a, b float64)

//go:noescape
func addPairAVX2(index *uint32, n int, values unsafe.Pointer, kind int, acc *float64, a, b, c1, c2 float64)
