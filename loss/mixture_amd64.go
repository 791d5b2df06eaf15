package loss

import (
	"math"
	"slices"
)

// hasAVX2 says whether the processor and the system have AVX2 and FMA.
var hasAVX2 = detectAVX2()

func logisticTerms(u, v float64) (value, du, dv float64) {
	if !hasAVX2 {
		return logisticTermsGo(u, v)
	}
	return logisticTermsAVX2(u, v, &logisticP, &logisticT2, &logisticConstants)
}

// logisticConstants holds the constants of logisticTermsGo and expNegative as the
// vectors that they are used as.
var logisticConstants = func() (vectors [32][4]float64) {
	for i, c := range append(append([]float64{0.5, 1, 37, -math.Log2E, expRound, ln2High, ln2Low, phi0}, expSeries[:9]...), slices.Concat(tailNum[:], tailDen[:])...) {
		vectors[i] = [4]float64{c, c, c, c}
	}
	return vectors
}()

//go:noescape
func logisticTermsAVX2(u, v float64, p, t2 *[8]float64, constants *[32][4]float64) (value, du, dv float64)

func detectAVX2() bool
