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

// logisticConstants holds the constants of logisticTermsGo and expNegative as vectors.
var logisticConstants = func() (vectors [32][8]float64) {
	for i, c := range append(append([]float64{0.5, 1, 37, -math.Log2E, expRound, ln2High, ln2Low, phi0}, expSeries[:9]...), slices.Concat(tailNum[:], tailDen[:])...) {
		vectors[i] = [8]float64{c, c, c, c, c, c, c, c}
	}
	return vectors
}()

//go:noescape
func logisticTermsFMA(u, v float64, p, t2 *[8]float64, constants *[32][8]float64, eight bool) (value, du, dv float64)

// exps replaces leading elements of x by their exponentials, and returns their number. It stops at a group of four
// elements with a value beyond 700, NaN or infinity. math.Exp takes the same steps with FMA.
func exps(x []float64) (done int) {
	if !hasAVX2 {
		return 0
	}
	if done = len(x) &^ 3; done > 0 {
		if n := 4 * expsAVX2(&x[0], done/4, &expConstants); n < done {
			return n
		}
	}
	var last [4]float64
	if n := copy(last[:], x[done:]); n > 1 && expsAVX2(&last[0], 1, &expConstants) == 1 {
		done += copy(x[done:], last[:])
	}
	return done
}

// expConstants has the constants of math.Exp: 1/ln 2, the two halves of ln 2, the divisor of the argument, and the
// series from its highest power. The last three are 2, the limit of exps, and the bias of the exponent.
var expConstants = func() (vectors [15][8]float64) {
	for i, c := range [...]float64{math.Log2E, 0.69314718055966295651160180568695068359375, 0.28235290563031577122588448175013436025525412068e-12, 0.0625,
		2.4801587301587301587e-5, 1.9841269841269841270e-4, 1.3888888888888888889e-3, 8.3333333333333333333e-3, 4.1666666666666666667e-2, 1.6666666666666666667e-1, 0.5, 1,
		2, 700, math.Float64frombits(1023)} {
		vectors[i] = [8]float64{c, c, c, c, c, c, c, c}
	}
	return vectors
}()

//go:noescape
func expsAVX2(x *float64, fours int, constants *[15][8]float64) (done int)
