//go:build !amd64

package newton

var hasAVX2 bool

// The assembly functions are never called on this processor.

func leverageAVX2(data, z, f *float64, n, first int) (h float64) { return 0 }

func updateAVX2(data, f, gain *float64, n int, a float64) (alpha float64) { return 0 }
