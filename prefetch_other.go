//go:build !amd64

package blankout

func prefetch(slots *uint32, count int, blocks *[]float64, perBits, size, bytes int) {}
