package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
		var index [2][]uint32
		var value [2][]float64
		var n, end [2]int
		var ascending [2]bool
		for i := range index {
			index[i], value[i] = make([]uint32, room), make([]float64, room)
		}
		n[0], end[0], ascending[0] = usualEntriesLoop(line, index[0], value[0], first, mask, last)
		n[1], end[1], ascending[1] = usualEntriesAVX2(&line[0], len(line), &index[1][0], &value[1][0], room, first, mask, last)
		bits := func(x []float64) (out []uint64) {
			for _, x := range x {
				out = append(out, math.Float64bits(x))
			}
			return out
		}
		if n[0] != n[1] || end[0] != end[1] || ascending[0] != ascending[1] || !slices.Equal(index[0], index[1]) || !slices.Equal(bits(value[0]), bits(value[1])) {
			t.Fatalf("%q, first %d, mask %d, last %d, room %d:\n%v %v %v %v %v", line, first, mask, last, room, n, end, ascending, index, value)
		}
		read += n[0]
	}
	must.True(t, read > 40_000, "only %d entries were usual", read)
}
