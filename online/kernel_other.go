//go:build !amd64

package online

var hasAVX512 = false // for the tests

func sumRows(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	sumRowsGo(rows, at, n, x, basis, f, lag, q)
}

func sumAverages(rows [][]float64, at, n int, basis []float64, c float64, q []float64) {
	sumAveragesGo(rows, at, n, basis, c, q)
}

func adagradRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, minusEta []float64, c *adagradConstants) {
	adagradRowsGo(rows, at, n, x, basis, ridge, df, shrink, minusEta, c)
}

func temperRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *adagradConstants) {
	temperRowsGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
}

func inverseRoots(s []float64, eps float64) { inverseRootsGo(s, eps) }
