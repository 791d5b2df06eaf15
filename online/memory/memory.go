// Package memory limits the bytes of a learner's rows. It computes the number of bytes from the numbers of rows and
// columns, so the result is the same on every machine and after a restart.
package memory

import "blankout/internal/model"

// Bound is the largest number of bytes of rows; 0 means no limit.
type Bound int64

// Least is the smallest Bound that is not 0, and Default is the default Bound.
const Least, Default Bound = 1 << 20, 4 << 30

// Bytes returns the number of bytes of the rows, with width float64 values each.
func Bytes(rows, width int) int64 { return 8 * int64(rows) * int64(width) }

// Fits reports whether the given number of rows, with width values each, is within the Bound.
func (b Bound) Fits(rows, width int) bool { return b == 0 || Bytes(rows, width) <= int64(b) }

// First returns the index of the first column whose row would exceed the Bound, and the number of rows including it.
// The rows are the rows of the Table and of the columns up to that column, with width values each. i is -1 if all rows
// fit. columns must have no duplicates.
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
