package stream

// This file reads and decodes a file ahead of its caller.

import (
	"context"
	"slices"
	"sync"

	"blankout/internal/event"
	"blankout/stream/record"
)

// pipeline reads and decodes a File in its own goroutines. One goroutine reads. If lines can be decoded independently,
// other goroutines decode block by block. Next returns the blocks in the order of the file, so the result does not
// depend on the number of threads.
type pipeline struct {
	free, ready chan *block // empty blocks, and decoded blocks in the order of the file
	work        chan *block // blocks to decode
	cancel      func()      // stops reading
	done        sync.WaitGroup
	held        *block // block whose Batch the caller of Next uses
	err         error
}

// block is a Batch, and the memory that its examples borrow.
type block struct {
	batch event.Batch
	bytes []byte
	err   error

	packed any // result of pack for the examples
	// lines, records, labels and index are for lines that are decoded independently.
	lines   record.Lines // lengths of the lines in bytes
	records []record.Record
	labels  [][]byte // nil for a rejected record
	index   []uint32 // column indices of all examples
	value   []float64
	decoded chan struct{}
}

// blockLines is the largest number of lines in a block that is decoded independently.
const blockLines = 1 << 10

// Ahead makes the File read and decode in its own goroutines, a few batches ahead of Next. svmlight with numeric
// indices uses the given number of threads; other formats use one. The Schema grows while a batch is being learned, so
// callers must use the Schema of the Batch, not the Schema of the File. Close ends the goroutines.
//
// If pack is not nil, these goroutines call it with the Examples of each Batch, several at the same time. Packed
// returns its result. The Examples have no Labels then. An Example with an invalid Label is refused only after pack.
func (f *File) Ahead(threads int, pack func([]event.Example) any) {
	threads = max(threads, 1)
	ctx, cancel := context.WithCancel(context.Background())
	f.records.readUntil(ctx)
	n := 2*threads + 3
	a := &pipeline{free: make(chan *block, n), ready: make(chan *block, n), work: make(chan *block, n), cancel: cancel}
	for range n {
		a.free <- &block{decoded: make(chan struct{}, 1)}
	}
	f.pipeline = a
	if pack == nil {
		pack = func([]event.Example) any { return nil }
	}
	fill := func(k *block) {
		if f.fill(ctx, k, false); k.err == nil {
			k.packed = pack(k.batch.Examples)
		}
		k.decoded <- struct{}{}
	}
	if d, ok := f.decoder.(*record.Svmlight); ok && d.Fork() != nil {
		fill = func(k *block) {
			k.bytes = f.scanner.Move(k.bytes)
			k.lines, k.err = f.scanner.Lines(blockLines)
			if k.bytes = f.scanner.Buffer(); k.err != nil {
				k.decoded <- struct{}{}
				return
			}
			a.work <- k
		}
		for range threads {
			d, lines := d.Fork(), f.scanner.Fork()
			a.done.Go(func() {
				for k := range a.work {
					f.decode(k, d, lines)
					k.packed = pack(k.batch.Examples)
					k.decoded <- struct{}{}
				}
			})
		}
	}
	a.done.Go(func() {
		defer close(a.work)
		for {
			select {
			case <-ctx.Done():
				return
			case k := <-a.free:
				fill(k)
				a.ready <- k
				if k.err != nil {
					return
				}
			}
		}
	})
}

func (a *pipeline) next(ctx context.Context, f *File, b *event.Batch) error {
	if a.err != nil {
		return a.err
	}
	if a.held != nil {
		a.free <- a.held
		a.held = nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a.held = <-a.ready:
	}
	k := a.held
	<-k.decoded
	if a.err = k.err; a.err != nil {
		return a.err
	}
	if k.lines.Count > 0 {
		f.decodeLabels(k)
	}
	*b = k.batch
	return nil
}

// decode decodes all lines of k except their labels. The entries of all examples are stored one after the other. An
// entry takes at least four bytes, as in 1:1 and a space.
func (f *File) decode(k *block, d *record.Svmlight, s *record.Scanner) {
	s.Set(k.lines)
	most := len(k.lines.Text)/4 + k.lines.Count
	k.index, k.value = slices.Grow(k.index[:0], most), slices.Grow(k.value[:0], most)
	k.records, k.labels = slices.Grow(k.records[:0], k.lines.Count), slices.Grow(k.labels[:0], k.lines.Count)
	examples := slices.Grow(k.batch.Examples[:0], k.lines.Count)
	var r record.Record
	for s.Scan(&r) {
		examples = examples[:len(examples)+1]
		e := &examples[len(examples)-1]
		place := len(k.index)
		e.Features = event.Vec{Index: k.index[place:], Value: k.value[place:]}
		label, _ := d.DecodeFeatures(&r, e)
		n := e.Features.Len()
		e.Features = event.Vec{Index: e.Features.Index[:n:n], Value: e.Features.Value[:n:n]}
		k.index, k.value = k.index[:place+n], k.value[:place+n]
		k.records, k.labels = append(k.records, r), append(k.labels, label)
		f.seal(&r, e)
	}
	k.batch.Examples = examples
}

// decodeLabels sets the classes of the examples of k, in order, and completes the batch.
func (f *File) decodeLabels(k *block) {
	d := f.decoder.(*record.Svmlight)
	for i, label := range k.labels {
		if e := &k.batch.Examples[i]; label != nil {
			if d.DecodeLabel(&k.records[i], e, label); e.Refused != nil {
				f.place(e)
			}
		}
	}
	f.complete(&k.batch, k.lines.First+int64(k.lines.Count))
}

// Packed returns the result of pack (see Ahead) for the Examples of the latest Next.
func (f *File) Packed() any { return f.pipeline.held.packed }
