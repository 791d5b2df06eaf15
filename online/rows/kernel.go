package rows

// This file has the loops over the outputs of every feature of an event, where learning spends most of its time. A slow
// reference in Go follows each loop and defines the result bit by bit. kernel_amd64.s computes the same in the same
// order, with four or eight outputs at a time. Products are added to sums with a single rounding, as math.FMA does on
// every machine.
//
// All loops take the rows of an event, or consecutive ones of them. The values by noise level and output begin at index
// at of a row. They are n weights w[k], then n values of the preconditioner m[k], then n lags u[k]. The length of f, q
// or df is the number of outputs in use. Rows must be long enough; this is not checked. x, basis and ridge are parallel
// to rows. Slices that are added to must not overlap.

import (
	"math"
	"slices"
)

// Sum adds the features of an event to the sums of the outputs, for every row:
//
//	f[k] += x w[k],  lag[k] += x u[k],  q[k] += basis w[k]^2.
//
// f, lag and q must have equal length. If n is 0, for rows that have only weights, lag becomes equal to f.
func Sum(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	if n == 1 {
		sum1(rows, at, x, basis, &f[0], &lag[0], &q[0])
		return
	}
	if !hasAVX2 || len(f) < 2 || len(rows) == 0 {
		sumGo(rows, at, n, x, basis, f, lag, q)
		return
	}
	_, _, _, _ = lag[:len(f)], q[:len(f)], x[:len(rows)], basis[:len(rows)]
	sumAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &f[0], &lag[0], &q[0], len(f))
}

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

// sum1 is Sum for one output.
func sum1(rows [][]float64, at int, x, basis []float64, f, lag, q *float64) {
	if !hasAVX2 || len(rows) == 0 {
		sum1Go(rows, at, x, basis, f, lag, q)
		return
	}
	_, _ = x[:len(rows)], basis[:len(rows)]
	sum1FMA(&rows[0], len(rows), at, &x[0], &basis[0], f, lag, q)
}

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

// SumAverages adds basis a[k]^2 to q[k] for every row, where a[k] = w[k] + c[k] u[k] is the average.
func SumAverages(rows [][]float64, at, n int, basis, c, q []float64) {
	if !hasAVX2 || len(q) < 2 || len(rows) == 0 {
		sumAveragesGo(rows, at, n, basis, c, q)
		return
	}
	_, _ = basis[:len(rows)], c[:len(q)]
	sumAveragesAVX2(&rows[0], len(rows), at, n, &basis[0], &c[0], &q[0], len(q))
}

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

// AdagradStep makes a step of AdaGrad: for every row and output
//
//	g = df[k] x + (shrink[k] basis + ridge) w[k],  m[k] += g^2,
//	delta = minusEta[k] g / (sqrt(start + m[k]) + eps),
//	w[k] += delta,  u[k] -= delta inverse[k].
//
// rates has n values of minusEta, followed by n values of inverse.
func AdagradStep(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *AdagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		adagradStepGo(rows, at, n, x, basis, ridge, df, shrink, rates, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], rates[:n+len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	adagradStepAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &rates[0], len(df), c)
}

func adagradStepGo(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *AdagradConstants) {
	shrink, minusEta, inverse := shrink[:len(df)], rates[:len(df)], rates[n:n+len(df)]
	for i, row := range rows {
		w, m, u := row[at:at+len(df)], row[at+n:at+n+len(df)], row[at+2*n:at+2*n+len(df)]
		x, b, ridge := x[i], basis[i], ridge[i]
		for k, df := range df {
			g := gradient(df, x, shrink[k], b, ridge, w[k])
			m[k] = math.FMA(g, g, m[k])
			delta := minusEta[k] * g * InverseRoot(c.Start+m[k], c.Eps)
			w[k] += delta
			u[k] = math.FMA(-delta, inverse[k], u[k])
		}
	}
}

// AdagradKappa adds to kappa[k], for every row, x^2/(sqrt(start + m[k] + g^2) + eps), with g as in AdagradStep.
func AdagradKappa(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		adagradKappaGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], kappa[:len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	adagradKappaAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &kappa[0], len(df), c)
}

func adagradKappaGo(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	shrink, kappa = shrink[:len(df)], kappa[:len(df)]
	for i, row := range rows {
		w, m := row[at:at+len(df)], row[at+n:at+n+len(df)]
		x, b, ridge := x[i], basis[i], ridge[i]
		for k, df := range df {
			g := gradient(df, x, shrink[k], b, ridge, w[k])
			kappa[k] = math.FMA(x*x, InverseRoot(c.Start+math.FMA(g, g, m[k]), c.Eps), kappa[k])
		}
	}
}

// Fused makes steps of AdaGrad of at most four outputs whose rates depend on the rows. Gradients computes the gradients,
// their inverse square roots, and kappa. Descend then makes the step. They have the same result as AdagradKappa and
// AdagradStep, bit by bit, but take half as long.
type Fused struct {
	out     []float64 // by row: four gradients, then four inverse square roots
	factors [3][fused]float64
}

// fused is the largest number of outputs of a Fused step.
const fused = 4

// Fuses reports whether a Fused step is possible: of the n outputs of a row, active are in use, and width is the length
// of a row.
func Fuses(active, at, n, width int) bool {
	return hasAVX2 && active == n && n <= fused && width >= at+2*n+fused
}

// Begin prepares a step of count rows.
func (u *Fused) Begin(count int) {
	n := 2 * fused * count
	u.out = slices.Grow(u.out[:0], n)[:n]
}

