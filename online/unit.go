package online

// This file learns targets that are numbers: the unit that they are measured in while
// learning, and what is measured of them.

import (
	"fmt"
	"math"

	"blankout"
	"blankout/batch"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/measure"
	"blankout/model"
	"blankout/online/watch"
)

// unit is what targets are measured in, so that neither steps nor the ridge depend on
// what the stream counts in: real targets as deviations from a centre, (y - centre)/scale,
// counts as multiples of scale. What is published is given back in the target's own unit.
//
// The running mean and deviation of the targets (of counts: the mean) make the unit. It
// moves seldom, for all weights must then move along: when the number of targets is a
// power of two, if it is off by a tenth, and when it is off by a factor of two.
type unit struct {
	target        loss.Target // not part of the state
	centre, scale float64
	count         uint64  // targets
	weight        float64 // of them
	mean, scatter float64 // of the targets, and the sum of squared differences from it
}

const (
	// Once targetWarmup targets have been seen, one that is farther than targetClip deviations
	// from the mean counts as if it were that far: one wild number must not decide about all
	// that follow.
	targetClip, targetWarmup = 16, 30
	unitDrifts, unitBreaks   = 0.1, 2
)

func newUnit(t loss.Target) unit { return unit{target: t, scale: 1} }

func (u *unit) deviation() float64 { return math.Sqrt(u.scatter / max(u.weight, 1e-300)) }

// asBatch returns the unit, with the bounds at which a target would be clipped now, for
// exact solutions.
func (u *unit) asBatch() batch.Unit {
	return batch.Unit{Centre: u.centre, Scale: u.scale, Low: u.clip(math.Inf(-1)), High: u.clip(math.Inf(1))}
}

// clip keeps a target within targetClip deviations of the mean of those before it.
func (u *unit) clip(y float64) float64 {
	if u.count < targetWarmup {
		return y
	}
	most := targetClip * u.deviation()
	if most == 0 {
		return y
	}
	return min(max(y, u.mean-most), u.mean+most)
}

// standard returns a target in the unit.
func (u *unit) standard(y float64) float64 {
	if u.target == loss.Count {
		return y / u.scale
	}
	return (y - u.centre) / u.scale
}

// score returns in the target's own unit what is a score in this one.
func (u *unit) score(f float64) float64 {
	if u.target == loss.Count {
		return f + math.Log(u.scale)
	}
	return u.centre + u.scale*f
}

// own is the inverse of score.
func (u *unit) own(score float64) float64 {
	if u.target == loss.Count {
		return score - math.Log(u.scale)
	}
	return (score - u.centre) / u.scale
}

// value returns the number that a score in the unit predicts.
func (u *unit) value(f float64) float64 { return u.told(u.score(f)) }

// variance returns in the square of the target's own unit what is the variance of a score in this one.
func (u *unit) variance(v float64) float64 {
	if u.target == loss.Count {
		return v
	}
	return u.scale * u.scale * v
}

// told returns the number that a score in the target's own unit predicts, bounded by maxCount.
func (u *unit) told(score float64) float64 { return min(model.ValueOf(u.target, score), maxCount) }

// observe counts in a target and returns the unit that follows from those so far; moved
// says whether it is another one.
func (u *unit) observe(y, weight float64) (next unit, moved bool) {
	y = u.clip(y)
	u.count++
	u.weight += weight
	off := y - u.mean
	u.mean += off * (weight / u.weight)
	u.scatter += max(0, weight*off*(y-u.mean)) // below 0 by rounding, where the weight is nearly all
	next = *u
	if u.target == loss.Count {
		next.scale = u.mean
	} else {
		next.centre, next.scale = u.mean, u.deviation()
		if next.scale == 0 { // all targets are equal so far
			next.scale = u.scale
		}
	}
	if !(next.scale > 0) {
		return *u, false
	}
	ratio := next.scale / u.scale
	switch {
	case ratio > unitBreaks || ratio < 1/unitBreaks:
		return next, true
	case u.count&(u.count-1) != 0:
		return *u, false
	}
	return next, math.Abs(ratio-1) > unitDrifts || math.Abs(next.centre-u.centre) > unitDrifts*next.scale
}

