package run

// This file deals with events that their decoder has not refused and the Learner will: there is no room for their
// features or their class.

import (
	"context"
	"slices"

	"blankout/batch/validate"
	"blankout/internal/event"
)

// refusal returns, under PolicyFail, the error of an event that the Learner will refuse. Nothing of the event has been
// counted in then.
func (in *Intake) refusal(b *event.Batch, e *event.Example) error {
	if in.Refused != PolicyFail || in.Labels != nil || validate.HeldOut(b.Partition, e.Offset, in.Holdout) {
		return nil
	}
	return refusedError(b, e, in.Learner.Refusal(e))
}

// refusedError is the error of a refusal, nil where there is none.
func refusedError(b *event.Batch, e *event.Example, r *event.Refusal) error {
	if r == nil {
		return nil
	}
	refusal := *r
	refusal.Value = slices.Clone(e.Value)
	return &RefusedError{b.Topic, b.Partition, e.Offset, refusal}
}

// decline counts an event that the Learner will refuse, and says whether it was one.
func (in *Intake) decline(b *event.Batch, e *event.Example) bool {
	r := in.Learner.Refusal(e)
	if r == nil {
		return false
	}
	r.Value = e.Value
	refused := event.Example{Label: event.Unlabeled, Key: e.Key, Time: e.Time, Offset: e.Offset, Fingerprint: e.Fingerprint, Refused: r}
	in.refuse(b, &refused)
	if in.Refused == PolicyDeadLetter && in.Labels == nil {
		in.declined = append(in.declined, refused)
	}
	return true
}

// storeDeclined hands the events of a batch that the Learner has refused on to the dead letters. Where they are not
// safe nothing is saved that passes them.
func (in *Intake) storeDeclined(ctx context.Context, b *event.Batch) error {
	declined := in.declined
	in.declined = nil
	err := in.storeRefused(ctx, b, declined)
	in.unsafe = in.unsafe || err != nil
	return err
}
