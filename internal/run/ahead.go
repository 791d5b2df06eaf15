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
	err error
}

func readAhead(ctx context.Context, source event.Source) *ahead {
	const batches = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{filled: make(chan filledBatch, batches), free: make(chan *event.Batch, batches), stop: stop, done: make(chan struct{})}
	for range batches {
		a.free <- &event.Batch{}
	}
	go func() {
		defer close(a.done)
		for {
			var b *event.Batch
			select {
			case b = <-a.free:
			case <-ctx.Done():
				return
			}
			err := next(ctx, source, b)
			a.filled <- filledBatch{b, err} // never blocks: there are as many places as Batches
			if err != nil {
				return
			}
		}
	}()
	return a
}

// next turns a panic of a decoder into an error: it would otherwise take the
// process down from a goroutine on which nothing can be saved.
func next(ctx context.Context, source event.Source, b *event.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s/%d after offset %d: panic: %v\n%s", b.Topic, b.Partition, b.Next, p, debug.Stack())
		}
	}()
	return source.Next(ctx, b)
}
