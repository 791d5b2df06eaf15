//go:build !amd64

package rows

const hasAVX2 = false

var hasAVX512 = false // needed by the tests

// Programs for this processor never call these functions.

func sumAVX2(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int) {}

func sum1FMA(rows *[]float64, count, at int, x, basis, f, lag, q *float64) {}

func adagradGradients1FMA(rows *[]float64, count, at int, x, basis, ridge *float64, df, shrink, start float64, grad, s *float64) {
}

func adagradStep1FMA(rows *[]float64, count, at int, grad, r *float64, minusEta, inverse float64) {}

func sumAveragesAVX2(rows *[]float64, count, at, n int, basis, c, q *float64, active int) {}

func adagradStepAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, rates *float64, active int, c *AdagradConstants) {
}

func adagradKappaAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, active int, c *AdagradConstants) {
}

func adagradGradientsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, c *AdagradConstants, out *float64) {
}

func adagradDescendAVX2(rows *[]float64, count, at, n int, minusEta, inverse, out *float64) {}

func inverseRootsAVX2(s, x *float64, count int, eps float64) (kappa float64) { return 0 }
