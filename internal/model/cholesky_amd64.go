package model

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// subtract4AVX2 is subtract4 of n values, a multiple of 4 above 0.
//
//go:noescape
func subtract4AVX2(from *float64, n int, factors *[4]float64, a, b, c, d *float64)
