//go:build !amd64

package model

var hasAVX2, hasFMA, hasAVX512 bool

// The assembly functions are never called on this processor.

func subtractFMA(from, row *float64, n int, factor float64) {}

func subtractRowsAVX512(to, from *float64, stride, n int, factors *[16]float64) {}

func subtractPairFMA(to, from *float64, stride, n int, factors *float64) {}

func productAVX2(a, b *float64, n int) float64 { return 0 }

func cosinesAVX2(x *float64, n int, constants *[10]float64) {}
