package online

import "golang.org/x/sys/cpu"

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ // the AVX2 loops look at it
)

func sumRows(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	if !hasAVX2 || len(f) < 2 || len(rows) == 0 {
		sumRowsGo(rows, at, n, x, basis, f, lag, q)
		return
	}
	_, _, _, _ = lag[:len(f)], q[:len(f)], x[:len(rows)], basis[:len(rows)]
	sumRowsAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &f[0], &lag[0], &q[0], len(f))
}

func sumAverages(rows [][]float64, at, n int, basis []float64, c float64, q []float64) {
	if !hasAVX2 || len(rows) == 0 {
		sumAveragesGo(rows, at, n, basis, c, q)
		return
	}
	_ = basis[:len(rows)]
	sumAveragesAVX2(&rows[0], len(rows), at, n, &basis[0], c, &q[0], len(q))
}

func adagradRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, minusEta []float64, c *adagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		adagradRowsGo(rows, at, n, x, basis, ridge, df, shrink, minusEta, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], minusEta[:len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	adagradRowsAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &minusEta[0], len(df), c)
}

func temperRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *adagradConstants) {
	if !hasAVX2 || len(df) < 2 || len(rows) == 0 {
		temperRowsGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
		return
	}
	_, _, _, _, _ = shrink[:len(df)], kappa[:len(df)], x[:len(rows)], basis[:len(rows)], ridge[:len(rows)]
	temperRowsAVX2(&rows[0], len(rows), at, n, &x[0], &basis[0], &ridge[0], &df[0], &shrink[0], &kappa[0], len(df), c)
}

func inverseRoots(s []float64, eps float64) {
	if !hasAVX2 || len(s) == 0 {
		inverseRootsGo(s, eps)
		return
	}
	inverseRootsAVX2(&s[0], len(s), eps)
}

// The rows are slices; every one must reach to the last of its level's values.

//go:noescape
func sumRowsAVX2(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int)

//go:noescape
func sumAveragesAVX2(rows *[]float64, count, at, n int, basis *float64, c float64, q *float64, active int)

//go:noescape
func adagradRowsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, minusEta *float64, active int, c *adagradConstants)

//go:noescape
func temperRowsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, active int, c *adagradConstants)

//go:noescape
func inverseRootsAVX2(s *float64, count int, eps float64)
