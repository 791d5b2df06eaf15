package measure

// This file merges the sums of several learners.

import "math"

// Power returns x^n, computed from products only, so that every machine has the same bits.
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

// Decay adds to a sum what an interval from base to now has added, where keep is the decay of the interval.
func Decay(x *float64, base, now, keep float64) {
	*x = math.FMA(*x, keep, math.FMA(-base, keep, now))
}

// Merge is Decay for sums in the same order.
func Merge(x, base, now []*float64, keep float64) {
	for i := range x {
		Decay(x[i], *base[i], *now[i], keep)
	}
}
