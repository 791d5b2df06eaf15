//go:build !unix

package serve

// descriptors returns 0, which means no limit. This system has no small limit.
func descriptors() uint64 { return 0 }
