package schedule_test

import (
	"slices"
	"testing"

	"blankout/online/schedule"
)

// TestImportance checks that the weight of an event is limited to 32 times the average weight, and that equal large
// weights are not reduced.
func TestImportance(t *testing.T) {
	var i schedule.Importance
	for range 99 {
		i.Observe(1)
	}
	if got := i.Observe(1e6); got != schedule.MostImportance {
		t.Errorf("1e6 among events of 1 counts %v", got)
	}
	if got, want := i.Bound(1e6), schedule.MostImportance*(100.+schedule.MostImportance)/101; got != want {
		t.Errorf("the next one counts %v, want %v", got, want)
	}
	i = schedule.Importance{}
	for range 10 {
		i.Observe(1e6)
	}
	if got := i.Observe(2e6); got != 2e6 {
		t.Errorf("2e6 among events of 1e6 counts %v", got)
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		weight   float64
		doubling bool
		want     []float64
	}{
		{0.5, true, []float64{0.5}},
		{3, true, []float64{1, 1, 1}},
		{2.5, false, []float64{2.5 / 3, 2.5 / 3, 2.5 / 3}},
		{24, true, append(slices.Repeat([]float64{1}, 16), 1, 2, 4, 1)},
		{32, false, slices.Repeat([]float64{1}, 32)},
		{320, false, slices.Repeat([]float64{10}, 32)},
	} {
		var got []float64
		schedule.Parts(c.weight, c.doubling, func(part float64) { got = append(got, part) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %v: %v, want %v", c.weight, c.doubling, got, c.want)
		}
	}
	n := 0
	schedule.Parts(schedule.MostImportance*1e30, true, func(float64) { n++ })
	if n > schedule.MostParts {
		t.Errorf("%d parts", n)
	}
}
