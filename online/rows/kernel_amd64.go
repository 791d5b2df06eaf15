package rows

import "golang.org/x/sys/cpu"

var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ // the AVX2 loops check this
)

// These functions take pointers to the first elements of the slices in kernel.go. No slice may be empty.

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
func adagradGradientsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, c *AdagradConstants, out *float64)

//go:noescape
func adagradDescendAVX2(rows *[]float64, count, at, n int, minusEta, inverse, out *float64)

//go:noescape
func inverseRootsAVX2(s, x *float64, count int, eps float64) (kappa float64)
