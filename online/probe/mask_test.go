package probe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
)

// Every field dies at a point with the chance that the point stands for, whatever the others do,
// and eight masks in a row take each to each eighth of the rates once.
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
		if !m.Draw(x, Number(third+64*uint64(n+8*1000-int(Number(third)%8))), 10, nil) {
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
		if share := float64(n) / masks; math.Abs(share-0.3) > 0.01 {
			t.Errorf("column %d dies in %v of the masks, want 0.3", i, share)
		}
	}
	if share := float64(both) / masks; math.Abs(share-0.09) > 0.02 {
		t.Errorf("two columns die together in %v of the masks, want 0.09", share)
	}
	if len(orders) < 20 { // 10 if they were the same every time
		t.Errorf("10,000 times eight masks have only %d orders", len(orders))
	}
}

// Number counts the events that are Due; a mask serves in a row where many columns may be filled in.
func TestDue(t *testing.T) {
	n := uint64(0)
	for event := uint64(1); event < 2*third; event++ {
		if Due(event) {
			n++
		}
		if Number(event) != n {
			t.Fatalf("event %d is of probe %d, want %d", event, Number(event), n)
		}
	}
	if n != first+(Second-first)/4+(third-Second)/16+third/64-1 {
		t.Errorf("%d events of %d are due", n, 2*third)
	}
	filled := map[int]int{}
	for event := uint64(1); event <= first; event++ {
		for _, columns := range []int{32, 33, 256} {
			if Fills(event, 4, columns) {
				filled[columns]++
			}
		}
	}
	if filled[32] != first || filled[33] != first/3 || filled[256] != first/(2*Points) {
		t.Errorf("filled in %v times", filled)
	}
}

// Events are compared as they came as often as the stream's age and what answers ask for.
func TestAsCame(t *testing.T) {
	for _, of := range []struct {
		from, to uint64
		alone    bool
		want     int
	}{{1, Second, true, Second}, {Second + 1, third, true, (third - Second) / 4}, {third + 1, 2 * third, false, third / 4}, {third + 1, 2 * third, true, third / 16}} {
		n, due := 0, 0
		for event := of.from; event <= of.to; event++ {
			if AsCame(event, of.alone) {
				n++
			}
			if Due(event) && event > first && !AsCame(event, of.alone) {
				due++
			}
		}
		if n != of.want || due > 0 {
			t.Errorf("of events %d to %d, alone %v, %d are compared, want %d; %d have a mask and are not", of.from, of.to, of.alone, n, of.want, due)
		}
	}
}

// Masks that serve for several probes in a row are others than those that serve for one, and of other keys than the
// columns themselves: a mask of one stream tells nothing of another's.
func TestMasksOfLengths(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	x := Features{Schema: schema}
	for i := range 10 {
		schema.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
		x.Columns, x.Field = append(x.Columns, uint32(i+1)), append(x.Field, uint16(i+1))
	}
	same := 0
	for n := uint64(1); n <= first/2; n++ { // each event is due
		var short, long Mask
		short.Draw(x, Number(n), 1, nil)
		long.Draw(x, Number(2*n), masksAlike, nil)
		if Number(2*n)/2 != Number(n) {
			t.Fatalf("event %d is not of the mask of event %d", 2*n, n)
		}
		if slices.Equal(short.Last, long.Last) {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d masks are the same for one probe and for two in a row", same)
	}
}
