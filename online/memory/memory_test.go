package memory_test

import (
	"testing"

	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/memory"
)

// TestFirst checks that a column that is already in the table needs no additional memory, and that First returns the
// first column that does not fit.
func TestFirst(t *testing.T) {
	table := model.NewTable(10)
	for column := range uint32(5) {
		table.Touch(10 * column)
	}
	for _, c := range []struct {
		rows    int // number of rows that fit
		columns []uint32
		width   int
		i, n    int
	}{
		{8, []uint32{0, 1, 2, 3}, 10, -1, 8},
		{7, []uint32{0, 1, 2, 3}, 10, 3, 8},
		{6, []uint32{0, 1, 10, 20, 21}, 10, 4, 7},
		{5, []uint32{0, 10, 20, 30, 40}, 10, -1, 5},
		{5, []uint32{0, 10, 20, 30, 41}, 10, 4, 6},
		{4, []uint32{0, 10, 20}, 10, -1, 5}, // already above the bound
		{8, []uint32{1, 2, 3}, 11, 2, 8},
	} {
		i, n := memory.Bound(80*c.rows).First(table, c.columns, c.width)
		must.True(t, i == c.i && (i < 0 || n == c.n), "room for %d rows, columns %v of %d numbers: entry %d, row %d, want %d, %d", c.rows, c.columns, c.width, i, n, c.i, c.n)
	}
	i, _ := memory.Bound(0).First(table, []uint32{1}, 1<<15)
	must.True(t, i < 0, "no bound refuses")
	must.True(t, memory.Bound(80).Fits(1, 10) && !memory.Bound(79).Fits(1, 10) && !memory.Bound(1<<40).Fits(1<<31, 1<<14), "bytes are not rows times width times 8")
}
