//go:build !unix

package stream

import "time"

// cpuTime returns 0: it is not measured here.
func cpuTime() time.Duration { return 0 }
