package health

// This file learns the hours of the day at which a measure of a field is usually different.

import "blankout/internal/coder"

// hours has, for each hour of the day in UTC, the unusual means of a measure that are expected at that hour: the means
// of alarms that were raised and ended at that hour. One such alarm is enough.
type hours [24]hourly

// hourly holds the smallest and the largest mean that is expected at an hour. Times are in milliseconds.
type hourly struct {
	low, high   float64
	first, last int64 // first and last time of such means at this hour; 0 if there were none
}

const (
	hour, day = 3_600_000, 24 * 3_600_000
	// An alarm that lasts longer does not determine which hours are unusual.
	longestSpell = 18 * hour
	// A block that lasts longer does not belong to any hour.
	longestBlock = 6 * hour
	// Means are forgotten if they have not recurred for this long.
	hourMemory = 15 * day
)

// span is the start and end of a block.
type span struct{ start, end Moment }

// timed reports whether a block has event times and is short enough to belong to an hour.
func (s span) timed() bool {
	return s.start.Time > 0 && s.end.Time >= s.start.Time && s.end.Time-s.start.Time <= longestBlock
}

// hoursBetween yields the hours of the day from slack before the time from to slack after the time to.
func hoursBetween(from, to int64, slack int64) func(yield func(h int64) bool) {
	return func(yield func(h int64) bool) {
		for h := from/hour - slack; h <= min(to/hour+slack, from/hour-slack+23); h++ {
			if !yield((h%24 + 24) % 24) {
				return
			}
		}
	}
}

// learn records the most unusual mean (worst) of an ended alarm at the hours of the alarm.
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

// expects reports whether a mean is expected at the hours of a block or at neighboring hours. allowed is the tolerance
// of the mean. Means that were recorded on the same day are ignored.
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
