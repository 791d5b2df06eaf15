package stream

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"blankout"
)

// ahead reads and decodes a File in goroutines of its own: one reads, and where
// lines can be decoded apart from each other others decode, block by block. Next
// gives the blocks out in the order of the file, so that nothing depends on the
// number of threads.
type ahead struct {
	free, ready chan *block // to fill, and in the order of the file
	work        chan *block // to decode
	stop        chan struct{}
	cancel      func() // a read of standard input
	done        sync.WaitGroup
	held        *block // by the caller of Next
	err         error
}

// block is a Batch with the memory that its examples borrow.
type block struct {
	batch blankout.Batch
	bytes []byte
	err   error

	// Of lines that are decoded apart.
	text    []byte // in bytes
	line    int64  // number of the first
	lines   int
	cut     bool // text is the start of one line that is too long
	records []Record
	labels  [][]byte // nil of a refused record
	index   []uint32 // of all examples
	value   []float64
	decoded chan struct{}
}

// blockLines bounds the lines of a block that are decoded apart.
const blockLines = 1 << 10

// Ahead makes the File read and decode in goroutines of its own, a few batches
// ahead of Next: svmlight with numeric indices on the given number of threads,
// other formats on one. The Schema then grows while a batch is being learned:
// everybody but the File must work on Schema.At of their batch. Close ends it.
//
// A pack that is not nil makes in those goroutines, which may call it at the same
// time, the Packed of each Batch of its Examples. They have no Labels yet, for the
// want of which some may still be refused.
func (f *File) Ahead(threads int, pack func([]blankout.Example) any) {
	threads = max(threads, 1)
	ctx, cancel := context.WithCancel(context.Background())
	if p := f.records.pump; p != nil {
		p.ctx = ctx
	}
	n := 2*threads + 3
	a := &ahead{free: make(chan *block, n), ready: make(chan *block, n), work: make(chan *block, n), stop: make(chan struct{}), cancel: cancel}
	for range n {
		a.free <- &block{decoded: make(chan struct{}, 1)}
	}
	f.ahead = a
	if pack == nil {
		pack = func([]blankout.Example) any { return nil }
	}
	fill := func(k *block) {
		if f.fill(k, false); k.err == nil {
			k.batch.Packed = pack(k.batch.Examples)
		}
		k.decoded <- struct{}{}
	}
	if d, ok := f.decoder.(*svmlightDecoder); ok && d.fork() != nil {
		fill = func(k *block) {
			if k.err = f.records.lines(k); k.err != nil {
				k.decoded <- struct{}{}
				return
			}
			a.work <- k
		}
		for range threads {
			d, lines := d.fork(), &Records{c: f.records.c, name: f.records.name}
			a.done.Go(func() {
				for k := range a.work {
					k.decode(d, lines)
					k.batch.Packed = pack(k.batch.Examples)
					k.decoded <- struct{}{}
				}
			})
		}
	}
	a.done.Go(func() {
		defer close(a.work)
		for {
			select {
			case <-a.stop:
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

func (a *ahead) next(ctx context.Context, f *File, b *blankout.Batch) error {
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
	if k.lines > 0 {
		f.settle(k)
	}
	*b = k.batch
	return nil
}

// decode decodes the lines of k but for their labels. The entries of all examples
// lie one behind the other: they take four bytes at least, 1:1 and a space.
func (k *block) decode(d *svmlightDecoder, lines *Records) {
	lines.buf, lines.at, lines.end, lines.line, lines.eof = k.text, 0, len(k.text), k.line, io.EOF
	most := len(k.text)/4 + k.lines
	k.index, k.value = slices.Grow(k.index[:0], most), slices.Grow(k.value[:0], most)
	k.records, k.labels = slices.Grow(k.records[:0], k.lines), slices.Grow(k.labels[:0], k.lines)
	examples := slices.Grow(k.batch.Examples[:0], k.lines)
	var record Record
	for {
		if k.cut && len(examples) == 0 {
			record, lines.at, lines.cut = Record{Value: k.text, Offset: k.line}, lines.end, true
		} else if !lines.scan(&record) {
			break
		}
		examples = examples[:len(examples)+1]
		e := &examples[len(examples)-1]
		at := len(k.index)
		e.Features = blankout.Vec{Index: k.index[at:], Value: k.value[at:]}
		label, _ := d.decode(&record, e)
		n := e.Features.Len()
		e.Features = blankout.Vec{Index: e.Features.Index[:n:n], Value: e.Features.Value[:n:n]}
		k.index, k.value = k.index[:at+n], k.value[:at+n]
		k.records, k.labels = append(k.records, record), append(k.labels, label)
		lines.seal(&record, e)
	}
	k.batch.Examples = examples
}

// settle gives the examples of k their classes, in order, and completes the batch.
func (f *File) settle(k *block) {
	d := f.decoder.(*svmlightDecoder)
	for i, label := range k.labels {
		if e := &k.batch.Examples[i]; label != nil {
			if d.settle(&k.records[i], e, label); e.Refused != nil {
				f.records.place(e)
			}
		}
	}
	f.complete(&k.batch, k.line+int64(k.lines))
}

// lines takes the next lines, whole and not more than blockLines of them, for k.
// They stay where they are until k is filled again. Of a line that is too long it
// takes the start and passes over the rest.
func (r *Records) lines(k *block) error {
	k.bytes = r.move(k.bytes)
	for {
		if r.skipped {
			if i := bytes.IndexByte(r.buf[r.at:r.end], '\n'); i >= 0 {
				r.at, r.line, r.skipped = r.at+i+1, r.line+1, false
			} else if r.at = r.end; r.eof != nil {
				r.line, r.skipped = r.line+1, false
			}
		}
		// From a file take a good part of the buffer, of standard input what comes.
		if r.skipped || r.eof == nil && r.end-r.at < bufferBytes/2 && (r.pump == nil || r.end == r.at) {
			if err := r.refill(); err != nil {
				return err
			}
			continue
		}
		at := r.at
		k.line, k.lines, k.cut = r.line, 0, false
		for k.lines < blockLines && r.at < r.end {
			i := bytes.IndexByte(r.buf[r.at+r.seen:r.end], '\n')
			if i < 0 && r.eof == nil {
				r.seen = r.end - r.at
				break
			}
			if i < 0 {
				r.at = r.end
			} else {
				r.at += r.seen + i + 1
			}
			r.seen = 0
			k.lines++
		}
		if k.cut = k.lines == 0 && r.end-r.at > r.c.MaxBytes; k.cut {
			k.lines, r.at, r.seen, r.skipped = 1, r.at+r.c.MaxBytes+1, 0, true
		} else {
			r.line += int64(k.lines)
		}
		if k.lines > 0 {
			k.bytes, k.text = r.buf, r.buf[at:r.at]
			return nil
		}
		if err := r.refill(); err != nil {
			return err
		}
	}
}
