//go:build !amd64

package online

var hasAVX512 = false // for the tests

func sumRows(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	sumRowsGo(rows, at, n, x, basis, f, lag, q)
}

func sumRows1(rows [][]float64, at int, x, basis []float64, f, lag, q *float64) {
	sumRows1Go(rows, at, x, basis, f, lag, q)
}

func sumAverages(rows [][]float64, at, n int, basis, c, q []float64) {
	sumAveragesGo(rows, at, n, basis, c, q)
}

func adagradRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *adagradConstants) {
	adagradRowsGo(rows, at, n, x, basis, ridge, df, shrink, rates, c)
}

func kappaRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *adagradConstants) {
	kappaRowsGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
}

func gradients1(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	gradients1Go(rows, at, x, basis, ridge, df, shrink, start, g, s)
}

func adagradRows1(rows [][]float64, at int, g, r []float64, minusEta, inverse float64) {
	adagradRows1Go(rows, at, g, r, minusEta, inverse)
}

func inverseRoots(s, x []float64, eps float64) (kappa float64) { return inverseRootsGo(s, x, eps) }
