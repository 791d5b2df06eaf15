package silent_test

import (
	"math"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/online/silent"
)

// TestValues checks that the dead value of a number is 0 if 0 is frequent. Otherwise it must be the mean.
func TestValues(t *testing.T) {
	for _, tt := range []struct {
		zeros int // number of zeros in a hundred readings; the other readings are 4
		want  float64
	}{
		{0, 4}, {1, 4}, {2, 0}, {50, 0},
	} {
		v := &silent.Values{}
		for i := range 6400 {
			walk := v.Walk()
			walk.Read(3, 1)
			if x := 4.0; i%100 < tt.zeros {
				walk.Read(7, 0)
			} else {
				walk.Read(7, x)
			}
		}
		walk := v.Walk()
		if got := walk.Raw(7, math.NaN()); math.Abs(got-tt.want) > 0.05 {
			t.Errorf("%d zeros: a dead number reads %v, want %v", tt.zeros, got, tt.want)
		}
		walk = v.Walk()
		if got := walk.Raw(5, -1); got != -1 {
			t.Errorf("a column without readings reads %v", got)
		}
		out := &coder.Coder{}
		v.State(out)
		again := &silent.Values{}
		if in := coder.Read(out.Out); true {
			if again.State(in); !in.Done() {
				t.Fatal("the state cannot be read")
			}
		}
		twice := &coder.Coder{}
		if again.State(twice); string(twice.Out) != string(out.Out) {
			t.Error("read and written again the state is another")
		}
		v.Forget([]uint32{7, 9})
		if v.Len() != 1 {
			t.Errorf("%d columns are left", v.Len())
		}
	}
}

// TestMask checks that a mask removes one of the rates' fractions of the features, in whole units. The mask must be the
// same for the same event.
func TestMask(t *testing.T) {
	n, counts := loss.Silent{D: 0.4}, map[float64]int{}
	units := make([]int32, 5000)
	for i := range units {
		units[i] = int32(i / 5)
	}
	for event := range uint64(400) {
		for _, units := range [][]int32{nil, units} {
			var m, again silent.Mask
			m.Draw(n, 5000, units, event, 0)
			again.Draw(n, 5000, units, event, 0)
			dead := 0
			for i, d := range m.Dead {
				if d {
					dead++
				}
				if d != again.Dead[i] || units != nil && d != m.Dead[i/5*5] {
					t.Fatalf("event %d, feature %d: drawn again or beside its unit it is another", event, i)
				}
			}
			if m.Some != (dead > 0) {
				t.Fatalf("event %d: some are dead: %v, %d are", event, m.Some, dead)
			}
			for _, rate := range n.Rates() {
				if math.Abs(float64(dead)/5000-rate) < 0.07 {
					counts[rate]++
				}
			}
		}
	}
	for _, rate := range n.Rates() {
		if c := counts[rate]; c < 140 || c > 260 {
			t.Errorf("rate %v was drawn %d times of 800", rate, c)
		}
	}
}
