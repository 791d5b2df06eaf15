//go:build !amd64

package rows

// withoutAVX2 does nothing: there are no other loops here.
func withoutAVX2(func()) {}
