// Package memory bounds the bytes of a learner's rows by a formula over what is counted: it says the same on every
// machine and after a restart, whatever the program has allocated.
package memory

import "blankout/internal/model"

// Bound is the most bytes that rows may take; 0 bounds nothing.
type Bound int64

// Least is the smallest Bound but 0, and Default what it is where nobody sets it.
const Least, Default Bound = 1 << 20, 4 << 30

// Bytes returns what so many rows of so many numbers take.
func Bytes(rows, width int) int64 { return 8 * int64(rows) * int64(width) }

// Fits says whether so many rows of so many numbers may be.
func (b Bound) Fits(rows, width int) bool { return b == 0 || Bytes(rows, width) <= int64(b) }

// First returns the index of the first of the columns, each of which is there once, for whose row there is no
// room beside the rows of the Table and of the columns before it, were all of this width, and how many rows there
// would be with it: -1 where there is room for all. Columns are looked up only where they might not fit.
func (b Bound) First(t *model.Table, columns []uint32, width int) (i, n int) {
	n = t.Len()
	if b.Fits(n+len(columns), width) {
		return -1, n
	}
	for i, column := range columns {
		if t.Row(column) != nil {
			continue
		}
		if n++; !b.Fits(n, width) {
			return i, n
		}
	}
	return -1, n
}
