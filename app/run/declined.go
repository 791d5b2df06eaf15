package run

// This file handles events that the Learner refuses because its memory limit excludes their features or class.

import (
	"context"
	"slices"

	"blankout/batch/validate"
	"blankout/internal/event"
)

// refusal returns an error under PolicyFail if the Learner will refuse the event, before the event is counted.
func (in *Intake) refusal(b *event.Batch, e *event.Example) error {
	if in.Refused != PolicyFail || in.Labels != nil || validate.HeldOut(b.Partition, e.Offset, in.Holdout) {
		return nil
	}
	return refusedError(b, e, in.Learner.Refusal(e))
}

// refusedError returns the error for a refusal, or nil if r is nil.
func refusedError(b *event.Batch, e *event.Example, r *event.Refusal) error {
	if r == nil {
		return nil
	}
	refusal := *r
	refusal.Value = slices.Clone(e.Value)
	return &RefusedError{b.Topic, b.Partition, e.Offset, refusal}
}

// decline reports whether the Learner will refuse an event. If so, it counts the event as declined.
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

// storeDeclined passes the events of a batch that the Learner has refused to the dead letters. No checkpoint includes
// these events until they are stored safely.
func (in *Intake) storeDeclined(ctx context.Context, b *event.Batch) error {
	declined := in.declined
	in.declined = nil
	err := in.storeRefused(ctx, b, declined)
	in.unsafe = in.unsafe || err != nil
	return err
}
