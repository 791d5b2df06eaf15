package run

// This file reads batches ahead of learning.

import (
	"context"
	"fmt"
	"runtime/debug"

	"blankout/internal/event"
)

// ahead reads and decodes ahead of learning. It has three Batches: one Batch is being decoded, one waits, and one is
// being learned.
type ahead struct {
	filled chan filledBatch
	free   chan *event.Batch
	stop   context.CancelFunc
	done   chan struct{}
}

type filledBatch struct {
	*event.Batch
	own []columns // columns by learner, see Challengers.decode
	err error
}

// readAhead starts a goroutine that reads a source and decodes the learners' separate columns. challengers may be nil.
func readAhead(ctx context.Context, source event.Source, challengers *Challengers) *ahead {
	const batches = 3
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{filled: make(chan filledBatch, batches), free: make(chan *event.Batch, batches), stop: stop, done: make(chan struct{})}
	for range batches {
		a.free <- &event.Batch{}
	}
	go func() {
		defer close(a.done)
		own := map[*event.Batch][]columns{} // columns of each Batch
		for {
			var b *event.Batch
			select {
			case b = <-a.free:
			case <-ctx.Done():
				return
			}
			err := next(ctx, source, challengers, b, own)
			a.filled <- filledBatch{b, own[b], err} // never blocks, because the channel has capacity for all Batches
			if err != nil {
				return
			}
		}
	}()
	return a
}

// next converts a panic of a decoder to an error. Otherwise the panic would end the process without a save.
func next(ctx context.Context, source event.Source, challengers *Challengers, b *event.Batch, own map[*event.Batch][]columns) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s/%d after offset %d: panic: %v\n%s", b.Topic, b.Partition, b.Next, p, debug.Stack())
		}
	}()
	if err := source.Next(ctx, b); err != nil || challengers == nil {
		return err
	}
	own[b], err = challengers.decode(ctx, b, own[b])
	return err
}
