package panel

import (
	"math"
	"testing"
)

// An expert that counts for next to nothing rests after restAfter events: it then learns every restEvery-th one, and
// each one again once it counts for wakeShare.
func TestExpertsRestAndWake(t *testing.T) {
	p := New(settings, 1, true)
	learns := func(share float64, events int) (n int) {
		p.mix[1] = share
		for range events {
			if p.learns(1) {
				n++
			}
			p.met++
		}
		return n
	}
	if got := learns(leastShare/2, restAfter); got < restAfter-1 {
		t.Errorf("of the first events it learns %d", got)
	}
	if got := learns(leastShare/2, 160); got != 160/restEvery {
		t.Errorf("resting it learns %d of 160 events", got)
	}
	if got := learns(0.9*wakeShare, 160); got != 160/restEvery {
		t.Errorf("below what wakes it it learns %d of 160 events", got)
	}
	if got := learns(wakeShare, 160); got != 160 {
		t.Errorf("awake it learns %d of 160 events", got)
	}
	if got := learns(leastShare/2, 160); got != 160 {
		t.Errorf("awake again it rests after less than %d events: of 160 it learns %d", restAfter, got)
	}
}

// A slope that is no number, or has no bound, moves no temperature and leaves nothing behind.
func TestTemperatureOfEndlessLosses(t *testing.T) {
	for name, lost := range map[string]func(factor float64) float64{
		"no number":        func(float64) float64 { return math.NaN() },
		"above all bounds": func(factor float64) float64 { return map[bool]float64{true: math.Inf(1), false: 1}[factor > 1.5] },
		"below":            func(factor float64) float64 { return map[bool]float64{true: math.Inf(-1), false: 1}[factor > 1.5] },
	} {
		tm := NewTemperature(1.5)
		tm.Learn(lost)
		if tm != NewTemperature(1.5) {
			t.Errorf("%s: %+v", name, tm)
		}
		for range 100 {
			tm.Learn(func(factor float64) float64 { return factor })
		}
		if !(tm.Factor() < 1.4 && tm.Factor() > 0) {
			t.Errorf("%s: afterwards the factor is %v", name, tm.Factor())
		}
	}
}
