package measure

// This file merges sums of several learners.

import "math"

// Power returns x^n, of products alone: the same bits on every machine.
func Power(x float64, n uint64) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= x
		}
		x *= x
	}
	return p
}

// Fade adds to a sum what an interval adds to it that went from base to now, keep being what
// the interval leaves of what was before.
func Fade(x *float64, base, now, keep float64) {
	*x = math.FMA(*x, keep, math.FMA(-base, keep, now))
}

// Merge is Fade of sums that lie in the same order in each.
func Merge(x, base, now []*float64, keep float64) {
	for i := range x {
		Fade(x[i], *base[i], *now[i], keep)
	}
}
