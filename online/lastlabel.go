package online

// This file lets the last label take part in the predictions of a Learner. It is part of the stream and not of the model:
// published models, and predictions for labels that come late, leave it out.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/online/lastlabel"
)

// lastLabel holds the last label, and the prediction of the current event with it.
type lastLabel struct {
	lastlabel.Label
	used     bool // the settings allow it
	coverage float64
	told     health.LabeledEvent
	moved    float64 // how much it raises the log-odds of the second class of two
	chances  []float64
	scores   []float64
}

// newLastLabel returns the last label of a new stream. Class weights and losses without likelihood shift scores on
// purpose, so a mixture that minimizes the log-loss of classes would undo that.
func (s *settings) newLastLabel(c Config) lastLabel {
	regression := s.levels.Loss.Facts().Regression
	return lastLabel{Label: lastlabel.New(), used: regression || s.likelihood && len(c.ClassWeight) == 0, coverage: c.Coverage}
}

// alone is a prediction without the last label.
type alone struct {
	scores           []float64
	decision         model.Decision
	value, low, high float64
}

// Alone returns the prediction of the model alone: without the last label, which only the Learner knows.
func (p *Prediction) Alone() Prediction {
	out := *p
	if a := p.alone; a.scores != nil {
		out.Scores, out.Decision, out.Value, out.Low, out.High, out.alone = a.scores, a.decision, a.value, a.low, a.high, alone{}
	}
	return out
}

// tell mixes the last label into a prediction.
func (l *Learner) tell(p *Prediction) {
	x := &l.predictor.last
	if !x.used || l.levels.Passed() || x.Weight() == 0 || p.Loss != nil && math.IsNaN(p.Value) {
		return
	}
	p.alone = alone{p.Scores, p.Decision, p.Value, p.Low, p.High}
	if p.Loss != nil {
		p.Value = x.MixNumber(p.Value)
		p.Low, p.High = x.interval(p.Value, &p.alone)
		score := p.Value
		if l.targets.unit.Target == loss.Count {
			score = math.Log(max(score, math.SmallestNonzeroFloat64))
		}
		x.scores = append(x.scores[:0], score)
		p.Scores = x.scores
		return
	}
	n := max(2, len(p.Scores))
	x.chances = append(x.chances[:0], make([]float64, n)...)
	chances := p.Decision.Probabilities(p.Scores, x.chances)
	x.moved = -math.Log(max(chances[1], math.SmallestNonzeroFloat64) / max(chances[0], math.SmallestNonzeroFloat64))
	x.Mix(chances, l.monitors.Measures.Classes)
	if len(p.Scores) == 1 {
		x.scores = append(x.scores[:0], math.Log(chances[1]/chances[0]))
		x.moved += x.scores[0]
	} else {
		x.scores = x.scores[:0]
		for _, c := range chances {
			x.scores = append(x.scores, math.Log(c/(1-c)))
		}
	}
	p.Scores, p.Decision.Link = x.scores, nil // the scores are log-odds
}

// lastLabel returns the weight of the last label in predictions, or 0 if it has never had a part in them.
func (l *Learner) lastLabel() float64 {
	if !l.monitors.Measures.Baselines.Helped {
		return 0
	}
	return l.predictor.last.Share()
}

// interval returns the interval of a value that has been mixed with the last label.
func (x *lastLabel) interval(value float64, a *alone) (low, high float64) {
	return value - x.Width*(a.value-a.low), value + x.Width*(a.high-a.value)
}

// tellLabeled mixes the last label into p, the prediction of a labeled event, and learns from seen, which has the event
// with the prediction of the model alone. It returns what the measures take, or nil if that is seen. p is nil for a label
// that comes late.
func (l *Learner) tellLabeled(p *Prediction, seen *health.LabeledEvent) *health.LabeledEvent {
	x := &l.predictor.last
	if p == nil || !x.used || l.levels.Passed() {
		x.Forget()
		return nil
	}
	l.tell(p)
	if seen.Regression {
		x.Number(seen.Target, seen.Value, p.Loss, seeks(seen.Number))
	} else {
		x.Class(seen.Label, seen.Loss, l.monitors.Measures.Classes, max(2, len(p.Scores)), seeks(seen.Number))
	}
	if p.alone.scores == nil {
		return nil
	}
	x.told = *seen
	if !seen.Regression {
		j := p.Decision.Judge(p.Scores, seen.Label)
		x.told.Loss, x.told.Predicted, x.told.Probability = j.LogLoss, j.Class, j.Probability
		if len(p.Scores) == 1 {
			x.told.Score += x.moved // the AUC also ranks scores without the last label, which are no log-odds before their link
		}
		return &x.told
	}
	x.told.Value = p.Value
	x.told.Low, x.told.High = x.interval(p.Value, &alone{value: seen.Value, low: seen.Low, high: seen.High})
	if x.told.Low <= x.told.High {
		x.Cover(x.told.Low <= seen.Target && seen.Target <= x.told.High, x.coverage)
	}
	return &x.told
}
