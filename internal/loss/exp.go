package loss

// This file implements functions with the same bits on every processor. The functions of package math use special
// instructions on some processors, which change the last bits of the result.

import "math"

// Exps replaces each element of x by its Exp, with the same bits. Four elements take hardly longer than one.
func Exps(x []float64) {
	for len(x) > 0 {
		x = x[exps(x):]
		n := min(len(x), 4) // a vector with an element out of range is computed one by one
		for i := range x[:n] {
			x[i] = Exp(x[i])
		}
		x = x[n:]
	}
}

// Exp returns e^x, within one unit in the last place. Its bits are the same on every processor, because math.FMA is
// exact with and without hardware support. Exp takes the same steps as math.Exp on amd64 with FMA (Shibata 2010). It
// subtracts a multiple of ln 2 from the argument, and divides the difference by 16. Then it evaluates the Taylor series
// and squares the result four times.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x > 7.09782712893384e+02:
		return math.Inf(1)
	case x < -750:
		return 0
	}
	k := math.RoundToEven(x * math.Log2E)
	x = math.FMA(-k, 0.69314718055966295651160180568695068359375, x)
	x = math.FMA(-k, 0.28235290563031577122588448175013436025525412068e-12, x)
	x *= 0.0625
	y := 2.4801587301587301587e-5
	y = math.FMA(x, y, 1.9841269841269841270e-4)
	y = math.FMA(x, y, 1.3888888888888888889e-3)
	y = math.FMA(x, y, 8.3333333333333333333e-3)
	y = math.FMA(x, y, 4.1666666666666666667e-2)
	y = math.FMA(x, y, 1.6666666666666666667e-1)
	y = math.FMA(x, y, 0.5)
	y = math.FMA(x, y, 1)
	x *= y // x is now e^x - 1
	x *= x + 2
	x *= x + 2
	x *= x + 2
	x = math.FMA(x+2, x, 1)
	switch biased := int(k) + 1023; {
	case biased >= 0x7ff:
		return math.Inf(1)
	case biased > 0:
		return x * math.Float64frombits(uint64(biased)<<52)
	case biased < -52:
		return 0
	default: // the result is denormal
		return x * math.Float64frombits(uint64(biased+1022)<<52) * math.Float64frombits(1<<52)
	}
}

// Pow returns x^y for x >= 0, computed with Exp. The error is at most |y ln x| units in the last place.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x == 0 && y > 0:
		return 0
	}
	return Exp(y * math.Log(x))
}

// Sinh returns the hyperbolic sine of x.
func Sinh(x float64) float64 {
	if a := math.Abs(x); a > 20 {
		return math.Copysign(Exp(a)/2, x)
	}
	e := math.Expm1(x)
	return (e + e/(e+1)) / 2
}
