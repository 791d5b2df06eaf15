package mixture

// This file has the losses by which components are compared.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// Event describes an event by which components are compared. Lists of scores are by component and output. Only the first Active
// outputs are in use.
type Event struct {
	Outputs, Active int
	Label           int // index of the class
	// Decision turns scores into probabilities, with the calibration in force. Served uses it for classification.
	Decision model.Decision
	// Lose returns the loss of a score for regression. It is nil for classification, where the loss is the log-loss.
	Lose func(score float64) float64
	room []float64
}

// NoClass is the score of an output that no class has yet.
const NoClass = -30

// Lost returns the loss of mixed scores at an event.
func (e *Event) Lost(scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return model.Decision{}.LogLoss(scores, e.Label)
}

// Served returns the loss of mixed scores at an event as they are served, with the calibration in force. An error that
// the calibration corrects does not count against a component.
func (e *Event) Served(scores []float64) float64 {
	return e.ServedBy(e.Decision, scores)
}

// ServedBy is Served with another Decision.
func (e *Event) ServedBy(d model.Decision, scores []float64) float64 {
	if e.Lose != nil {
		return e.Lose(scores[0])
	}
	return d.LogLoss(e.times(scores, 1), e.Label)
}

// LostTimes returns the loss of a component's scores after multiplication by factor.
func (e *Event) LostTimes(scores []float64, factor float64) float64 {
	if e.Lose != nil {
		return e.Lose(factor * scores[0])
	}
	return e.Lost(e.times(scores, factor))
}

// times returns scores multiplied by factor, with NoClass for outputs that no class has yet. The result is valid until
// the next call.
func (e *Event) times(scores []float64, factor float64) []float64 {
	e.room = append(e.room[:0], scores[:e.Outputs]...)
	for k := range e.room {
		if e.room[k] *= factor; k >= e.Active {
			e.room[k] = NoClass
		}
	}
	return e.room
}

// losses appends the loss of each component with each scale to out.
func (m *Mixture) losses(scores []float64, e *Event, out []float64) []float64 {
	switch {
	case e.Lose != nil:
		for _, f := range scores {
			out = append(out, e.Lose(f))
		}
		return out
	case e.Outputs == 1:
		return m.binary(scores, e.Label, out)
	}
	if len(m.scaled) != e.Outputs {
		m.scaled = make([]float64, e.Outputs)
	}
	scaled := m.scaled
	for ; len(scores) > 0; scores = scores[e.Outputs:] {
		for _, scale := range m.Scales {
			for k, f := range scores[:e.Outputs] {
				if scaled[k] = scale * f; k >= e.Active {
					scaled[k] = NoClass
				}
			}
			out = append(out, model.Decision{}.LogLoss(scaled, e.Label))
		}
	}
	return out
}

// binary is losses for two classes with a single output.
func (m *Mixture) binary(scores []float64, label int, out []float64) []float64 {
	sign := 1.0
	if label == 1 {
		sign = -1
	}
	n := len(scores) * len(m.Scales)
	for _, f := range scores {
		for _, scale := range m.Scales {
			out = append(out, sign*scale*f)
		}
	}
	for _, u := range out[:n] {
		out = append(out, -math.Abs(u))
	}
	exps := out[n:]
	loss.Exps(exps)
	for i, z := range exps {
		out[i] = max(out[i], 0) + loss.Log1p(z)
	}
	return out[:n]
}
