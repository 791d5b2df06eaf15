//go:build !amd64

package batch

import "unsafe"

var hasAVX2 = false // a variable so that the tests compile

func gatherAVX2(*uint32, int, unsafe.Pointer, int, *float64, *float64, float64, float64) (s, t, u float64) {
	panic("batch: no AVX2")
}

func addMixedAVX2(*uint32, int, unsafe.Pointer, int, *float64, *float64, float64, float64) {
	panic("batch: no AVX2")
}

func addPairAVX2(*uint32, int, unsafe.Pointer, int, *float64, float64, float64, float64, float64) {
	panic("batch: no AVX2")
}
