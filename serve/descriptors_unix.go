//go:build unix

package serve

import system "golang.org/x/sys/unix"

// descriptors returns how many files and connections this process may have open.
func descriptors() uint64 {
	var limit system.Rlimit
	if err := system.Getrlimit(system.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
