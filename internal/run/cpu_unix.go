//go:build unix

package run

import (
	"syscall"
	"time"
)

// processTime returns how much of the processors' time the program has taken, 0 if unknown.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
