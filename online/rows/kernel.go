package rows

// This file holds the loops over outputs in Go, the reference of the assembly.

import "math"

// The loops over the outputs of every feature of an event, in which learning
// spends its time. The functions here are the reference; kernel_amd64.s does the
// same in the same order with four outputs at a time, to the bit. Where a product
// is added the sum is rounded once, as math.FMA says on every machine.

// sumGo adds the features of an event to the sums of the outputs of one
// level, whose values start at index at of a row and are n for each slot:
//
//	f[k] += x w[k],  lag[k] += x u[k],  q[k] += basis w[k]^2
//
// for every row. x and basis are parallel to rows; f, lag and q, of equal length,
// say how many of the outputs are in use.
func sumGo(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	lag, q = lag[:len(f)], q[:len(f)]
	for i, row := range rows {
		w, u := row[at:at+len(f)], row[at+2*n:at+2*n+len(f)]
		z, b := x[i], basis[i]
		for k, w := range w {
			f[k] = math.FMA(z, w, f[k])
			lag[k] = math.FMA(z, u[k], lag[k])
			q[k] = math.FMA(b*w, w, q[k])
		}
	}
}

// sum1Go is sumGo for one output.
func sum1Go(rows [][]float64, at int, x, basis []float64, f, lag, q *float64) {
	x, basis = x[:len(rows)], basis[:len(rows)]
	sf, sl, sq := *f, *lag, *q
	for i, row := range rows {
		p := row[at : at+3 : at+3]
		w, z := p[0], x[i]
		sf = math.FMA(z, w, sf)
		sl = math.FMA(z, p[2], sl)
		sq = math.FMA(basis[i]*w, w, sq)
	}
	*f, *lag, *q = sf, sl, sq
}

// sumAveragesGo adds basis a[k]^2 to q[k] for every row, with a[k] = w[k] + c[k] u[k].
func sumAveragesGo(rows [][]float64, at, n int, basis, c, q []float64) {
	c = c[:len(q)]
	for i, row := range rows {
		w, u := row[at:at+len(q)], row[at+2*n:at+2*n+len(q)]
		b := basis[i]
		for k, w := range w {
			a := math.FMA(c[k], u[k], w)
			q[k] = math.FMA(b*a, a, q[k])
		}
	}
}

// adagradStepGo makes the step of AdaGrad: for every row and output
//
//	g = df[k] x + (shrink[k] basis + ridge) w[k],  m[k] += g^2,
//	delta = minusEta[k] g / (sqrt(start + m[k]) + eps),
//	w[k] += delta,  u[k] -= delta inverse[k].
//
// x, basis and ridge are parallel to rows. rates holds the n of minusEta and behind
// them the n of inverse.
func adagradStepGo(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *AdagradConstants) {
	shrink, minusEta, inverse := shrink[:len(df)], rates[:len(df)], rates[n:n+len(df)]
	for i, row := range rows {
		w, m, u := row[at:at+len(df)], row[at+n:at+n+len(df)], row[at+2*n:at+2*n+len(df)]
		x, b, ridge := x[i], basis[i], ridge[i]
		for k, df := range df {
			g := gradient(df, x, shrink[k], b, ridge, w[k])
			m[k] = math.FMA(g, g, m[k])
			delta := minusEta[k] * g * inverseRoot(c.Start+m[k], c.Eps)
			w[k] += delta
			u[k] = math.FMA(-delta, inverse[k], u[k])
		}
	}
}

// adagradKappaGo adds to kappa[k], for every row,
//
//	x^2 / (sqrt(start + m[k] + g^2) + eps),
//
// which has the denominator of the step that AdagradStep would make.
func adagradKappaGo(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	shrink, kappa = shrink[:len(df)], kappa[:len(df)]
	for i, row := range rows {
		w, m := row[at:at+len(df)], row[at+n:at+n+len(df)]
		x, b, ridge := x[i], basis[i], ridge[i]
		for k, df := range df {
			g := gradient(df, x, shrink[k], b, ridge, w[k])
			kappa[k] = math.FMA(x*x, inverseRoot(c.Start+math.FMA(g, g, m[k]), c.Eps), kappa[k])
		}
	}
}

func gradient(df, x, shrink, basis, ridge, w float64) float64 {
	return math.FMA(math.FMA(shrink, basis, ridge), w, df*x)
}

// inverseRoot returns 1/(sqrt(s) + eps) for a small eps, to a relative error of
// 1e-10 where sqrt(s) is above 1e6 eps; it is never negative, and 0 where s is
// infinite. The processor's root and quotient would take as long as the rest of
// the step twice over. This is Newton's iteration for s^-1/2 from a guess that
// halves the exponent (Lomont 2003), whose error of 3.4 % it squares three times;
// a = s y/2 is not computed anew but follows y (Goldschmidt), so that one operation
// less waits for another.
func inverseRoot(s, eps float64) float64 {
	y := math.Float64frombits(rootGuess - math.Float64bits(s)>>1)
	a := 0.5 * s * y
	r := math.FMA(-a, y, 0.5)
	y, a = math.FMA(y, r, y), math.FMA(a, r, a)
	r = math.FMA(-a, y, 0.5)
	y, a = math.FMA(y, r, y), math.FMA(a, r, a)
	r = math.FMA(-a, y, 0.5)
	r = math.FMA(-eps, y, r) // 1/(1/y + eps) is y - eps y^2, but for its square
	if y = math.FMA(y, r, y); y > 0 {
		return y
	}
	return 0
}

const rootGuess = 0x5fe6eb50c7b537a9

// inverseRootsGo replaces every s by its inverseRoot, and returns what AdagradKappa
// would add to kappa: the sum of x^2 times those.
func inverseRootsGo(s, x []float64, eps float64) (kappa float64) {
	for i := range s {
		s[i] = inverseRoot(s[i], eps)
		kappa = math.FMA(x[i]*x[i], s[i], kappa)
	}
	return kappa
}

// A single output leaves no room for four at a time within a row: its step
// collects the denominators, has all of their roots drawn at once, and goes over
// the rows again. adagradGradients1Go sets g, and to start + m + g^2 s.
func adagradGradients1Go(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	x, basis, ridge, g, s = x[:len(rows)], basis[:len(rows)], ridge[:len(rows)], g[:len(rows)], s[:len(rows)]
	for i, row := range rows {
		p := row[at : at+2 : at+2]
		d := gradient(df, x[i], shrink, basis[i], ridge[i], p[0])
		g[i], s[i] = d, start+math.FMA(d, d, p[1])
	}
}

// adagradStep1Go makes the step of gradients g with their inverse roots r.
func adagradStep1Go(rows [][]float64, at int, g, r []float64, minusEta, inverse float64) {
	g, r = g[:len(rows)], r[:len(rows)]
	for i, row := range rows {
		p := row[at : at+3 : at+3]
		p[1] = math.FMA(g[i], g[i], p[1])
		delta := minusEta * g[i] * r[i]
		p[0] += delta
		p[2] = math.FMA(-delta, inverse, p[2])
	}
}

type AdagradConstants struct{ Start, Eps float64 }
