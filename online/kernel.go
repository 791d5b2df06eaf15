package online

import "math"

// The two loops over the outputs of every feature of an event, in which learning
// spends its time. The functions here are the reference; kernel_amd64.s does the
// same in the same order with four outputs at a time, to the bit.

// sumRowsGo adds the features of an event to the sums of the outputs of one
// level, whose values start at index at of a row and are n for each slot:
//
//	f[k] += x w[k],  lag[k] += x u[k],  q[k] += basis w[k]^2
//
// for every row. x and basis are parallel to rows; f, lag and q, of equal length,
// say how many of the outputs are in use.
func sumRowsGo(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	lag, q = lag[:len(f)], q[:len(f)]
	for i, row := range rows {
		w, u := row[at:at+len(f)], row[at+2*n:at+2*n+len(f)]
		z, b := x[i], basis[i]
		for k, w := range w {
			f[k] += z * w
			lag[k] += z * u[k]
			q[k] += b * w * w
		}
	}
}

// sumRows1 is sumRowsGo for one output.
func sumRows1(rows [][]float64, at int, x, basis []float64, f, lag, q *float64) {
	x, basis = x[:len(rows)], basis[:len(rows)]
	sf, sl, sq := *f, *lag, *q
	for i, row := range rows {
		p := row[at : at+3 : at+3]
		w, z := p[0], x[i]
		sf += z * w
		sl += z * p[2]
		sq += basis[i] * w * w
	}
	*f, *lag, *q = sf, sl, sq
}

// adagradRowsGo makes the step of AdaGrad: for every row and output
//
//	g = df[k] x + (shrink[k] basis + ridge) w[k],  m[k] += g^2,
//	delta = minusEta[k] g / (sqrt(start + m[k]) + eps),
//	w[k] += delta,  u[k] -= delta inverse.
//
// x, basis and ridge are parallel to rows.
func adagradRowsGo(rows [][]float64, at, n int, x, basis, ridge, df, shrink, minusEta []float64, c *adagradConstants) {
	shrink, minusEta = shrink[:len(df)], minusEta[:len(df)]
	for i, row := range rows {
		w, m, u := row[at:at+len(df)], row[at+n:at+n+len(df)], row[at+2*n:at+2*n+len(df)]
		x, b, ridge := x[i], basis[i], ridge[i]
		for k, df := range df {
			g := df*x + (shrink[k]*b+ridge)*w[k]
			m[k] += g * g
			delta := minusEta[k] * g / (math.Sqrt(c.start+m[k]) + c.eps)
			w[k] += delta
			u[k] -= delta * c.inverse
		}
	}
}

// adagradRows1 is adagradRowsGo for one output.
func adagradRows1(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, minusEta float64, c *adagradConstants) {
	x, basis, ridge = x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	for i, row := range rows {
		p := row[at : at+3 : at+3]
		g := df*x[i] + (shrink*basis[i]+ridge[i])*p[0]
		p[1] += g * g
		delta := minusEta * g / (math.Sqrt(c.start+p[1]) + c.eps)
		p[0] += delta
		p[2] -= delta * c.inverse
	}
}

type adagradConstants struct{ start, eps, inverse float64 }
