//go:build !race

package longtest

// Race says that the race detector is at work.
const Race = false