// gradientRatio returns by how much the derivative of a loss grows where targets and scores
// grow by ratio: by as much for the squared loss, not at all for that of a quantile.
func (u *unit) gradientRatio(l loss.Loss, ratio float64) float64 {
	if u.target == loss.Count {
		return ratio
	}
	_, was, _ := l.At(1, 0, 0)
	_, is, _ := l.At(ratio, 0, 0)
	return is / was
}

// moveTo makes another unit that of the targets. All weights move along, so that no
// prediction changes; what a rule has gathered of gradients goes with them. Among the first
// targets the mean knows more than an intercept that has hardly begun to learn, so there
// predictions move with it. Scores become factor times what they were, and shift.
func (l *bank) moveTo(next unit) (factor, shift float64) {
	was := l.unit
	l.unit = next
	ratio := was.scale / next.scale
	keep := was.gradientRatio(l.set.loss, ratio)
	factor, shift = ratio, (was.centre-next.centre)/next.scale
	if next.target == loss.Count {
		factor, shift = 1, math.Log(ratio)
	}
	if next.count <= targetWarmup {
		shift = 0
	}
	if l.set.rule.Curvature {
		keep /= factor
	} else {
		keep *= keep
	}
	move := func(row []float64, intercepts bool) {
		l.rule.Rescale(row, 0, l.n, factor)
		l.rule.Forget(row, intercepts, keep*factor*factor) // rescale divides by the square
	}
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		move(l.table.Touch(column), false)
	}
	if l.set.intercept {
		move(l.bias, true)
		for i, b := range l.weights(l.bias) {
			l.rule.Set(l.bias, i, b+shift)
		}
	}
	for v := range l.levels {
		for k := range l.levels[v].sumsq {
			l.levels[v].sumsq[k] *= factor * factor
		}
	}
	l.resum()
	return factor, shift
}

// targetLoss returns the loss for targets and values in their own unit.
func (l *bank) targetLoss() loss.Loss {
	if h, ok := l.set.loss.(loss.Huber); ok {
		return loss.Huber{D: h.D * l.unit.scale}
	}
	return l.set.loss
}

const residualMemory = 2000

// maxCount bounds the count that is measured: sums of its square stay finite.
const maxCount = 1e100

// residual is how far values have been from targets recently.
type residual struct {
	model.Residual
	samples float64 // that it is of, at most 2 residualMemory
}

// published returns the residual, nil before it says anything.
func (r *residual) published() *model.Residual {
	if r.samples < 2 {
		return nil
	}
	out := r.Residual
	return &out
}

// take takes up a value for a target; v is the variance of its score, see model.ScoreVariance.
func (r *residual) take(t loss.Target, y, value, v float64) {
	r.samples = min(r.samples+1, 2*residualMemory)
	x, rate := r.Of(t, y, value), 1/r.samples
	if r.samples >= 16 { // the first ones fade soon
		rate = 1 / (8 + r.samples/2)
	}
	lacking := r.Lacking(t, value, v)
	if most := targetClip * math.Sqrt(r.Deviation*r.Deviation+lacking); r.samples > targetWarmup && most > 0 {
		x = min(max(x, r.Mean-most), r.Mean+most)
	}
	off := x - r.Mean
	r.Mean += rate * off
	r.Deviation = math.Sqrt(max(0, (1-rate)*(r.Deviation*r.Deviation+rate*off*off)-rate*lacking))
}

// measureNumber counts in the published value at hand for a target; by is its model.ScoreVariance.
func (l *Learner) measureNumber(e *blankout.Example, y, value float64, by model.Lacked) {
	told := watch.Told{Number: l.events, Time: e.Time, Weight: e.Weight, Target: y, Value: value, Low: math.NaN(), High: math.NaN(), Mean: l.unit.mean}
	told.Low, told.High = l.interval(value, by)
	l.takeNumber(y, value, by)
	l.residual.take(l.unit.target, y, value, by.Variance)
	scale := l.unit.deviation()
	if scale == 0 {
		scale = 1
	}
	told.Loss = math.Abs(y-value) / scale
	l.watch.Measures.Numbers.Loss = l.targetLoss()
	if l.watch.ToldNumber(told) {
		l.drifted()
	}
}

