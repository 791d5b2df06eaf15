package inbox

// This file reads a Log as a Source.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"blankout/internal/event"
	"blankout/stream/record"
)

// Topic is the topic in the Positions of a Log. The offset of an event is its number.
const Topic = "(http)"

// batchExamples is the largest number of examples in a Batch.
const batchExamples = 512

// Source is an event.Source of the events of a Log. It waits for new events, and ends only if its Log is broken.
type Source struct {
	log     *Log
	decoder record.Decoder
	schema  *event.Schema
	file    *os.File // segment at log.reader; nil before the first event
	next    int64    // number of the next event
	frame   frame    // rest of the current request
	left    int      // number of events in frame
}

// NewSource returns the Source of a Log, which starts at the Positions of from. It fails if the Log no longer has those
// events. Decoding extends s.
func NewSource(l *Log, c record.Config, s *event.Schema, from event.Offsets) (*Source, error) {
	c.Format = cmp.Or(c.Format, "json")
	decoder, err := record.NewDecoder(c, s)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	first, end := l.segments[0].first, l.next
	p, known := from.Lookup(Topic, 0)
	g := *l.segments[0]
	for _, next := range l.segments {
		if next.first <= p.Next {
			g = *next
		}
	}
	l.mu.Unlock()
	if !known && first > 0 {
		return nil, fmt.Errorf("events before number %d over HTTP were learned by a checkpoint that is missing: restore it, or remove %s", first, l.directory)
	}
	if p.Next < first || p.Next > end {
		return nil, &DamageError{l.directory, fmt.Sprintf("the checkpoint continues with event %d, but the log contains events %d to %d", p.Next, first, end)}
	}
	n := &Source{log: l, decoder: decoder, schema: s}
	if err := n.start(&g, p.Next); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// start positions the Source so that the event with number to is the next one. g is the segment of that event. Earlier
// requests of the segment may be damaged.
func (n *Source) start(g *segment, to int64) error {
	data, err := os.ReadFile(n.log.name(g.first))
	if err != nil {
		return err
	}
	data = data[:min(int64(len(data)), g.size)]
	_, at := readHead(data, g.first)
	switch {
	case at == 0 && to == g.first:
		return &DamageError{n.log.name(g.first), "its head is not what was written"}
	case at == 0:
		at = headBytes
	}
	for n.next = g.first; ; {
		f, start, end := nextFrame(data, at)
		if end == 0 || f.first > to {
			break
		}
		if after := f.first + int64(f.events); after <= to {
			n.next, at = after, end
			continue
		}
		n.next, at = f.first, start
		break
	}
	n.log.move(place{g.first, int64(at)})
	if n.next == to {
		return nil
	}
	if ok, err := n.read(); err != nil || !ok || n.next+int64(n.left) <= to {
		return errors.Join(err, n.damaged())
	}
	for ; n.next < to; n.next++ {
		if _, ok := n.frame.event(); !ok {
			return n.damaged()
		}
		n.left--
	}
	return nil
}

func (n *Source) damaged() error {
	return &DamageError{n.log.name(n.log.reader.segment), fmt.Sprintf("event %d is not what was written", n.next)}
}

// read reads the next request. It returns false if the next request has not arrived yet.
func (n *Source) read() (ok bool, err error) {
	l := n.log
	for {
		l.mu.Lock()
		at := l.reader
		i := slices.IndexFunc(l.segments, func(g *segment) bool { return g.first == at.segment })
		size, follows := l.segments[i].size, int64(-1)
		if i+1 < len(l.segments) {
			follows = l.segments[i+1].first
		}
		l.mu.Unlock()
		if n.file == nil {
			if n.file, err = os.Open(l.name(at.segment)); err != nil {
				return false, err
			}
		}
		if at.at == 0 {
			if at.at, err = n.head(at.segment); err != nil {
				return false, err
			}
			l.move(at)
		}
		if at.at < size {
			return true, n.readFrame(at, size)
		}
		if follows < 0 { // it is the last segment
			return false, nil
		}
		// Continue with the segment that begins with the next event.
		if err := n.file.Close(); err != nil {
			return false, err
		}
		n.file = nil
		if follows != n.next {
			return false, &DamageError{l.name(at.segment), fmt.Sprintf("it ends with event %d, and the next file begins with %d", n.next-1, follows)}
		}
		l.move(place{follows, 0})
	}
}

// head returns the start of the frames of a segment.
func (n *Source) head(first int64) (int64, error) {
	head := make([]byte, headBytes+maxKeys*entryBytes)
	size, err := n.file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	_, at := readHead(head[:size], first)
	if at == 0 {
		return 0, &DamageError{n.log.name(first), "its head is not what was written"}
	}
	return int64(at), nil
}

// readFrame reads the frame at a position of a segment of the given size.
func (n *Source) readFrame(at place, size int64) error {
	var head [frameBytes]byte
	if _, err := n.file.ReadAt(head[:], at.at); err != nil {
		return n.damaged()
	}
	length := int64(frameBytes) + int64(uint32(head[4])|uint32(head[5])<<8|uint32(head[6])<<16|uint32(head[7])<<24)
	if at.at+length > size {
		return n.damaged()
	}
	data := make([]byte, length) // a new slice, because the Examples of a Batch borrow it
	if _, err := n.file.ReadAt(data, at.at); err != nil {
		return n.damaged()
	}
	f, end := readFrame(data, 0)
	if end == 0 || f.first != n.next {
		return n.damaged()
	}
	n.frame, n.left = f, f.events
	n.log.move(place{at.segment, at.at + length})
	return nil
}

func (l *Log) move(to place) {
	l.mu.Lock()
	l.reader = to
	l.mu.Unlock()
}

// Next implements event.Source.
func (n *Source) Next(ctx context.Context, b *event.Batch) error {
	for n.left == 0 {
		n.log.mu.Lock()
		grown, broken := n.log.grown, n.log.broken
		n.log.mu.Unlock()
		ok, err := n.read()
		switch {
		case err != nil:
			return err
		case ok:
			continue
		case broken != nil:
			return broken
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	*b = event.Batch{Topic: Topic, Examples: b.Examples[:0]}
	for len(b.Examples) < batchExamples {
		if n.left == 0 {
			if ok, err := n.read(); err != nil {
				return err
			} else if !ok {
				break
			}
			continue
		}
		rest := n.frame
		value, ok := rest.event()
		if !ok {
			return n.damaged()
		}
		e, r := b.Extend(), record.Record{Value: value, Offset: n.next, Time: n.frame.came}
		if err := n.decoder.Decode(ctx, r, e); err != nil {
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				return err
			}
			break // the next call tries again
		}
		n.frame = rest
		e.Fingerprint = record.Fingerprint(r.Offset, r.Key, r.Value)
		n.next++
		n.left--
	}
	b.Next, b.HighWater, b.Schema = n.next, n.log.Next(), n.schema.View()
	return nil
}

// Close closes the Source, but not its Log.
func (n *Source) Close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
