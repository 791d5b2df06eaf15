package online

import (
	"blankout/internal/must"
	"math"
	"testing"
)

// TestSampled checks which part of the events the samples have, early and late in a stream.
func TestSampled(t *testing.T) {
	const n = 1 << 14
	for name, c := range map[string]struct {
		first  uint64
		chosen func(number uint64) bool
		want   float64 // fraction of the events
	}{
		"examined early, few columns":    {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsFew, true); return whole }, 1. / 4},
		"copies early":                   {1, func(i uint64) bool { _, copies := doubts(i%doubtsFirst, doubtsFew, true); return copies }, 1. / 4},
		"examined early, many columns":   {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsFew+1, true); return whole }, 1. / 16},
		"examined early, without gain":   {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsWide, false); return whole }, 1. / 16},
		"examined, more columns":         {1, func(i uint64) bool { whole, _ := doubts(i%doubtsFirst, doubtsWide+1, true); return whole }, 1. / 32},
		"examined later":                 {doubtsFirst + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, true); return whole }, 1. / 32},
		"copies later":                   {doubtsFirst + 1, func(i uint64) bool { _, copies := doubts(i, doubtsFew, true); return copies }, 1. / 128},
		"examined later, without gain":   {doubtsFirst + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, false); return whole }, 1. / 128},
		"examined late":                  {masksFew + 1, func(i uint64) bool { whole, _ := doubts(i, doubtsFew, true); return whole }, 1. / 64},
		"mixture weights":                {decidesAll + 1, func(i uint64) bool { return decides(i, 0) }, 1. / 4},
		"mixture weights late":           {decidesSome + 1, func(i uint64) bool { return decides(i, 0) }, 1. / 16},
		"a fresh expert":                 {decidesSome + 1, func(i uint64) bool { return decides(i, math.MaxUint64) }, 1},
		"points of early masks":          {1, func(i uint64) bool { return turns(i%masksWhole, int(i%7)) }, 1},
		"points of masks":                {masksWhole + 1, func(i uint64) bool { return turns(i, int(i*i%7)) }, 1. / 3},
		"points that are predicted":      {1, func(i uint64) bool { return predicts(masksFew, masksWhole+i, int(i%7)) }, 1},
		"points that are predicted late": {1, func(i uint64) bool { return predicts(masksFew+1, masksWhole+i, int(i*i%7)) }, 1. / 3},
		"dead copies":                    {1, dies, 1. / 2},
	} {
		count := 0.0
		for i := range uint64(n) {
			if c.chosen(c.first + i) {
				count++
			}
		}
		got := count / n
		must.True(t, math.Abs(got-c.want) <= 0.03*c.want, "%s: %v of the events, want %v", name, got, c.want)
	}
	for i := range uint64(1000) { // examined events are fewer without gain, not others
		if whole, copies := doubts(doubtsFirst+1+i, 8, false); whole || copies {
			all, _ := doubts(doubtsFirst+1+i, 8, true)
			must.True(t, all, "event %d is examined only without gain", i)
		}
	}
}
