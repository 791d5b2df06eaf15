//go:build unix

package checkpoint

import "syscall"

// noFollow opens a file, but not through a symbolic link.
const noFollow = syscall.O_NOFOLLOW
