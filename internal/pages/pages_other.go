//go:build !linux

package pages

// Large does nothing on this system.
func Large([]byte) {}
