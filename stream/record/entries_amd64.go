package record

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// usualEntriesAVX2 is usualEntriesLoop for at least usualBytes of data, and room for at least one entry.
//
//go:noescape
func usualEntriesAVX2(data *byte, size int, index *uint32, value *float64, room int, first, mask uint64, last int64) (n, end int, ascending bool)
