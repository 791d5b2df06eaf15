package online

// This file learns targets that are numbers.

import (
	"fmt"
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/numbers"
	"blankout/online/watch"
)

// moveTo makes another unit that of the targets. All weights move along (see numbers.Unit.Move); what
// a rule has gathered of gradients goes with them.
func (l *bank) moveTo(next numbers.Unit) (factor, shift float64) {
	factor, shift, keep := l.unit.Move(next, l.set.loss, l.set.rule.Curvature)
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
func (l *bank) targetLoss() loss.Loss { return l.unit.Loss(l.set.loss) }

// measureNumber counts in the published value at hand for a target; by is its model.ScoreVariance.
func (l *Learner) measureNumber(e *event.Example, y, value float64, by model.Lacked) {
	told := watch.Told{Number: l.events, After: l.earlier.learned, Time: e.Time, Weight: e.Weight, Target: y, Value: value, Low: math.NaN(), High: math.NaN()}
	told.Low, told.High = l.interval(value, by)
	l.takeNumber(y, value, by)
	l.residual.Take(l.unit.Target, l.unit.Clip(y), value, by.Variance)
	scale := l.unit.Deviation()
	if scale == 0 {
		scale = 1
	}
	told.Loss = math.Abs(y-value) / scale
	if l.watch.ToldNumber(told) {
		l.drifted()
	}
}

// varianceOf returns the variance of the published score of an event for what it lacks.
func (l *answering) varianceOf(e *event.Example) model.Lacked {
	if l.filling.Covariance == nil || !l.fields.Lack.Some() {
		return model.Lacked{Range: l.fields.Range}
	}
	return model.ScoreVariance(l.modelOf(l.mixed(l.fields.Range)), e)
}

// measureTarget measures and forecasts the event at hand, whose label is the number y, and
// then takes it into the unit. What is measured is the prediction p, or an earlier one.
func (l *Learner) measureTarget(e *event.Example, p, prior *Prediction) {
	f, y := l.now.scores[0], e.Target
	l.takeAged(e)
	told := l.unit.Value(f)
	if prior != nil {
		told = l.unit.Told(prior.Scores[0])
	}
	l.watch.Measures.Numbers.Loss = p.Loss
	by := l.varianceOf(e)
	clipped := y
	if !l.unit.Inflated() {
		clipped = l.residual.Clip(l.unit.Target, y, l.unit.Value(f), by.Variance)
	}
	l.measureNumber(e, y, told, by)
	l.now.target = l.unit.Standard(l.unit.Clip(clipped))
	l.probe(e)
	l.now.scores[0] = l.unit.Score(f)
	if l.period > 0 {
		return
	}
	switch next, change := l.unit.Observe(y, l.now.weight); change {
	case numbers.Moves:
		l.rescaleSecond(l.moveTo(next))
		l.now.told = nil // it is in the old unit
	case numbers.Follows:
		l.unit, l.now.told = next, nil
		l.residual = next.Residual()
	}
	l.now.target = l.unit.Standard(l.unit.Clip(clipped))
}

// numbersState codes the block "numbers". It says whether what was read is one.
func (l *Learner) numbersState(c *coder.Coder) (ok bool) {
	ok = l.unit.State(c)
	l.residual.State(c)
	l.watch.Measures.Numbers.State(c)
	return ok
}

// checkNumbers refuses what is for classes where a loss is of numbers.
func (c Config) checkNumbers(s settings) error {
	for _, x := range []struct {
		key   string
		wrong bool
		why   string
	}{
		{"optimizer", s.rule.ClassesOnly, fmt.Sprintf("optimizer %s: it is for classes, and loss %s is for regression; use adagrad, dropout-descent, sgd or ftrl", c.Optimizer, c.Loss)},
		{"irls_batch", c.IRLSBatch > 0, fmt.Sprintf("irls_batch = %d: it is for classes, and loss %s is for regression; set irls_batch = 0", c.IRLSBatch, c.Loss)},
		{"noise", s.grouped(), fmt.Sprintf("noise %q: of groups is for classes so far, and loss %s is for regression; use auto, dropout:Q or none", c.Noise, c.Loss)},
		{"class_weight", len(c.ClassWeight) > 0, fmt.Sprintf("class_weight: loss %s is for regression, without classes", c.Loss)},
		{"calibrate", c.Calibrate == "on", fmt.Sprintf("calibrate: loss %s is for regression, without probabilities", c.Loss)},
		{"threshold", c.Threshold != 0.5, fmt.Sprintf("threshold = %v: loss %s is for regression, without probabilities", c.Threshold, c.Loss)},
		{"missing_policy", s.missingRule == model.MissingRescale, fmt.Sprintf("missing_policy %q: is for classes; a number is predicted of what is left as it is", c.MissingPolicy)},
	} {
		if x.wrong {
			return event.KeyErrorf(x.key, "%s", x.why)
		}
	}
	return nil
}
