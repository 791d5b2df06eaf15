//go:build unix

package checkpoint

import "syscall"

// noFollow makes opening a file fail if its path is a symbolic link.
const noFollow = syscall.O_NOFOLLOW
