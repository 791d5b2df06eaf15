package schedule

import "testing"

// TestHalfLifeStep checks wrong event times. A single time far ahead does not count, and a pause of the stream counts
// as one step. The clock must return to the right time after many wrong times.
func TestHalfLifeStep(t *testing.T) {
	const start, step, year = 1_700_000_000_000, 60_000, 365 * 24 * 3600 * 1000
	f := NewClock(0, 1, step/1000)
	now, passed := int64(start), int64(0)
	each := func(n int, wrong func(i int) int64) {
		passed = 0
		for i := range n {
			now += 1000
			passed += f.tick(now + wrong(i))
		}
	}
	right := func(int) int64 { return 0 }
	each(5000, func(i int) int64 {
		switch i % 50 {
		case 7:
			return year
		case 9, 10:
			return -year
		}
		return 0
	})
	if passed != 4999*1000 || f.lastTime != now {
		t.Errorf("%d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
	}
	now += year
	if each(10, right); passed != step+8*1000 || f.lastTime != now {
		t.Errorf("with a pause %d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
	}
	if each(10, func(int) int64 { return year }); f.lastTime != now+year {
		t.Errorf("ten times that agree: the clock is %d ms off", f.lastTime-now-year)
	}
	if each(2000, right); passed != 1000*(2000-behindFor) || f.lastTime != now {
		t.Errorf("after wrong times %d ms have passed, the clock is %d ms off", passed, f.lastTime-now)
	}
}
