package rows

import "golang.org/x/sys/cpu"

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ // the AVX2 loops look at it
)

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

func sum1(rows [][]float64, at int, x, basis []float64, f, lag, q *float64) {
	if !hasAVX2 || len(rows) == 0 {
		sum1Go(rows, at, x, basis, f, lag, q)
		return
	}
	_, _ = x[:len(rows)], basis[:len(rows)]
	sum1FMA(&rows[0], len(rows), at, &x[0], &basis[0], f, lag, q)
}

func SumAverages(rows [][]float64, at, n int, basis, c, q []float64) {
	if !hasAVX2 || len(q) < 2 || len(rows) == 0 {
		sumAveragesGo(rows, at, n, basis, c, q)
		return
	}
	_, _ = basis[:len(rows)], c[:len(q)]
	sumAveragesAVX2(&rows[0], len(rows), at, n, &basis[0], &c[0], &q[0], len(q))
}

func AdagradStep(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *AdagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		adagradStepGo(rows, at, n, x, basis, ridge, df, shrink, rates, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], rates[:n+len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	adagradStepAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &rates[0], len(df), c)
}

func AdagradKappa(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		adagradKappaGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], kappa[:len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	adagradKappaAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &kappa[0], len(df), c)
}

func AdagradGradients1(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	if !hasAVX2 || len(rows) == 0 {
		adagradGradients1Go(rows, at, x, basis, ridge, df, shrink, start, g, s)
		return
	}
	_, _, _, _, _ = x[:len(rows)], basis[:len(rows)], ridge[:len(rows)], g[:len(rows)], s[:len(rows)]
	adagradGradients1FMA(&rows[0], len(rows), at, &x[0], &basis[0], &ridge[0], df, shrink, start, &g[0], &s[0])
}

func AdagradStep1(rows [][]float64, at int, g, r []float64, minusEta, inverse float64) {
	if !hasAVX2 || len(rows) == 0 {
		adagradStep1Go(rows, at, g, r, minusEta, inverse)
		return
	}
	_, _ = g[:len(rows)], r[:len(rows)]
	adagradStep1FMA(&rows[0], len(rows), at, &g[0], &r[0], minusEta, inverse)
}

func InverseRoots(s, x []float64, eps float64) (kappa float64) {
	if !hasAVX2 || len(s) == 0 {
		return inverseRootsGo(s, x, eps)
	}
	_ = x[:len(s)]
	return inverseRootsAVX2(&s[0], &x[0], len(s), eps)
}

// The rows are slices; every one must reach to the last of its level's values.

//go:noescape
func sumAVX2(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int)

//go:noescape
func sum1FMA(rows *[]float64, count, at int, x, basis, f, lag, q *float64)

//go:noescape
func adagradGradients1FMA(rows *[]float64, count, at int, x, basis, ridge *float64, df, shrink, start float64, grad, s *float64)

//go:noescape
func adagradStep1FMA(rows *[]float64, count, at int, grad, r *float64, minusEta, inverse float64)

//go:noescape
func sumAveragesAVX2(rows *[]float64, count, at, n int, basis, c, q *float64, active int)

//go:noescape
func adagradStepAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, rates *float64, active int, c *AdagradConstants)

//go:noescape
func adagradKappaAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, active int, c *AdagradConstants)

//go:noescape
func inverseRootsAVX2(s, x *float64, count int, eps float64) (kappa float64)
