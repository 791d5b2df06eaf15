//go:build !race

package longtest

// Race reports whether the race detector is enabled.
const Race = false