// read copies n numbers to a list of factors, and returns the first one's address. Other numbers become 0.
func (u *Fused) read(i int, x []float64, n int) *float64 {
	to, x := &u.factors[i], x[:n]
	for k := range to { // four numbers, for which calling copy is too expensive
		if to[k] = 0; k < len(x) {
			to[k] = x[k]
		}
	}
	return &to[0]
}

// Gradients computes the gradients of rows, the first of which is row from of the step.
func (u *Fused) Gradients(from int, rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	if len(rows) > 0 {
		_, _, _, out := x[:len(rows)], basis[:len(rows)], ridge[:len(rows)], u.out[2*fused*from:][:2*fused*len(rows)]
		adagradGradientsAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], u.read(0, df, n), u.read(1, shrink, n), u.read(2, kappa, n), c, &out[0])
		for k := range kappa {
			kappa[k] = u.factors[2][k&3]
		}
	}
}

// Descend makes the step of all rows. rates has n values of minusEta, followed by n values of inverse.
func (u *Fused) Descend(rows [][]float64, at, n int, rates []float64) {
	if len(rows) > 0 {
		_ = u.out[:2*fused*len(rows)]
		adagradDescendAVX2(&rows[0], len(rows), at, n, u.read(0, rates, n), u.read(1, rates[n:], n), &u.out[0])
	}
}

// AdagradGradients1 starts the step of AdaGrad for one output, for which vectors over outputs are not possible. For
// each row it computes g as in AdagradStep, and s = start + m + g^2. InverseRoots then computes the inverse square
// roots of all s, and AdagradStep1 finishes the step.
func AdagradGradients1(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	if !hasAVX2 || len(rows) == 0 {
		adagradGradients1Go(rows, at, x, basis, ridge, df, shrink, start, g, s)
		return
	}
	_, _, _, _, _ = x[:len(rows)], basis[:len(rows)], ridge[:len(rows)], g[:len(rows)], s[:len(rows)]
	adagradGradients1FMA(&rows[0], len(rows), at, &x[0], &basis[0], &ridge[0], df, shrink, start, &g[0], &s[0])
}

func adagradGradients1Go(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	x, basis, ridge, g, s = x[:len(rows)], basis[:len(rows)], ridge[:len(rows)], g[:len(rows)], s[:len(rows)]
	for i, row := range rows {
		p := row[at : at+2 : at+2]
		d := gradient(df, x[i], shrink, basis[i], ridge[i], p[0])
		g[i], s[i] = d, start+math.FMA(d, d, p[1])
	}
}

// InverseRoots replaces every s by 1/(sqrt(s) + eps), see InverseRoot. It returns the sum over rows of x^2/(sqrt(s) +
// eps), which AdagradKappa adds to kappa.
func InverseRoots(s, x []float64, eps float64) (kappa float64) {
	if !hasAVX2 || len(s) == 0 {
		return inverseRootsGo(s, x, eps)
	}
	_ = x[:len(s)]
	return inverseRootsAVX2(&s[0], &x[0], len(s), eps)
}

func inverseRootsGo(s, x []float64, eps float64) (kappa float64) {
	for i := range s {
		s[i] = InverseRoot(s[i], eps)
		kappa = math.FMA(x[i]*x[i], s[i], kappa)
	}
	return kappa
}

// AdagradStep1 makes the step, given the gradients g and their inverse square roots r.
func AdagradStep1(rows [][]float64, at int, g, r []float64, minusEta, inverse float64) {
	if !hasAVX2 || len(rows) == 0 {
		adagradStep1Go(rows, at, g, r, minusEta, inverse)
		return
	}
	_, _ = g[:len(rows)], r[:len(rows)]
	adagradStep1FMA(&rows[0], len(rows), at, &g[0], &r[0], minusEta, inverse)
}

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

// AdagradConstants has the constants of AdaGrad that all outputs share: the initial value of the accumulators (Start),
// and a term that prevents division by 0 (Eps).
type AdagradConstants struct{ Start, Eps float64 }

func gradient(df, x, shrink, basis, ridge, w float64) float64 {
	return math.FMA(math.FMA(shrink, basis, ridge), w, df*x)
}

// InverseRoot returns 1/(sqrt(s) + eps) for a small eps, with a relative error of at most 1e-10 if sqrt(s) is above 1e6
// eps. The result is never negative, and it is 0 if s is infinite. The processor's square root and division would take
// twice as long as the rest of the step. InverseRoot instead uses Newton's iteration for s^-1/2. The first guess halves
// the exponent (Lomont 2003). Its relative error is 3.4 %, and each of three iterations squares the error. a = s y/2 is
// updated together with y (Goldschmidt), which shortens the chain of dependent operations.
func InverseRoot(s, eps float64) float64 {
	y := math.Float64frombits(rootGuess - math.Float64bits(s)>>1)
	a := 0.5 * s * y
	r := math.FMA(-a, y, 0.5)
	y, a = math.FMA(y, r, y), math.FMA(a, r, a)
	r = math.FMA(-a, y, 0.5)
	y, a = math.FMA(y, r, y), math.FMA(a, r, a)
	r = math.FMA(-a, y, 0.5)
	r = math.FMA(-eps, y, r) // 1/(1/y + eps) is y - eps y^2 up to second order in eps
	if y = math.FMA(y, r, y); y > 0 {
		return y
	}
	return 0
}

const rootGuess = 0x5fe6eb50c7b537a9
