package measure

// This file merges the sums of several learners.

import "math"

// Power returns x^n. It uses only products, so that every machine computes the same bits.
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

// Decay multiplies the sum x by keep, the decay factor of an interval, and adds now - base. base and now are the sum of
// another learner before and after the interval.
func Decay(x *float64, base, now, keep float64) {
	*x = math.FMA(*x, keep, math.FMA(-base, keep, now))
}

// Merge calls Decay for each of several sums in the same order.
func Merge(x, base, now []*float64, keep float64) {
	for i := range x {
		Decay(x[i], *base[i], *now[i], keep)
	}
}
