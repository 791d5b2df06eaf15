//go:build !amd64

package online

func sumRows(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	sumRowsGo(rows, at, n, x, basis, f, lag, q)
}

func adagradRows(rows [][]float64, at, n int, x, basis, ridge, df, shrink, minusEta []float64, c *adagradConstants) {
	adagradRowsGo(rows, at, n, x, basis, ridge, df, shrink, minusEta, c)
}
