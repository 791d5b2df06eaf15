// Package answer says what scores are worth: which probability they stand for (Link), and what they
// lose at an event (Judge). It knows no weights.
package answer

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/numbers"
	"blankout/online/rows"
	"blankout/online/young"
)

// Judge says what scores of an event lose. It may change the scores of outputs that are not in use.
type Judge struct {
	Loss    loss.Loss // of numbers, nil where labels are classes
	Scales  []float64 // at which the scores of single levels are judged
	scaled  []float64
	byClass []float64

	// The event: of classes its label's output and class, the outputs in use, which class each learns and what scores
	// mean; of numbers the label in its own unit and in that of the scores.
	Label       int
	Class       int
	Classes     *young.Classes
	Active      int
	Decision    model.Decision
	Raw, Target float64
	Unit        numbers.Unit
}

// Lost returns what scores lose: the log-loss as log-odds, whatever the Link of the Decision is, of numbers the Loss in
// units of the targets' scale.
func (j *Judge) Lost(scores []float64) float64 {
	if j.Loss != nil {
		value, _, _ := j.Loss.At(j.Target, scores[0], 0)
		return value
	}
	j.Silence(scores)
	return model.Decision{}.LogLoss(scores, j.Label)
}

// Silence gives the outputs that are not in use the score of a class that has not come.
func (j *Judge) Silence(scores []float64) {
	for k := j.Active; k < len(scores); k++ {
		scores[k] = rows.NoClass
	}
}

// AddLosses appends to losses what each of several levels loses at each of the Scales; scores are theirs, of so many
// outputs each.
func (j *Judge) AddLosses(losses, scores []float64, outputs int) []float64 {
	if j.Loss == nil && outputs == 1 {
		return j.addLosses(losses, scores)
	}
	if len(j.scaled) != outputs {
		j.scaled = make([]float64, outputs)
	}
	for ; len(scores) >= outputs; scores = scores[outputs:] {
		for _, scale := range j.Scales {
			for k, f := range scores[:j.Active] {
				j.scaled[k] = scale * f
			}
			losses = append(losses, j.Lost(j.scaled))
		}
	}
	return losses
}

// addLosses is AddLosses for two classes told apart by one output: Lost of each, to the bit.
func (j *Judge) addLosses(losses, scores []float64) []float64 {
	j.scaled = j.scaled[:0]
	for _, f := range scores {
		for _, scale := range j.Scales {
			u := scale * f
			if j.Label == 1 {
				u = -u
			}
			losses, j.scaled = append(losses, u), append(j.scaled, -math.Abs(u))
		}
	}
	loss.Exps(j.scaled)
	lost := losses[len(losses)-len(j.scaled):]
	for i, z := range j.scaled {
		lost[i] = max(lost[i], 0) + loss.Log1p(z)
	}
	return losses
}

// Wrong returns the error of scores, of numbers its square.
func (j *Judge) Wrong(scores []float64) float64 {
	if j.Loss != nil {
		r := j.Raw - j.Unit.Value(scores[0])
		return r * r
	}
	label := j.Label
	if j.Silence(scores); j.Classes != nil && j.Classes.On() {
		j.byClass = j.Classes.Expand(scores, rows.NoClass, j.byClass[:0])
		scores, label = j.byClass, j.Class
	}
	if j.Decision.Predict(scores) != label {
		return 1
	}
	return 0
}

// LogLoss returns the log-loss of scores as they are served, NaN of numbers.
func (j *Judge) LogLoss(scores []float64) float64 {
	if j.Loss != nil {
		return math.NaN()
	}
	j.Silence(scores)
	return j.Decision.LogLoss(scores, j.Label)
}

// Widen makes a score of one whose filled-in part has the variance v.
func (j *Judge) Widen(f, v float64) float64 {
	switch {
	case j.Loss == nil:
		return model.WidenClass(f, v)
	case j.Unit.Target == loss.Count:
		return model.WidenCount(f, v)
	}
	return f
}
