//go:build !unix

package stream

import "time"

// cpuTime returns 0, because processor time is not measured on this system.
func cpuTime() time.Duration { return 0 }
