package loss

// This file holds the complementary error function. The coefficients and the form of the tail are from FreeBSD's
// s_erf.c, which has this notice:
//
// ====================================================
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunPro, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

import "math"

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
