package watch

// This file learns at which hours of the day a field is not as it is at the others.

import "blankout/internal/coder"

// hours says by hour of the day, in UTC, which means of a measure are expected beside the usual
// one: those of alarms that came at that hour and have ended. One alarm is enough.
type hours [24]hourly

// hourly is the lowest and the highest mean that is expected at an hour. Times are in milliseconds.
type hourly struct {
	low, high   float64
	first, last int64 // when the hour was like that; 0 for never
}

const (
	hour, day = 3_600_000, 24 * 3_600_000
	// An alarm that lasted longer says nothing of hours.
	longestSpell = 18 * hour
	// A block that lasts longer is of no hour.
	longestBlock = 6 * hour
	// What has not come again for so long is forgotten.
	hourMemory = 15 * day
)

// span is from when to when a block lasted.
type span struct{ start, end Moment }

// timed says whether a block is of some hours.
func (s span) timed() bool {
	return s.start.Time > 0 && s.end.Time >= s.start.Time && s.end.Time-s.start.Time <= longestBlock
}

// hoursBetween yields the hours of the day from one time to another, and so many before and after.
func hoursBetween(from, to int64, slack int64) func(yield func(h int64) bool) {
	return func(yield func(h int64) bool) {
		for h := from/hour - slack; h <= min(to/hour+slack, from/hour-slack+23); h++ {
			if !yield((h%24 + 24) % 24) {
				return
			}
		}
	}
}

// learn takes up an alarm that has ended, during which the mean came to worst.
func (x *hours) learn(since, until Moment, worst float64, risen bool) {
	if since.Time <= 0 || until.Time < since.Time || until.Time-since.Time > longestSpell {
		return
	}
	for h := range hoursBetween(since.Time, until.Time, 0) {
		e := &x[h]
		if e.first == 0 || until.Time-e.last > hourMemory {
			*e = hourly{low: worst, high: worst, first: since.Time}
		}
		if e.last = until.Time; risen {
			e.high = max(e.high, worst)
		} else {
			e.low = min(e.low, worst)
		}
	}
}

// expects says whether a mean is expected, give or take what is allowed, at the hours of a block or
// those beside them, from another day.
func (x *hours) expects(s span, mean float64, risen bool, allowed float64) (expected bool) {
	if x == nil || !s.timed() {
		return false
	}
	for h := range hoursBetween(s.start.Time, s.end.Time, 1) {
		e := &x[h]
		if e.first == 0 || s.start.Time-e.first < day/2 || s.start.Time-e.last > hourMemory {
			continue
		}
		if risen && mean <= e.high+allowed || !risen && mean >= e.low-allowed {
			e.last, expected = s.end.Time, true
		}
	}
	return expected
}

func (x *hours) state(c *coder.Coder) {
	for h := range x {
		e := &x[h]
		c.Each(&e.low, &e.high)
		c.Int64(&e.first)
		c.Int64(&e.last)
	}
}
