package additive

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// sumAVX2 computes sumGo for n features; n is positive. weights begins with the first lane.
//
//go:noescape
func sumAVX2(weights *float32, index *int, x *float64, n, lanes int, sums *[lanesAtOnce]float64)

// varianceAVX2 computes varianceGo for n features; n is positive.
//
//go:noescape
func varianceAVX2(weights *float32, index *int, basis *float32, n, lanes int, sums *[lanesAtOnce]float32)

// gradientsAVX2 computes gradientsGo for n features; n is positive.
//
//go:noescape
func gradientsAVX2(weights, squares *float32, index *int, x, basis *float32, n, lanes int, by *factors, steps *float32, kappa *[lanesAtOnce]float32)

// descendAVX2 computes descendGo for n features; n is positive.
//
//go:noescape
func descendAVX2(weights *float32, index *int, n, lanes int, rate *[lanesAtOnce]float32, steps *float32)
