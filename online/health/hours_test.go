package health

import "testing"

// TestHours checks that after an alarm at night the same mean is expected at the same and at neighboring hours of other
// days. It must not be expected if the mean is farther from usual or on the other side of it. A long alarm must not
// change the expected means.
func TestHours(t *testing.T) {
	const start = 1_767_225_600_000 // midnight
	for _, c := range []struct {
		name     string
		length   int64
		from, to int64 // of the block, relative to start
		mean     float64
		want     bool
	}{
		{"the next night", 6 * hour, day, day + hour/2, 0.5, true},
		{"an hour earlier", 6 * hour, day - hour, day - hour/2, 0.5, true},
		{"too early", 6 * hour, day - 3*hour, day - 2*hour, 0.5, false},
		{"its end", 6 * hour, day + 6*hour, day + 7*hour, 0.5, true},
		{"too late", 6 * hour, day + 8*hour, day + 9*hour, 0.5, false},
		{"at noon", 6 * hour, day + 12*hour, day + 13*hour, 0.5, false},
		{"the same night", 6 * hour, 7 * hour, 8 * hour, 0.5, false},
		{"ten days later", 6 * hour, 10 * day, 10*day + hour, 0.5, true},
		{"forgotten", 6 * hour, 16 * day, 16*day + hour, 0.5, false},
		{"a little more", 6 * hour, day, day + hour, 0.55, true},
		{"much more", 6 * hour, day, day + hour, 0.9, false},
		{"less", 6 * hour, day, day + hour, 0.2, true},
		{"a block of half a day", 6 * hour, day, day + 12*hour, 0.5, false},
		{"of twenty hours", 20 * hour, day, day + hour, 0.5, false},
	} {
		var x hours
		x.learn(Moment{1, start}, Moment{2, start + c.length}, 0.5, true)
		block := span{Moment{3, start + c.from}, Moment{4, start + c.to}}
		if got := x.expects(block, c.mean, true, 0.05); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if x.expects(block, -0.5, false, 0.05) {
			t.Errorf("%s: a mean that has fallen", c.name)
		}
		block.start.Time, block.end.Time = 0, 0
		if x.expects(block, c.mean, true, 0.05) {
			t.Errorf("%s: without a time", c.name)
		}
		if (*hours)(nil).expects(block, c.mean, true, 0.05) {
			t.Errorf("%s: before any alarm", c.name)
		}
	}
	// Means that recur must be remembered.
	var x hours
	x.learn(Moment{1, start}, Moment{2, start + 6*hour}, -0.5, false)
	for d := range int64(40) {
		if at := start + (d+1)*day; !x.expects(span{Moment{3, at}, Moment{4, at + hour}}, -0.5, false, 0.05) {
			t.Fatalf("day %d", d+1)
		}
	}
}
