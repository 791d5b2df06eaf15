package run

// This file learns events whose labels come later.

import (
	"context"
	"slices"

	"blankout"
	"blankout/labels"
	"blankout/measure"
	"blankout/online"
	"blankout/validate"
)

// join counts in an example of a joined stream. An event is scored and waits; a label has
// its event learned, with the features and scores of when that came.
func (l *loop) join(b *blankout.Batch, e *blankout.Example) error {
	err := l.tryJoin(b, e)
	if err != nil {
		l.saver.final = err // the record is half counted in: what is in memory must not be saved
	}
	return err
}

func (l *loop) tryJoin(b *blankout.Batch, e *blankout.Example) error {
	j := l.Labels
	j.Advance(b.Topic, b.Partition, e)
	for {
		w, err := j.Expired()
		if err != nil {
			return err
		}
		if w == nil {
			break
		}
		l.learnExpired(w)
	}
	if e.Refused != nil {
		l.current.Refused++
		l.current.RefusedBy[e.Refused.Reason]++
		l.current.RefusedSamples = withSample(l.current.RefusedSamples, refusedSample(b, e))
		l.Learner.Learn(e) // which counts it
		return nil
	}
	var outcome labels.Outcome
	var w *labels.Waited
	var err error
	if b.Labels {
		outcome, w, err = j.Label(e)
	} else {
		l.told = l.Learner.Score(e, slices.Grow(l.told[:0], l.Learner.Schema().Outputs()))
		outcome, w, err = j.Event(e, b.Partition, l.told)
	}
	if err != nil {
		return err
	}
	if outcome == labels.IsLate {
		l.late = append(l.late, *e)
	}
	if w != nil {
		l.learnWaited(w)
	}
	return nil
}

// learnExpired takes up an event that waited in vain.
func (l *loop) learnExpired(w *labels.Waited) {
	l.Labels.SetDefault(w.Example, l.Learner.Schema())
	l.learnWaited(w)
}

func (l *loop) learnWaited(w *labels.Waited) {
	var fresh measure.Classes
	switch {
	case validate.HeldOut(w.Partition, w.Offset, l.validator.holdout):
		l.current.HeldOut++
		if w.Label != blankout.Unlabelled && online.Usable(w.Example) {
			l.recent.offer(w.Example)
			l.assess(w.Example)
		}
		return
	case w.Label == blankout.Unlabelled:
		l.current.Unlabelled++
		l.Learner.Learn(w.Example)
		return
	}
	l.current.Learned++
	l.recent.offer(w.Example)
	l.Learner.LearnLater(w.Example, w.Scores, &fresh)
	l.Labels.Learned(fresh.Weight, fresh.Wrong, fresh.LogLoss)
}

// atLearning returns what the events would have been told as they were learned.
func (l *loop) atLearning() measure.Classes {
	s := l.Labels.State()
	return measure.Classes{Weight: s.Weight, Wrong: s.Wrong, LogLoss: s.LogLoss}
}

// storeLate hands late labels on to the dead letters, and keeps at it for as long as it
// takes.
func (l *loop) storeLate(ctx context.Context, b *blankout.Batch) error {
	late := l.late
	l.late = nil
	if len(late) == 0 || l.DeadLetters == nil || !l.Labels.KeepsLate() {
		return nil
	}
	try := func() error {
		for ; len(late) > 0; late = late[1:] {
			e := late[0]
			e.Refused = &blankout.Refusal{Reason: blankout.ReasonLate, Detail: "a label whose event waits no more", Value: e.Value}
			if err := l.DeadLetters.Add(ctx, b.Topic, b.Partition, &e); err != nil {
				return err
			}
			l.current.DeadLetters[blankout.ReasonLate]++
		}
		return l.DeadLetters.Flush(ctx)
	}
	return l.retry(ctx, l.deadLetters(), try, "topic", b.Topic, "partition", b.Partition)
}
