package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/must"
)

// TestUsualEntries compares the assembly loop with the other: for usual lines, for lines with one wrong byte, and for
// little room.
func TestUsualEntries(t *testing.T) {
	if !hasAVX2 {
		t.Skip("this processor has no AVX2")
	}
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20_000 {
		var line []byte
		column := 0
		for range 1 + r.IntN(40) {
			if column += 1 + r.IntN(1<<r.IntN(24)); r.IntN(30) == 0 {
				column = r.IntN(100)
			}
			x := fmt.Sprintf("%.*f", r.IntN(10), r.NormFloat64()*math.Pow(10, float64(r.IntN(9)-1)))
			switch r.IntN(40) {
			case 0:
				x = []string{"-0", "0", "1e5", "", "-", ".5", "5.", "-.5", "12345678", "1.123456789", "1234567.12345678", "-0.0"}[r.IntN(12)]
			case 1:
				x += "0"
			}
			line = fmt.Appendf(line, " %d:%s", column, x)
		}
		line = append(line, spaces[:r.IntN(len(spaces))]...)
		if r.IntN(3) == 0 {
			line[r.IntN(len(line))] = "0123456789:. -+e\t#\n/;"[r.IntN(21)]
		}
		if len(line) < usualBytes {
			continue
		}
		first, mask, last, room := uint64(r.IntN(2)), uint64(1)<<(8+r.IntN(24))-1, int64(r.IntN(50)-1), 1+r.IntN(60)
		said := must.List(2, func(i int) string {
			index, value := make([]uint32, room), make([]float64, room)
			n, end, ascending := usualEntriesLoop(line, index, value, first, mask, last)
			if read += n; i > 0 {
				clear(index)
				clear(value)
				n, end, ascending = usualEntriesAVX2(&line[0], len(line), &index[0], &value[0], room, first, mask, last)
			}
			return fmt.Sprint(n, end, ascending, index, must.Map(value, math.Float64bits))
		})
		must.Equal(t, said[1], said[0], fmt.Sprintf("%q, first %d, mask %d, last %d, room %d", line, first, mask, last, room))
	}
	must.True(t, read > 80_000, "only %d entries were usual", read)
}
