package online

// This file holds predictions, and how an event is learned whose prediction was made earlier: when the event came and
// waited for its label, or by the weights of an earlier state (see horizon). The progressive measures and the mixture
// weights count the earlier prediction, not what the weights have learned since.

import (
	"fmt"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/watch"
)

// Prediction is what a Learner predicts of an event before it learns the event. The slices belong to the Learner: they
// hold until its next Predict or Learn.
type Prediction struct {
	// Learned is how many events the Learner had learned.
	Learned uint64
	// Scores has one score for two classes or for a number, else one for each class.
	Scores []float64
	// Lanes are the scores that were mixed to Scores: of iterates and averages by noise level and output, and of the other
	// experts by output. Predict returns them if Learn needs them later.
	Lanes []float64

	Decision model.Decision // what Scores mean where labels are classes

	// For regression: the predicted number and its interval, in the unit of the labels, and the loss in that unit. Value
	// is NaN before the first label, and the interval is NaN if none is known; only Predict returns one.
	Value, Low, High float64
	Loss             loss.Loss

	// Refused says that the event was refused: it has no scores and is not learned.
	Refused bool
	// Mislabeled is set by Learn if the label is probably wrong, see Config.MislabeledBelow.
	Mislabeled *watch.MislabeledEvent
}

// refused returns the Prediction for a refused event.
func (l *Learner) refused() Prediction { return Prediction{Learned: l.events, Refused: true} }

// Measure adds what the prediction loses at its labeled event to sums. For regression, Wrong gets the absolute error.
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

// Append appends to out what ReadPrediction reads: what Learn needs of an earlier prediction.
func (p *Prediction) Append(out []float64) []float64 {
	out = append(out, float64(p.Learned), float64(len(p.Scores)))
	return append(append(out, p.Scores...), p.Lanes...)
}

// ReadPrediction returns the Prediction that Append has written. It shares the memory of stored.
func ReadPrediction(stored []float64) (p Prediction, err error) {
	if len(stored) < 2 || !(stored[0] >= 0 && stored[0] < 1<<63) || !(stored[1] >= 0 && stored[1] <= float64(len(stored)-2)) || stored[1] != math.Trunc(stored[1]) {
		return p, fmt.Errorf("%d numbers that are no prediction", len(stored))
	}
	scores := 2 + int(stored[1])
	return Prediction{Learned: uint64(stored[0]), Scores: stored[2:scores:scores], Lanes: stored[scores:], Refused: scores == 2}, nil
}

// predicting is the memory of Predict.
type predicting struct{ scores, lanes []float64 }

// Predict returns the prediction for an event. It learns nothing and observes nothing.
func (l *Learner) Predict(e *event.Example) Prediction {
	if !e.Usable() {
		return l.refused()
	}
	b, m := &l.predicting, l.published()
	b.scores = slices.Grow(b.scores[:0], m.Outputs)[:m.Outputs]
	p := Prediction{Learned: l.events, Scores: m.Score(e, b.scores)}
	if !l.shared() && (len(l.levels) > 1 || l.second.knows()) {
		older := l.older()
		b.lanes = older.appendLanes(e, b.lanes[:0])
		p.Learned, p.Lanes = older.events, b.lanes
	}
	if !l.set.numbers {
		p.Decision = m.Decision()
		return p
	}
	p.Loss, p.Value, p.Low, p.High = l.targetLoss(), math.NaN(), math.NaN(), math.NaN()
	if l.anyLabel() {
		p.Value = l.unit.Told(p.Scores[0])
		p.Low, p.High = l.interval(p.Value, model.ScoreVariance(m, e))
	}
	return p
}

// predicted returns the Prediction for the current event but for its Scores, before they leave the Learner's unit.
func (l *Learner) predicted() Prediction {
	p := Prediction{Learned: l.events - 1}
	if !l.set.numbers {
		p.Decision = l.decision()
		return p
	}
	p.Loss, p.Value, p.Low, p.High = l.targetLoss(), math.NaN(), math.NaN(), math.NaN()
	if l.anyLabel() {
		p.Value = l.unit.Value(l.now.scores[0])
	}
	return p
}

// anyLabel says whether a labeled event has been learned. Numbers that are predicted before tell nothing of the model.
func (l *Learner) anyLabel() bool { return l.watch.Baselines.First > 0 }

