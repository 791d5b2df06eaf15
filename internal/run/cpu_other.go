//go:build !unix

package run

import "time"

// processTime returns how much of the processors' time the program has taken, 0 if unknown.
func processTime() time.Duration { return 0 }
