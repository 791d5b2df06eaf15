package model

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// subtract4AVX2 computes subtract4 for n values; n is a positive multiple of 4.
//
//go:noescape
func subtract4AVX2(from *float64, n int, factors *[4]float64, a, b, c, d *float64)

// productAVX2 computes productGo for n values; n is a positive multiple of 16.
//
//go:noescape
func productAVX2(a, b *float64, n int) float64

// sweepAVX2 computes sweepGo for n values; n is a positive multiple of 4.
//
//go:noescape
func sweepAVX2(c, gain *float64, n int, v, l float64)

// cosinesAVX2 computes takeCosinesGo for 8 n values.
//
//go:noescape
func cosinesAVX2(x *float64, n int, constants *[10]float64)
