package loss

import (
	"math"
	"slices"

	"golang.org/x/sys/cpu"
)

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F
)

func logisticTerms(u, v float64) (value, du, dv float64) {
	if !hasAVX2 {
		return logisticTermsGo(u, v)
	}
	return logisticTermsFMA(u, v, &logisticP, &logisticT2, &logisticConstants, hasAVX512)
}

// logisticConstants holds the constants of logisticTermsGo and expNegative as the
// vectors that they are used as.
var logisticConstants = func() (vectors [32][8]float64) {
	for i, c := range append(append([]float64{0.5, 1, 37, -math.Log2E, expRound, ln2High, ln2Low, phi0}, expSeries[:9]...), slices.Concat(tailNum[:], tailDen[:])...) {
		for j := range vectors[i] {
			vectors[i][j] = c
		}
	}
	return vectors
}()

//go:noescape
func logisticTermsFMA(u, v float64, p, t2 *[8]float64, constants *[32][8]float64, eight bool) (value, du, dv float64)
