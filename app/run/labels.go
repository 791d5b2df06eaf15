package run

// This file learns events with delayed labels.

import (
	"fmt"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/stream/labels"
)

// LabelCounts has the counts of events and delayed labels by result.
type LabelCounts = labels.Counts

// join processes a record of a joined stream. An event is predicted and waits for its label. A label makes its event
// learned, with the features and the prediction from the event's arrival.
func (in *intake) join(b *event.Batch, e *event.Example) error {
	j := in.Labels
	j.Advance(b.Topic, b.Partition, e)
	for {
		w, err := j.Expired()
		if err != nil {
			return err
		}
		if w == nil {
			break
		}
		in.Labels.SetDefault(w.Example, in.Learner.Schema()) // its label did not arrive in time
		if err := in.learnWaited(b, w); err != nil {
			return err
		}
	}
	if e.Refused != nil {
		in.refuse(b, e)
		return nil
	}
	var outcome labels.Outcome
	var w *labels.Waited
	var err error
	if b.Labels {
		outcome, w, err = j.Label(e)
	} else {
		p := in.Learner.Predict(e)
		in.stored = p.Append(in.stored[:0])
		outcome, w, err = j.Event(e, b.Partition, in.stored)
		if err == nil && outcome != labels.Repeats && in.Waits != nil {
			err = in.Waits(e, &p)
		}
	}
	if err != nil {
		return err
	}
	if outcome == labels.IsLate && in.DeadLetters != nil && j.KeepsLate() {
		late := *e
		late.Refused = &event.Refusal{Reason: event.ReasonLate, Detail: "a label whose event no longer waits", Value: e.Value}
		in.letters = append(in.letters, late)
	}
	if w != nil {
		return in.learnWaited(b, w)
	}
	return nil
}

// learnWaited learns an event that has waited for its label. If the Learner refuses the event, there is no dead letter,
// because the bytes of the event were not kept.
func (in *intake) learnWaited(b *event.Batch, w *labels.Waited) error {
	prior, err := online.ReadPrediction(w.Prediction)
	if err != nil {
		return fmt.Errorf("an event that waited for its label: %w", err)
	}
	if err := in.predicted(w.Example, &prior); err != nil {
		return err
	}
	switch {
	case validate.HeldOut(w.Partition, w.Offset, in.holdout):
		in.holdOut(w.Example)
		return nil
	case in.Config.Refused == PolicyFail && in.Learner.Refusal(w.Example) != nil:
		return refusedError(b, w.Example, in.Learner.Refusal(w.Example))
	case in.decline(b, w.Example):
		return nil
	case w.Label == event.Unlabeled:
		in.counts.Unlabeled++
		in.Learner.Learn(w.Example, nil)
		return nil
	}
	in.counts.Learned++
	in.remember(w.Example)
	var fresh measure.Classes
	p := in.Learner.Learn(w.Example, &prior)
	p.Measure(w.Example, &fresh)
	in.Labels.Learned(fresh.Weight, fresh.Wrong, fresh.LogLoss)
	return nil
}
