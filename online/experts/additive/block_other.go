//go:build !amd64

package additive

const hasAVX2 = false

// The assembly functions are never called on this processor.

func sumAVX2(weights *float32, index *int, x *float64, n, lanes int, sums *[lanesAtOnce]float64) {}

func varianceAVX2(weights *float32, index *int, basis *float32, n, lanes int, sums *[lanesAtOnce]float32) {
}

func gradientsAVX2(weights, squares *float32, index *int, x, basis *float32, n, lanes int, by *factors, steps *float32, kappa *[lanesAtOnce]float32) {
}

func descendAVX2(weights *float32, index *int, n, lanes int, rate *[lanesAtOnce]float32, steps *float32) {
}
