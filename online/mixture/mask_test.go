package mixture

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
)

// TestMask checks that every field is missing at a point with the probability of that point, independently of other
// fields. In eight consecutive masks each field must get a rate in each eighth of [0, 1] once.
func TestMask(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	x := Features{Schema: schema}
	for i := range 10 {
		schema.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
		x.Columns, x.Field = append(x.Columns, uint32(i+1)), append(x.Field, uint16(i+1))
	}
	var m Mask
	const point, masks = 3, 8000
	var died [10]int
	both, orders := 0, map[string]bool{}
	rows := make([][]int8, 10)
	for n := range masks {
		if !m.Draw(x, uint64(8000+n), nil) {
			t.Fatal("nothing is known to be missing")
		}
		for i, last := range m.Last {
			if last < point {
				died[i]++
			}
			rows[i] = append(rows[i], last)
		}
		if m.Last[2] < point && m.Last[7] < point {
			both++
		}
		if n%8 != 7 {
			continue
		}
		for i, lasts := range rows {
			orders[fmt.Sprint(lasts)] = true
			slices.Sort(lasts)
			for j, last := range lasts {
				if int(last) < j*Points/8 || int(last) > (j+1)*Points/8 {
					t.Fatalf("masks up to %d: column %d survives up to the points %v", n, i, lasts)
				}
			}
			rows[i] = rows[i][:0]
		}
	}
	dead := 0
	for _, last := range m.Last {
		if last < point {
			dead++
		}
	}
	if m.Dead[point] != float64(dead) {
		t.Errorf("%v fields are dead, want %d", m.Dead[point], dead)
	}
	for i, n := range died {
		if weight := float64(n) / masks; math.Abs(weight-0.3) > 0.01 {
			t.Errorf("column %d dies in %v of the masks, want 0.3", i, weight)
		}
	}
	if weight := float64(both) / masks; math.Abs(weight-0.09) > 0.02 {
		t.Errorf("two columns die together in %v of the masks, want 0.09", weight)
	}
	if len(orders) < 20 { // 10 if the orders repeated
		t.Errorf("10,000 times eight masks have only %d orders", len(orders))
	}
}
