//go:build !unix

package run

import "time"

// processTime returns the processor time of the program, or 0 if unknown.
func processTime() time.Duration { return 0 }
