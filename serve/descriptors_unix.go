//go:build unix

package serve

import system "golang.org/x/sys/unix"

// descriptors returns the number of files and connections that this process may open.
func descriptors() uint64 {
	var limit system.Rlimit
	if err := system.Getrlimit(system.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
