//go:build !linux

package pages

// Large does nothing here.
func Large([]byte) {}
