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

// erfcTails are rational functions of 1/x^2, with coefficients from the constant on. The first pair is for x below
// 1/0.35, the second for larger x.
var erfcTails = [2][2][]float64{
	{{-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01, -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02, -8.12874355063065934246e+01, -9.81432934416914548592e+00}, {1, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02, 6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02, 6.57024977031928170135e+00, -6.04244152148580987438e-02}},
	{{-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01, -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03, -4.83519191608651397019e+02}, {1, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03, 3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02, -2.24409524465858183362e+01}},
}

// Erfc returns the complementary error function of x with the same bits on every processor.
func Erfc(x float64) float64 {
	a := math.Abs(x)
	switch {
	case !(a >= 1.25):
		return math.Erfc(x) // math.Erfc uses no exponential here
	case x < -6:
		return 2
	case a >= 28:
		return 0
	}
	tail := &erfcTails[0]
	if a >= 1/0.35 {
		tail = &erfcTails[1]
	}
	s := 1 / (a * a)
	z := math.Float64frombits(math.Float64bits(a) &^ 0xffffffff) // clear low bits, so that the square of z is exact
	r := Exp(-z*z-0.5625) * Exp((z-a)*(z+a)+horner(tail[0], s)/horner(tail[1], s)) / a
	if x < 0 {
		return 2 - r
	}
	return r
}

// horner returns the value at x of the polynomial with these coefficients, from the constant on.
func horner(coefficients []float64, x float64) (y float64) {
	for i := len(coefficients) - 1; i >= 0; i-- {
		y = coefficients[i] + x*y
	}
	return y
}
