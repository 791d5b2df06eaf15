package run

// This file reads batches ahead of learning.

import (
	"context"
	"fmt"
	"runtime/debug"

	"blankout/internal/event"
)

// ahead is the reading side. Three Batches go round: one is being decoded, one waits, one
// is being learned.
type ahead struct {
	filled chan filledBatch
	free   chan *event.Batch
	stop   context.CancelFunc
	done   chan struct{}
}

type filledBatch struct {
	*event.Batch
	own []columns // see Contest.decode
	err error
}

// readAhead has a goroutine read a source, and decode what the contenders have otherwise; contest may be nil.
func readAhead(ctx context.Context, source event.Source, contest *Contest) *ahead {
	const batches = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{filled: make(chan filledBatch, batches), free: make(chan *event.Batch, batches), stop: stop, done: make(chan struct{})}
	for range batches {
		a.free <- &event.Batch{}
	}
	go func() {
		defer close(a.done)
		own := map[*event.Batch][]columns{} // each is lent with its Batch
		for {
			var b *event.Batch
			select {
			case b = <-a.free:
			case <-ctx.Done():
				return
			}
			err := next(ctx, source, contest, b, own)
			a.filled <- filledBatch{b, own[b], err} // never blocks: there are as many places as Batches
			if err != nil {
				return
			}
		}
	}()
	return a
}

// next turns a panic of a decoder into an error: it would otherwise take the
// process down from a goroutine on which nothing can be saved.
func next(ctx context.Context, source event.Source, contest *Contest, b *event.Batch, own map[*event.Batch][]columns) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s/%d after offset %d: panic: %v\n%s", b.Topic, b.Partition, b.Next, p, debug.Stack())
		}
	}()
	if err := source.Next(ctx, b); err != nil || contest == nil {
		return err
	}
	own[b], err = contest.decode(ctx, b, own[b])
	return err
}
