//go:build !amd64

package rows

var hasAVX512 = false // for the tests

func Sum(rows [][]float64, at, n int, x, basis, f, lag, q []float64) {
	if n == 1 {
		sum1Go(rows, at, x, basis, &f[0], &lag[0], &q[0])
		return
	}
	sumGo(rows, at, n, x, basis, f, lag, q)
}

func SumAverages(rows [][]float64, at, n int, basis, c, q []float64) {
	sumAveragesGo(rows, at, n, basis, c, q)
}

func AdagradStep(rows [][]float64, at, n int, x, basis, ridge, df, shrink, rates []float64, c *AdagradConstants) {
	adagradStepGo(rows, at, n, x, basis, ridge, df, shrink, rates, c)
}

func AdagradKappa(rows [][]float64, at, n int, x, basis, ridge, df, shrink, kappa []float64, c *AdagradConstants) {
	adagradKappaGo(rows, at, n, x, basis, ridge, df, shrink, kappa, c)
}

func AdagradGradients1(rows [][]float64, at int, x, basis, ridge []float64, df, shrink, start float64, g, s []float64) {
	adagradGradients1Go(rows, at, x, basis, ridge, df, shrink, start, g, s)
}

func AdagradStep1(rows [][]float64, at int, g, r []float64, minusEta, inverse float64) {
	adagradStep1Go(rows, at, g, r, minusEta, inverse)
}

func InverseRoots(s, x []float64, eps float64) (kappa float64) { return inverseRootsGo(s, x, eps) }
