package newton

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// leverageAVX2 computes leverageGo, with n variables and the data of a covariance.
//
//go:noescape
func leverageAVX2(data, z, f *float64, n, first int) (h float64)

// updateAVX2 computes updateGo, with n variables and the data of a covariance.
//
//go:noescape
func updateAVX2(data, f, gain *float64, n int, a float64) (alpha float64)
