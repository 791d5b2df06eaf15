//go:build !amd64

package rows

// withoutAVX2 does nothing, because there are no assembly loops for this processor.
func withoutAVX2(func()) {}
