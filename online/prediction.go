package online

// This file has predictions, and stores predictions of events whose label is delayed. When the label arrives, the
// progressive measures and the mixture weights use the stored prediction instead of a new prediction.

import (
	"fmt"
	"math"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
)

// Prediction is the prediction for an event, before the event is learned. The Learner owns its slices, which are valid
// until the next call of Predict or Learn.
type Prediction struct {
	// Learned is the number of events that the Learner had learned before this prediction.
	Learned uint64
	// Scores has one score for two classes or for regression, else one score per class.
	Scores []float64
	// Components holds the scores that were mixed into Scores. First come the scores of iterates and averages by noise
	// level and output, then the scores of the correcting experts by output. Last come the scores without the cosines and
	// those with them, if the cosines have been computed. Predict sets Components only if Learn will need them.
	Components []float64

	Decision model.Decision // how Scores become a class

	// These are for regression: the predicted value and its interval in the unit of the labels, and the loss in that
	// unit. Value is NaN before the first label. The interval is NaN if it is not known, and in results of Learn.
	Value, Low, High float64
	Loss             loss.Loss

	// Refused reports that the event is invalid. Such an event has no scores and is not learned.
	Refused bool
	alone   alone // the prediction without the last label, if Scores has a part of it
	// Mislabeled is not nil if Learn has found that the label is probably wrong, see Config.MislabeledBelow.
	Mislabeled *health.MislabeledEvent
}

// Measure adds the losses of the prediction at its labeled event to sums. For regression, Wrong is the absolute error.
func (p *Prediction) Measure(e *event.Example, sums *measure.Classes) {
	switch {
	case p.Refused:
	case p.Loss == nil:
		j := p.Decision.Judge(p.Scores, e.Label)
		sums.Add(j.Class == e.Label, e.Weight, j.LogLoss, 1)
	case !math.IsNaN(p.Value):
		sums.Add(true, e.Weight, 0, 1)
		sums.Wrong += e.Weight * math.Abs(e.Target-p.Value)
	}
}

// Append appends the prediction to out, in the form that ReadPrediction decodes. The form contains everything that
// Learn needs of a prior. It leaves out the last label, because a prior is for a label that comes late.
func (p *Prediction) Append(out []float64) []float64 {
	scores := p.Alone().Scores
	out = append(out, float64(p.Learned), float64(len(scores)))
	return append(append(out, scores...), p.Components...)
}

// ReadPrediction decodes the result of Append. The Prediction shares the memory of stored.
func ReadPrediction(stored []float64) (p Prediction, err error) {
	if len(stored) < 2 || !(stored[0] >= 0 && stored[0] < 1<<63) || !(stored[1] >= 0 && stored[1] <= float64(len(stored)-2)) || stored[1] != math.Trunc(stored[1]) {
		return p, fmt.Errorf("%d numbers that are no prediction", len(stored))
	}
	scores := 2 + int(stored[1])
	return Prediction{Learned: uint64(stored[0]), Scores: stored[2:scores:scores], Components: stored[scores:], Refused: scores == 2}, nil
}
