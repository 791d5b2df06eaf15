//go:build !amd64

package model

const hasAVX2 = false

// The assembly function is never called on this processor.

func subtract4AVX2(from *float64, n int, factors *[4]float64, a, b, c, d *float64) {}

func productAVX2(a, b *float64, n int) float64 { return 0 }

func sweepAVX2(c, gain *float64, n int, v, l float64) {}

func cosinesAVX2(x *float64, n int, constants *[10]float64) {}
