// Package regression learns what targets are that are numbers: the unit in which they are measured
// while learning (Unit), and how far predictions are from them (Residual). It knows no weights.
package regression

import (
	"math"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Unit is what targets are measured in, so that neither steps nor the ridge depend on
// what the stream counts in: real targets as deviations from a center, (y - center)/scale,
// counts as multiples of scale. What is published is given back in the target's own unit.
//
// While there are fewer than targetWarmup targets, the median of all of them and a robust measure of their spread
// make the unit (see spread); then the running mean and deviation (of counts: the mean), which decay. A target far outside
// counts as if it were at the bounds. The unit moves seldom, for all weights must then move along: when the
// number of targets is a power of two, if it is off by a tenth, and when it is off by a factor of two. It starts
// again where a sample of recent targets contradicts it (see contradicted).
type Unit struct {
	Target  loss.Target // not part of the state
	Scale   float64
	Mean    float64 // of the targets
	Center  float64
	known   bool    // two targets differed; of counts, one was above 0
	keep    float64 // decay factor by target; not part of the state
	count   uint64  // targets
	weight  float64 // of them
	scatter float64 // the sum of squared differences of the targets from their mean
	sample  []float64
	recent  spread // of the sample
}

const (
	// A target that is farther than targetClip deviations from the mean counts as if it were that far: wild targets,
	// up to one in a hundred, then raise the deviation by less than two thirds (targetClip^2/100 < 1).
	targetClip = 8
	// Where nearly all targets are equal, as zeros are of sales or claims, the others are no outliers.
	inflatedClip, inflatedMedians = 16, 64
	targetWarmup                  = 32
	unitDrifts, unitBreaks        = 0.1, 2
	unitRestarts                  = 16 // a change by more is one of the targets, which predictions follow
	unitHalfLife                  = 10_000
)

// NewUnit returns the unit of a stream that begins. The half-life of its moments is so many targets, 0 for unitHalfLife.
func NewUnit(t loss.Target, halfLife float64) Unit {
	if halfLife == 0 {
		halfLife = unitHalfLife
	}
	u := Unit{Target: t, Scale: 1, keep: math.Exp2(-1 / halfLife)}
	if t == loss.Count {
		u.Scale = unknownCount
	}
	return u
}

// unknownCount is the scale of counts while all are 0: so is the prediction.
const unknownCount = 1e-300

// Known says whether there is a unit: whether targets have differed. Before, nothing can be learned of them but the center.
func (u *Unit) Known() bool { return u.known }

func (u *Unit) Deviation() float64 { return math.Sqrt(u.scatter / max(u.weight, 1e-300)) }

// Inflated says whether nearly all of the recent targets are equal, as zeros are of sales or claims.
func (u *Unit) Inflated() bool { return u.recent.inflated() }

// Batch returns the unit, with the bounds at which a target would be clipped now, for
// exact solutions.
func (u *Unit) Batch() batch.Unit {
	return batch.Unit{Center: u.Center, Scale: u.Scale, Low: u.Clip(math.Inf(-1)), High: u.Clip(math.Inf(1))}
}

// Clip keeps a target within the bounds beyond which it is an outlier.
func (u *Unit) Clip(y float64) float64 {
	middle, most := u.Mean, targetClip*u.Deviation()
	switch r := &u.recent; {
	case u.count < targetWarmup:
		if middle, most = r.median, targetClip*r.scale(); r.inflated() {
			most = inflatedMedians * r.others
		}
	case r.inflated():
		if most = inflatedClip * u.Deviation(); r.differ >= enoughOthers {
			most = min(most, inflatedMedians*r.others)
		}
	}
	if most == 0 {
		return y
	}
	return min(max(y, middle-most), middle+most)
}

// Standard returns a target in the unit.
func (u *Unit) Standard(y float64) float64 {
	if u.Target == loss.Count {
		return y / u.Scale
	}
	return (y - u.Center) / u.Scale
}

// Score returns in the target's own unit what is a score in this one.
func (u *Unit) Score(f float64) float64 {
	if u.Target == loss.Count {
		return f + math.Log(u.Scale)
	}
	return u.Center + u.Scale*f
}

// Own is the inverse of Score.
func (u *Unit) Own(score float64) float64 {
	if u.Target == loss.Count {
		return score - math.Log(u.Scale)
	}
	return (score - u.Center) / u.Scale
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

// Change says how the unit has changed with a target.
type Change int

const (
	Same    Change = iota
	Moves          // to another one: weights must move along
	Follows        // to another one that predictions follow: weights stay as they are
)

// Observe counts in a target and returns the unit that follows from those so far.
func (u *Unit) Observe(y, weight float64) (next Unit, change Change) {
	clipped := u.Clip(y)
	u.count++
	restart := u.take(y) || u.count <= targetWarmup
	if restart {
		u.restart()
	} else {
		u.weight = u.keep*u.weight + weight
		u.scatter *= u.keep
		off := clipped - u.Mean
		u.Mean += off * (weight / u.weight)
		u.scatter += max(0, weight*off*(clipped-u.Mean)) // below 0 by rounding, where the weight is nearly all
	}
	next = *u
	switch deviation := u.Deviation(); {
	case u.Target == loss.Count:
		next.known = u.Mean > 0
		next.Scale = u.Mean
	case u.count < targetWarmup:
		next.known, next.Center, next.Scale = u.recent.scale() > 0, u.recent.median, u.recent.scale()
	default:
		next.known, next.Center, next.Scale = deviation > 0, u.Mean, deviation
	}
	if !next.known { // all targets are equal
		if next.known = u.known; next.known {
			return *u, Same
		}
		next.Scale = u.Scale
		return next, Follows
	}
	ratio := next.Scale / u.Scale
	switch {
	case !u.known || ratio > unitRestarts || ratio < 1/unitRestarts || restart && math.Abs(next.Center-u.Center) > unitRestarts*next.Scale:
		return next, Follows
	case ratio > unitBreaks || ratio < 1/unitBreaks:
		return next, Moves
	case u.count&(u.count-1) != 0:
		return *u, Same
	case math.Abs(ratio-1) > unitDrifts || math.Abs(next.Center-u.Center) > unitDrifts*next.Scale:
		return next, Moves
	}
	return *u, Same
}

// take counts a target into the sample, if it is its turn, and says whether the unit is contradicted by it.
func (u *Unit) take(y float64) (contradicted bool) {
	every := uint64(1)
	for every < mostEvery && 4*every*sampleSize <= u.count {
		every *= 2
	}
	if u.count%every != 0 {
		return false
	}
	if len(u.sample) < sampleSize {
		u.sample = append(u.sample, y)
	} else {
		u.sample[u.count/every%sampleSize] = y
	}
	u.recent = spreadOf(u.sample)
	return u.count > targetWarmup && u.contradicted()
}

// contradicted says whether the sample is of other targets than the mean and the deviation: these were made of
// outliers, or the stream has changed its unit.
func (u *Unit) contradicted() bool {
	r, deviation := &u.recent, u.Deviation()
	off := math.Abs(r.median - u.Mean)
	if r.inflated() {
		return off > targetClip*deviation
	}
	s := r.scale()
	return max(off, s) > targetClip*deviation || deviation > 32*s
}

// restart makes mean and deviation those of the sample, outliers at the bounds.
func (u *Unit) restart() {
	r := &u.recent
	most := targetClip * r.scale()
	if r.inflated() {
		most = inflatedMedians * r.others
	}
	u.weight, u.Mean, u.scatter = 0, r.median, 0
	for _, y := range u.sample {
		y = min(max(y, r.median-most), r.median+most)
		u.weight++
		off := y - u.Mean
		u.Mean += off / u.weight
		u.scatter += max(0, off*(y-u.Mean))
	}
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
	factor, shift = ratio, (was.Center-next.Center)/next.Scale
	if next.Target == loss.Count {
		factor, shift = 1, math.Log(ratio)
	}
	if next.count <= 2*targetWarmup {
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
	first := min(u.Scale*loss.Exp(b), maxCount)
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
	c.Bool(&u.known)
	c.Each(&u.Center, &u.Scale, &u.weight, &u.Mean, &u.scatter)
	c.Floats(&u.sample)
	u.recent = spreadOf(u.sample)
	return u.Scale > 0 && len(u.sample) <= sampleSize
}
