// Package regression has the unit in which regression targets are learned (Unit), and the distribution of residuals
// (Residual). It contains no model weights.
package regression

import (
	"cmp"
	"math"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Unit is the unit of targets, which makes the steps and the ridge independent of the unit of the stream. Real targets
// are learned as (y - center)/scale, counts as multiples of scale. Published predictions are in the stream's unit.
//
// Until targetWarmup targets have been seen, their median and a robust spread (see spread) determine the unit. Later
// the running mean and standard deviation (for counts: the mean) determine it, with decay. An outlier counts as if it
// were at the bounds. All weights must be converted when the unit changes, so it changes rarely. It changes if it is
// wrong by a tenth when the number of targets is a power of two, or by a factor of two at any time. The unit restarts
// if a sample of recent targets contradicts it (see contradicted).
type Unit struct {
	Target  loss.Target // not part of the state
	Scale   float64
	Mean    float64 // mean of the targets
	Center  float64
	known   bool    // the targets are not all equal; for counts, one is above 0
	keep    float64 // decay factor per target; not part of the state
	count   uint64  // number of targets
	weight  float64 // total weight of the targets
	scatter float64 // sum of squared differences of the targets from their mean
	sample  []float64
	recent  spread // spread of the sample
}

const (
	// A target more than targetClip standard deviations from the mean is clipped. With this clipping, one outlier in a
	// hundred targets increases the standard deviation by less than two thirds (targetClip^2/100 < 1).
	targetClip = 8
	// If nearly all targets are equal, like the zeros of sales or claims, targets with other values are not outliers.
	inflatedClip, inflatedMedians = 16, 64
	targetWarmup                  = 32
	unitDrifts, unitBreaks        = 0.1, 2
	unitRestarts                  = 16 // at a larger change of the unit, weights stay and predictions follow the targets
	unitHalfLife                  = 10_000
)

// NewUnit returns the unit of a new stream. halfLife is the half-life of its moments, in targets; 0 means unitHalfLife.
func NewUnit(t loss.Target, halfLife float64) Unit {
	u := Unit{Target: t, Scale: 1, keep: math.Exp2(-1 / cmp.Or(halfLife, unitHalfLife))}
	if t == loss.Count {
		u.Scale = unknownCount
	}
	return u
}

// unknownCount is the scale of counts as long as all counts are 0. With it the prediction is 0.
const unknownCount = 1e-300

// Known reports whether at least two targets have differed. Only the center can be learned before that.
func (u *Unit) Known() bool { return u.known }

func (u *Unit) Deviation() float64 { return math.Sqrt(u.scatter / max(u.weight, 1e-300)) }

// Inflated reports whether nearly all recent targets are equal, like the zeros of sales or claims.
func (u *Unit) Inflated() bool { return u.recent.inflated() }

// Batch returns the unit for exact solutions, with the current bounds for clipping targets.
func (u *Unit) Batch() batch.Unit {
	return batch.Unit{Center: u.Center, Scale: u.Scale, Low: u.Clip(math.Inf(-1)), High: u.Clip(math.Inf(1))}
}

// Clip returns y or, if y is an outlier, the nearest bound.
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

// Standard converts a target to the unit.
func (u *Unit) Standard(y float64) float64 {
	if u.Target == loss.Count {
		return y / u.Scale
	}
	return (y - u.Center) / u.Scale
}

// Score converts a score in the unit to a score in the stream's unit.
func (u *Unit) Score(f float64) float64 {
	if u.Target == loss.Count {
		return f + math.Log(u.Scale)
	}
	return u.Center + u.Scale*f
}

// Own is the inverse of Score: it converts a score in the stream's unit to the unit u.
func (u *Unit) Own(score float64) float64 {
	if u.Target == loss.Count {
		return score - math.Log(u.Scale)
	}
	return (score - u.Center) / u.Scale
}

// Value returns the value that a score in the unit predicts.
func (u *Unit) Value(f float64) float64 { return u.ValueOf(u.Score(f)) }

// Variance converts the variance of a score in the unit u to the stream's unit.
func (u *Unit) Variance(v float64) float64 {
	if u.Target == loss.Count {
		return v
	}
	return u.Scale * u.Scale * v
}

// ValueOf returns the value that a score in the stream's unit predicts, at most maxCount.
func (u *Unit) ValueOf(score float64) float64 { return min(model.ValueOf(u.Target, score), maxCount) }

// Change describes how a target changes the unit.
type Change int

const (
	Same    Change = iota
	Moves          // all weights must be converted to the new unit
	Follows        // the weights do not change, so predictions change with the unit
)

// Observe adds a target. next is the resulting unit, and change describes how next differs from u.
func (u *Unit) Observe(y, weight float64) (next Unit, change Change) {
	clipped := u.Clip(y)
	u.count++
	restart := u.observe(y) || u.count <= targetWarmup
	if restart {
		u.restart()
	} else {
		u.weight = u.keep*u.weight + weight
		u.scatter *= u.keep
		off := clipped - u.Mean
		u.Mean += off * (weight / u.weight)
		u.scatter += max(0, weight*off*(clipped-u.Mean)) // with a large weight, rounding could make it negative
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

// observe adds a target to the sample, if the target is sampled. contradicted reports whether the sample contradicts
// the unit.
func (u *Unit) observe(y float64) (contradicted bool) {
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

// contradicted reports whether the mean or deviation of the sample differs from the unit. If so, either outliers have
// determined the unit, or the targets of the stream have changed their unit.
func (u *Unit) contradicted() bool {
	r, deviation := &u.recent, u.Deviation()
	off := math.Abs(r.median - u.Mean)
	if r.inflated() {
		return off > targetClip*deviation
	}
	s := r.scale()
	return max(off, s) > targetClip*deviation || deviation > 32*s
}

// restart sets mean and standard deviation to those of the sample without outliers.
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

// maxCount is the largest predicted count, so that sums of squares stay finite.
const maxCount = 1e100

// gradientRatio returns the factor of a loss's derivative when targets and scores are multiplied by ratio. The factor
// is ratio for the squared loss, and 1 for a quantile loss.
func (u *Unit) gradientRatio(l loss.Loss, ratio float64) float64 {
	if u.Target == loss.Count {
		return ratio
	}
	_, was, _ := l.At(1, 0, 0)
	_, is, _ := l.At(ratio, 0, 0)
	return is / was
}

// Move replaces the unit by next. To keep predictions the same, the caller must multiply scores by factor and then add
// shift. For the first targets, the result instead makes predictions follow the mean, which is more precise than an
// intercept that has learned little. keep is the factor of squared gradients or, if curvature is true, of second
// derivatives.
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

// Loss returns the loss in the stream's unit that corresponds to the loss l in the unit u.
func (u *Unit) Loss(l loss.Loss) loss.Loss {
	if h, ok := l.(loss.Huber); ok {
		return loss.Huber{D: h.D * u.Scale}
	}
	return l
}

// State encodes or decodes the state. ok is false if a decoded state is invalid.
func (u *Unit) State(c *coder.Coder) (ok bool) {
	c.Uint(&u.count)
	c.Bool(&u.known)
	c.Each(&u.Center, &u.Scale, &u.weight, &u.Mean, &u.scatter)
	c.Floats(&u.sample)
	u.recent = spreadOf(u.sample)
	return u.Scale > 0 && len(u.sample) <= sampleSize
}
