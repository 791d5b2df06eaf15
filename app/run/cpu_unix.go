//go:build unix

package run

import (
	"syscall"
	"time"
)

// processTime returns the processor time of the program, or 0 if unknown.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
