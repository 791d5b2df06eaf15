package model

import "golang.org/x/sys/cpu"

var (
	hasAVX2   = cpu.X86.HasAVX2
	hasFMA    = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = cpu.X86.HasAVX512F
)

// subtractFMA computes subtractGo for n values; n is a positive multiple of 4.
//
//go:noescape
func subtractFMA(from, row *float64, n int, factor float64)

// subtractRowsAVX512 computes subtractRowsGo; n is positive.
//
//go:noescape
func subtractRowsAVX512(to, from *float64, stride, n int, factors *[16]float64)

// subtractPairFMA computes subtractRowsGo for two rows and their eight factors; n is at least 4.
//
//go:noescape
func subtractPairFMA(to, from *float64, stride, n int, factors *float64)

// productAVX2 computes productGo for n values; n is a positive multiple of 16.
//
//go:noescape
func productAVX2(a, b *float64, n int) float64

// cosinesAVX2 computes takeCosinesGo for 8 n values.
//
//go:noescape
func cosinesAVX2(x *float64, n int, constants *[10]float64)