// earlier is the prediction that counts for the current event if it was made earlier.
type earlier struct {
	lanes   []float64 // of the current event, see appendLanes; nil if those of now count
	scores  int       // how many it had
	experts []float64 // the part of lanes that is the experts'
	learned uint64    // how many events had been learned

	// Memory.
	features         event.Vec
	rows             [][]float64
	x, noBasis       []float64
	iterate, lag, q  []float64
	published        []float64
	buffer, standard []float64 // for lanes, and for them in the Learner's unit
}

// setEarlier finds the lanes that count for an event: those of its earlier prediction or those of an older state.
// The weights of now give the same as the prediction if nothing has been learned since.
func (l *Learner) setEarlier(e *event.Example, prior *Prediction) {
	a := &l.earlier
	a.lanes, a.learned = nil, l.events
	if prior != nil {
		if a.learned = prior.Learned; prior.Learned != l.events {
			a.lanes, a.scores = prior.Lanes, len(prior.Scores)
		}
		return
	}
	if older := l.older(); older != l {
		a.buffer = older.appendLanes(e, a.buffer[:0])
		a.lanes, a.scores = a.buffer, l.outputs()
	}
}

// appendLanes appends the scores that iterates, averages and experts give an event: by level and output, and by expert
// and output. Those of numbers are in the unit of the labels.
func (l *Learner) appendLanes(e *event.Example, out []float64) []float64 {
	m := model.Linear{Head: model.Head{Scaler: l.scaling.Scaler, Layout: model.Layout{Width: l.table.Width()}}, Rows: l.table}
	a := &l.earlier
	e = l.declare(e)
	a.features = m.Standardized(e, event.Vec{Index: a.features.Index[:0], Value: a.features.Value[:0]})
	at := len(out)
	out = l.appendLevels(out)
	if l.second.knows() {
		l.mixOf(l.shares.InForce[0].Levels, l.averaged(out[at:]), l.second.base)
		l.second.expert.Score(a.features.Index, a.features.Value, l.second.base, l.second.scores)
		out = l.second.expert.Said(out)
	}
	if l.set.numbers {
		for i, f := range out[at:] {
			out[at+i] = l.unit.Score(f)
		}
	}
	return out
}

// appendLevels appends the scores that iterates and averages give the features that appendLanes has standardized.
func (l *Learner) appendLevels(out []float64) []float64 {
	a := &l.earlier
	a.rows, a.noBasis, a.x = a.rows[:0], a.noBasis[:0], a.x[:0]
	a.iterate, a.lag, a.q = zeros(a.iterate, l.n), zeros(a.lag, l.n), zeros(a.q, l.n)
	for i, column := range a.features.Index {
		if row := l.table.Row(column); row != nil {
			a.rows, a.noBasis, a.x = append(a.rows, row), append(a.noBasis, 0), append(a.x, a.features.Value[i])
		}
	}
	if l.set.intercept {
		a.rows, a.noBasis, a.x = append(a.rows, l.bias), append(a.noBasis, 0), append(a.x, 1)
	}
	rows.Sum(a.rows, rows.FirstPart, l.n, a.x, a.noBasis, a.iterate, a.lag, a.q)
	out = append(out, a.iterate...)
	for j, f := range a.iterate {
		out = append(out, f+l.levels[j/l.k].Coefficient*a.lag[j])
	}
	return out
}

// averaged returns what the levels publish if their iterates and averages give these scores, borrowed.
func (l *answering) averaged(lanes []float64) []float64 {
	out := l.earlier.published[:0]
	for j, f := range lanes[:l.n] {
		out = append(out, f+l.levels[j/l.k].AverageShare()*(lanes[l.n+j]-f))
	}
	l.earlier.published = out
	return out
}

// useEarlier has the lanes of the earlier prediction count for the current event, if they are of the present outputs.
func (l *answering) useEarlier() {
	a, n := &l.earlier, 2*l.n
	l.now.told, a.experts = nil, nil
	if a.scores != l.young.Scores(l.k) || len(a.lanes) != n && !(l.second.knows() && len(a.lanes) == n+l.second.expert.Count()*l.k) {
		return
	}
	if l.set.numbers {
		a.standard = a.standard[:0]
		for _, f := range a.lanes {
			a.standard = append(a.standard, l.unit.Own(f))
		}
		a.lanes = a.standard
	}
	l.now.told, a.experts = a.lanes[:n], a.lanes[n:]
}

// said returns the scores of levels and experts that count for the current event. The experts' are nil if those of now
// count.
func (l *answering) said() (levels, experts []float64) {
	if l.now.told == nil {
		return l.now.published, nil
	}
	return l.averaged(l.now.told), l.earlier.experts
}
