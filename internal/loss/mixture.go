package loss

// This file implements the mixture of normal distributions that approximates the logistic function.

import "math"

// Learning spends most of its time on the Gaussian expectation of the logistic loss, so its eight terms are evaluated
// together by logisticTerms. On amd64 with AVX2, assembly does the same operations in the same order, four or eight
// terms at a time, with the same bits. Products are added with one rounding, as math.FMA does on every machine.

// logisticT2 holds the squares of logisticT.
var logisticT2 = func() (t2 [8]float64) {
	for i, t := range logisticT {
		t2[i] = t * t
	}
	return t2
}()

// logisticTermsGo returns three sums for u and v, with s_i = sqrt(t_i^2 + v):
//
//	sum p_i (u Phi(u/s_i) + s_i phi(u/s_i)),  sum p_i Phi(u/s_i),
//	sum p_i phi(u/s_i)/(2 s_i)
//
// The sums are the loss and its derivatives by u and v. Phi is phi times a rational approximation of their ratio (Hart
// 1968, no. 5666, as given by West 2005), so one exponential serves for both. The absolute error of the sums is below
// 1e-12.
func logisticTermsGo(u, v float64) (value, du, dv float64) {
	var values, dus, dvs [4]float64
	abs := math.Abs(u)
	for i, p := range logisticP {
		s := math.Sqrt(logisticT2[i] + v)
		inverse := 1 / s
		a := min(abs*inverse, 37) // phi is negligible beyond 37
		e := expNegative(0.5 * a * a)
		num, den := tailNum[0], tailDen[0]
		for _, c := range tailNum[1:] {
			num = math.FMA(num, a, c)
		}
		for _, c := range tailDen[1:] {
			den = math.FMA(den, a, c)
		}
		tail := e * (num / den)
		phi := e * phi0
		cdf := tail
		if u > 0 {
			cdf = 1 - tail
		}
		j := i & 3
		values[j] = math.FMA(p, math.FMA(s, phi, u*cdf), values[j])
		dus[j] = math.FMA(p, cdf, dus[j])
		dvs[j] = math.FMA(p, phi*inverse, dvs[j])
	}
	across := func(x *[4]float64) float64 { return (x[0] + x[2]) + (x[1] + x[3]) }
	return across(&values), across(&dus), 0.5 * across(&dvs)
}

const phi0 = 1 / math.Sqrt2 / math.SqrtPi // normal density at 0

// tailNum and tailDen are coefficients of polynomials, from the highest power. The quotient of the polynomials is
// Phi(-a)/exp(-a^2/2) for a in [0, 37].
var (
	tailNum = [...]float64{3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931, 220.206867912376}
	tailDen = [...]float64{8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752}
)

// expNegative returns exp(-y) for y in [0, 700] with a relative error of 1e-14.
func expNegative(y float64) float64 {
	n := math.FMA(y, -math.Log2E, expRound)
	k := n - expRound
	r := math.FMA(-k, ln2Low, math.FMA(-k, ln2High, -y))
	p := expSeries[0]
	for _, c := range expSeries[1:] {
		p = math.FMA(p, r, c)
	}
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(n)<<52)
}

const (
	expRound = 3 << 51 // adding it to a small number leaves the integer part in the low bits
	ln2High  = 6.93147180369123816490e-01
	ln2Low   = 1.90821492927058770002e-10
)

// expSeries has the Taylor coefficients of the exponential, from the highest power.
var expSeries = [...]float64{1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1}
