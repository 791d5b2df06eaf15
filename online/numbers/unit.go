// Package numbers learns what targets are that are numbers: the unit in which they are measured
// while learning (Unit), and how far predictions are from them (Residual). It knows no weights.
package numbers

import (
	"math"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
)

// Unit is what targets are measured in, so that neither steps nor the ridge depend on
// what the stream counts in: real targets as deviations from a centre, (y - centre)/scale,
// counts as multiples of scale. What is published is given back in the target's own unit.
//
// The running mean and deviation of the targets (of counts: the mean) make the unit. It
// moves seldom, for all weights must then move along: when the number of targets is a
// power of two, if it is off by a tenth, and when it is off by a factor of two.
type Unit struct {
	Target  loss.Target // not part of the state
	Scale   float64
	Mean    float64 // of the targets
	Centre  float64
	count   uint64  // targets
	weight  float64 // of them
	scatter float64 // the sum of squared differences of the targets from their mean
}

const (
	// Once targetWarmup targets have been seen, one that is farther than targetClip deviations
	// from the mean counts as if it were that far: one wild number must not decide about all
	// that follow.
	targetClip, targetWarmup = 16, 30
	unitDrifts, unitBreaks   = 0.1, 2
)

// NewUnit returns that of a stream that begins.
func NewUnit(t loss.Target) Unit { return Unit{Target: t, Scale: 1} }

func (u *Unit) Deviation() float64 { return math.Sqrt(u.scatter / max(u.weight, 1e-300)) }

// Batch returns the unit, with the bounds at which a target would be clipped now, for
// exact solutions.
func (u *Unit) Batch() batch.Unit {
	return batch.Unit{Centre: u.Centre, Scale: u.Scale, Low: u.Clip(math.Inf(-1)), High: u.Clip(math.Inf(1))}
}

// Clip keeps a target within targetClip deviations of the mean of those before it.
func (u *Unit) Clip(y float64) float64 {
	if u.count < targetWarmup {
		return y
	}
	most := targetClip * u.Deviation()
	if most == 0 {
		return y
	}
	return min(max(y, u.Mean-most), u.Mean+most)
}

// Standard returns a target in the unit.
func (u *Unit) Standard(y float64) float64 {
	if u.Target == loss.Count {
		return y / u.Scale
	}
	return (y - u.Centre) / u.Scale
}

// Score returns in the target's own unit what is a score in this one.
func (u *Unit) Score(f float64) float64 {
	if u.Target == loss.Count {
		return f + math.Log(u.Scale)
	}
	return u.Centre + u.Scale*f
}

// Own is the inverse of Score.
func (u *Unit) Own(score float64) float64 {
	if u.Target == loss.Count {
		return score - math.Log(u.Scale)
	}
	return (score - u.Centre) / u.Scale
}

// Value returns the number that a score in the unit predicts.
func (u *Unit) Value(f float64) float64 { return u.Told(u.Score(f)) }

// Variance returns in the square of the target's own unit what is the variance of a score in this one.
func (u *Unit) Variance(v float64) float64 {
	if u.Target == loss.Count {
		return v
	}
	return u.Scale * u.Scale * v
}

// Told returns the number that a score in the target's own unit predicts, bounded by maxCount.
func (u *Unit) Told(score float64) float64 { return min(model.ValueOf(u.Target, score), maxCount) }

// Observe counts in a target and returns the unit that follows from those so far; moved
// says whether it is another one.
func (u *Unit) Observe(y, weight float64) (next Unit, moved bool) {
	y = u.Clip(y)
	u.count++
	u.weight += weight
	off := y - u.Mean
	u.Mean += off * (weight / u.weight)
	u.scatter += max(0, weight*off*(y-u.Mean)) // below 0 by rounding, where the weight is nearly all
	next = *u
	if u.Target == loss.Count {
		next.Scale = u.Mean
	} else {
		next.Centre, next.Scale = u.Mean, u.Deviation()
		if next.Scale == 0 { // all targets are equal so far
			next.Scale = u.Scale
		}
	}
	if !(next.Scale > 0) {
		return *u, false
	}
	ratio := next.Scale / u.Scale
	switch {
	case ratio > unitBreaks || ratio < 1/unitBreaks:
		return next, true
	case u.count&(u.count-1) != 0:
		return *u, false
	}
	return next, math.Abs(ratio-1) > unitDrifts || math.Abs(next.Centre-u.Centre) > unitDrifts*next.Scale
}

// maxCount bounds the count that is measured: sums of its square stay finite.
const maxCount = 1e100

// gradientRatio returns by how much the derivative of a loss grows where targets and scores
// grow by ratio: by as much for the squared loss, not at all for that of a quantile.
func (u *Unit) gradientRatio(l loss.Loss, ratio float64) float64 {
	if u.Target == loss.Count {
		return ratio
	}
	_, was, _ := l.At(1, 0, 0)
	_, is, _ := l.At(ratio, 0, 0)
	return is / was
}

// Move makes next the unit. For no prediction to change, scores must become factor times what they
// were, and shift: among the first targets the mean knows more than an intercept that has hardly
// begun to learn, so there predictions move with it. keep is by what the squares of a loss's gradients
// are multiplied or, if curvature is set, its second derivatives.
func (u *Unit) Move(next Unit, l loss.Loss, curvature bool) (factor, shift, keep float64) {
	was := *u
	*u = next
	ratio := was.Scale / next.Scale
	keep = was.gradientRatio(l, ratio)
	factor, shift = ratio, (was.Centre-next.Centre)/next.Scale
	if next.Target == loss.Count {
		factor, shift = 1, math.Log(ratio)
	}
	if next.count <= targetWarmup {
		shift = 0
	}
	if curvature {
		keep /= factor
	} else {
		keep *= keep
	}
	return factor, shift, keep
}

// Loss returns the loss for targets and values in their own unit of what l is in this one.
func (u *Unit) Loss(l loss.Loss) loss.Loss {
	if h, ok := l.(loss.Huber); ok {
		return loss.Huber{D: h.D * u.Scale}
	}
	return l
}

// ExpectedSquare returns the squared error that is expected at the target y where each feature dies
// with the probability d. The score is the intercept b and what features add: g together, with a sum
// of squares q. For counts the value is a product of independent factors, once[i] or 1 each, whose
// moments are products too. They are kept finite.
func (u *Unit) ExpectedSquare(y, d, b, g, q float64, once []float64) float64 {
	if u.Target != loss.Count {
		r := y - u.Value(b+(1-d)*g)
		return r*r + u.Scale*u.Scale*d*(1-d)*q
	}
	first := min(u.Scale*math.Exp(b), maxCount)
	second := min(first*first, maxCount*maxCount)
	for _, x := range once {
		first = min(first*((1-d)*x+d), maxCount)
		second = min(second*((1-d)*x*x+d), maxCount*maxCount)
	}
	return max(y*y-2*y*first+second, 0)
}

// State codes the state. It says whether what was read is one.
func (u *Unit) State(c *coder.Coder) (ok bool) {
	c.Uint(&u.count)
	c.Each(&u.Centre, &u.Scale, &u.weight, &u.Mean, &u.scatter)
	return u.Scale > 0
}
