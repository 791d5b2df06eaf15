//go:build unix

package checkpoint

import "syscall"

// noFollow opens a file and no symbolic link to one.
const noFollow = syscall.O_NOFOLLOW
