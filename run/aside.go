package run

// This file puts records aside: dead letters and suspects.

import (
	"context"
	"fmt"
	"time"

	"blankout"
	"blankout/internal/failpoint"
	"blankout/online"
)

// DeadLetters takes the records that cannot be used.
type DeadLetters interface {
	// Add takes up a refused example. After an error it was not taken, and Add
	// may be called again with it.
	Add(ctx context.Context, topic string, partition int32, e *blankout.Example) error
	// Flush returns nil once everything added is safe. After an error it may be
	// called again.
	Flush(ctx context.Context) error
}

// Suspects takes the events whose label is probably wrong, see Config.Suspect.
// They are learned like all others.
type Suspects interface {
	// Add takes up an example; the label is the name of its class. After an error
	// it was not taken, and Add may be called again with it.
	Add(ctx context.Context, topic string, partition int32, e *blankout.Example, label string, s online.Suspicion) error
	// Flush returns nil once everything added is safe. After an error it may be
	// called again.
	Flush(ctx context.Context) error
}

// aside is what has been handed on to be kept aside.
type aside struct {
	suspects []suspect // of the part of a batch at hand, not yet handed on
	added    uint64    // suspects handed on
}

// suspect is one among the examples of the batch at hand.
type suspect struct {
	at int
	online.Suspicion
}

// addSuspects hands on the suspects of a batch.
func (l *loop) addSuspects(ctx context.Context, b *blankout.Batch) error {
	classes := l.Learner.Schema().Classes
	for ; len(l.aside.suspects) > 0; l.aside.suspects = l.aside.suspects[1:] {
		s := l.aside.suspects[0]
		if err := l.Suspects.Add(ctx, b.Topic, b.Partition, &b.Examples[s.at], classes[s.Class], s.Suspicion); err != nil {
			return err
		}
		l.aside.added++
	}
	l.aside.suspects = nil
	return nil
}

// flushSuspects returns nil once all suspects so far are safe.
func (l *loop) flushSuspects(ctx context.Context) error {
	if l.Suspects == nil || l.aside.added == l.current.Suspects {
		return nil
	}
	if err := failpoint.Here("run.suspects"); err != nil {
		return err
	}
	if err := l.Suspects.Flush(ctx); err != nil {
		return err
	}
	l.current.Suspects = l.aside.added
	return nil
}

// unusable says whether an example is refused for what it is.
func unusable(e *blankout.Example) bool { return e.Refused != nil && e.Refused.Reason.Faulty() }

// storeRefused stores the refused ones among the first n examples, and keeps at
// it for as long as it takes: meanwhile nothing is read, and the run is not ready.
func (l *loop) storeRefused(ctx context.Context, b *blankout.Batch, n int) error {
	first := 0
	for first < n && !unusable(&b.Examples[first]) {
		first++
	}
	if first == n {
		return nil
	}
	added, stored := first, map[blankout.Reason]uint64{}
	try := func() error {
		if err := failpoint.Here("run.deadletters"); err != nil {
			return err
		}
		for ; added < n; added++ {
			e := &b.Examples[added]
			if !unusable(e) {
				continue
			}
			if err := l.DeadLetters.Add(ctx, b.Topic, b.Partition, e); err != nil {
				return err
			}
			stored[e.Refused.Reason]++
		}
		return l.DeadLetters.Flush(ctx)
	}
	if err := l.retry(ctx, l.deadLetters(), try, "topic", b.Topic, "partition", b.Partition, "offset", b.Examples[first].Offset); err != nil {
		return err
	}
	for reason, count := range stored {
		l.current.DeadLetters[reason] += count
	}
	return nil
}

// store is a place where records are kept for a person to look at.
type store struct {
	name     string  // of what is kept there
	failures *uint64 // counts the attempts to store that failed
}

func (l *loop) deadLetters() store { return store{"dead letters", &l.current.DeadLetterFailures} }

func (l *loop) waiting() store {
	return store{"events that wait for labels", &l.current.WaitingFailures}
}

func (l *loop) suspectStore() store { return store{"suspects", &l.current.SuspectFailures} }

// retry calls try, which stores records, until it succeeds or ctx ends. Meanwhile
// nothing is learned, and the run is not ready. about goes into the log.
func (l *loop) retry(ctx context.Context, in store, try func() error, about ...any) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		*in.failures++
		l.log.Error(in.name+" cannot be stored; learning waits", append(about, "retry_in", wait, "err", err)...)
		l.report(fmt.Sprintf("%s cannot be stored: %v", in.name, err))
		for timer := time.After(wait); timer != nil; {
			select {
			case <-timer:
				timer = nil
			case take := <-l.finished:
				take()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
