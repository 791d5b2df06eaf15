//go:build !unix

package run

import "time"

// processTime returns the processor time of the program, 0 if not known.
func processTime() time.Duration { return 0 }