// varianceOf returns the variance of the published score of an event for what it lacks.
func (l *answering) varianceOf(e *blankout.Example) model.Lacked {
	if l.filling.covariance == nil || !l.missing.event.lack.Some() {
		return model.Lacked{Range: l.missing.event.within}
	}
	return model.ScoreVariance(l.modelOf(l.mixed(l.missing.event.within)), e)
}

// measureTarget measures and forecasts the event at hand, whose label is the number y, and
// then takes it into the unit. earlier is what the event was told when it came, if its label
// comes later; what it would be told now is added to fresh.
func (l *Learner) measureTarget(e *blankout.Example, earlier []float64, fresh *measure.Classes) {
	f, y, weight := l.now.scores[0], e.Target, e.Weight
	l.takeAged(e)
	told := l.unit.value(f)
	if earlier != nil {
		fresh.Add(true, weight, 0, 1)
		fresh.Wrong += weight * math.Abs(y-told)
		told = l.unit.told(earlier[0])
	}
	l.measureNumber(e, y, told, l.varianceOf(e))
	l.now.target = l.unit.standard(l.unit.clip(y))
	l.now.raw = y
	l.probe(e)
	l.now.scores[0] = l.unit.score(f)
	if l.period > 0 {
		return
	}
	clipped := l.unit.clip(y)
	if next, moved := l.unit.observe(y, weight); moved {
		l.rescaleSecond(l.moveTo(next))
	}
	l.now.target = l.unit.standard(clipped)
}

// numbersState is the block "numbers".
func (l *Learner) numbersState(c *coder.Coder) {
	u, r := &l.unit, &l.residual
	c.Uint(&u.count)
	c.Each(&u.centre, &u.scale, &u.weight, &u.mean, &u.scatter, &r.samples, &r.Mean, &r.Deviation)
	l.watch.Measures.Numbers.State(c)
}

// checkNumbers refuses what is for classes where a loss is of numbers.
func (c Config) checkNumbers(s settings) error {
	key, curves := c.curved()
	for _, x := range []struct {
		key   string
		wrong bool
		why   string
	}{
		{"rule", s.rule.ClassesOnly, fmt.Sprintf("rule %s: it is for classes, and the labels of loss %s are numbers; use adagrad, dropout-descent, sgd or ftrl", c.Rule, c.Loss)},
		{"refresh", c.Refresh > 0, fmt.Sprintf("refresh = %d: it is for classes, and the labels of loss %s are numbers; set refresh = 0", c.Refresh, c.Loss)},
		{"noise", s.grouped(), fmt.Sprintf("noise %q: of groups is for classes so far, and the labels of loss %s are numbers; use auto, dropout:Q or none", c.Noise, c.Loss)},
		{key, s.curves, fmt.Sprintf("%s: of classes so far, and the labels of loss %s are numbers; learn no curves", curves, c.Loss)},
		{"class_weight", len(c.ClassWeight) > 0, fmt.Sprintf("class_weight: the labels of loss %s are numbers, no classes", c.Loss)},
		{"calibrate", c.Calibrate, fmt.Sprintf("calibrate: the labels of loss %s are numbers, without probabilities", c.Loss)},
		{"threshold", c.Threshold != 0.5, fmt.Sprintf("threshold = %v: the labels of loss %s are numbers, without probabilities", c.Threshold, c.Loss)},
		{"missing", s.missingRule == model.MissingRescale, fmt.Sprintf("missing %q: is for classes; a number is predicted of what is left as it is", c.Missing)},
	} {
		if x.wrong {
			return blankout.KeyErrorf(x.key, "%s", x.why)
		}
	}
	return nil
}
