//go:build !amd64

package record

const hasAVX2 = false

// usualEntriesAVX2 is never called on this processor.
func usualEntriesAVX2(data *byte, size int, index *uint32, value *float64, room int, first, mask uint64, last int64) (n, end int, ascending bool) {
	return 0, 0, true
}
