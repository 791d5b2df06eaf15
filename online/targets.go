package online

// This file learns regression targets. They are learned in a separate unit, so that neither the steps nor the ridge
// depend on the unit of the stream.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/mixture"
	"blankout/online/regression"
)

// targets is the state of regression targets. Scores inside the Learner are in the unit that the field unit describes.
type targets struct {
	unit     regression.Unit
	residual regression.Residual
	loss     loss.Loss      // loss in unit
	before   model.Residual // scratch
}

// predicted sets the regression fields of a Prediction. The scores of the Prediction are in the Learner's unit.
func (t *targets) predicted(p *Prediction, known bool) {
	f := p.Scores[0]
	p.Scores[0] = t.unit.Score(f)
	p.Loss, p.Value, p.Low, p.High = t.unit.Loss(t.loss), math.NaN(), math.NaN(), math.NaN()
	if known {
		p.Value = t.unit.Value(f)
	}
}

// standard converts a clipped label to the Learner's unit.
func (t *targets) standard(clipped float64) float64 { return t.unit.Standard(t.unit.Clip(clipped)) }

// state encodes or decodes the unit and the residuals.
func (t *targets) state(c *coder.Coder) {
	if ok := t.unit.State(c); !ok {
		c.Failed = true
	}
	t.residual.State(c)
}

// number processes a regression label. f is the predicted score in the current unit, and shown is the prediction that
// the reader received. number measures shown, updates the mixture weights, and updates the unit, which may convert all
// weights. It returns the target to learn, and the scores of components by which averages are chosen. told is the current
// prediction, into which number mixes the last label; nil for a delayed label.
func (l *Learner) number(e *event.Example, f float64, shown *Prediction, components []float64, told *Prediction) (target float64, of []float64) {
	t, r := l.targets, &l.room
	missing := l.predictor.missingVariance(&r.in, r.scored.components, &r.imputed)
	clipped := e.Target // the target to learn: the nearest bound if the label is an outlier
	if !t.unit.Inflated() {
		clipped = t.residual.Clip(t.unit.Target, e.Target, t.unit.Value(f), missing.Variance)
	}
	value := t.unit.ValueOf(shown.Scores[0])
	l.observeNumber(e, value, t.unit.Value(f), missing, shown, told)
	target = t.standard(clipped)
	if components != nil {
		r.standard = r.standard[:0]
		for _, f := range components {
			r.standard = append(r.standard, t.unit.Own(f))
		}
		components = r.standard
	}
	l.forecast(squareOf(e, t.unit.Value(f)))
	l.judge(e, &mixture.Event{Outputs: 1, Active: 1, Lose: func(f float64) float64 {
		lost, _, _ := t.loss.At(target, f, 0)
		return lost
	}}, components)
	if l.levels.Passed() {
		return t.standard(clipped), components
	}
	switch next, change := t.unit.Observe(e.Target, l.weight); change {
	case regression.Moves:
		factor, shift, keep := t.unit.Move(next, t.loss, l.set.levels.Optimizer.Curvature)
		l.levels.Rescale(factor, shift, keep)
		l.predictor.experts.Rescale(factor, shift, keep)
		l.predictor.score(&r.in, l.predictor.learns(l.events), &r.scored)
		components = nil // these scores are in the old unit
	case regression.Follows:
		t.unit, components = next, nil
		t.residual = next.Residual()
	}
	return t.standard(clipped), components
}

// observeNumber passes a regression prediction to the monitors. value is the value of shown, and fresh is the value by the
// current weights.
func (l *Learner) observeNumber(e *event.Example, value, fresh float64, missing model.MissingVariance, shown, told *Prediction) {
	t := l.targets
	seen := &l.room.seen
	seen.Labeled, seen.Regression, seen.Missing, seen.Residual = true, true, missing, t.residual.PublishedIn(&t.before)
	seen.After, seen.Target, seen.Value, seen.Fresh = shown.Learned, e.Target, value, fresh
	seen.Low, seen.High = l.monitors.Interval(seen.Residual, value, missing)
	if seen.Loss = math.Abs(e.Target - value); t.unit.Deviation() > 0 {
		seen.Loss /= t.unit.Deviation()
	}
	l.monitors.Counts.Numbers.Loss = t.unit.Loss(t.loss)
	l.observe(e, seen, told)
	t.residual.Take(t.unit.Target, t.unit.Clip(e.Target), value, missing.Variance)
}
