package inbox

// This file reads a Log as a Source.

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"blankout/internal/event"
	"blankout/internal/seglog"
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
	next    int64 // number of the next event
	frame   frame // rest of the current request
	left    int   // number of events in frame
}

// NewSource returns the Source of a Log, which starts at the Positions of from. It fails if the Log no longer has those
// events. Decoding extends s.
func NewSource(l *Log, c record.Config, s *event.Schema, from event.Offsets) (*Source, error) {
	c.Format = cmp.Or(c.Format, "json")
	decoder, err := record.NewDecoder(c, s)
	if err != nil {
		return nil, err
	}
	l.dir.Mu.Lock()
	first, end := int64(l.log.Segments[0].Number), l.next
	p, known := from.Lookup(Topic, 0)
	g := l.log.Find(uint64(max(p.Next, first)))
	l.dir.Mu.Unlock()
	if !known && first > 0 {
		return nil, fmt.Errorf("events before number %d over HTTP were learned by a checkpoint that is missing: restore it, or remove %s", first, l.dir.Path)
	}
	if p.Next < first || p.Next > end {
		return nil, &DamageError{l.dir.Path, fmt.Sprintf("the checkpoint continues with event %d, but the log contains events %d to %d", p.Next, first, end)}
	}
	n := &Source{log: l, decoder: decoder, schema: s}
	return n, n.start(g, p.Next)
}

// start positions the Source so that the event with number to is the next one. g is the segment of that event. Earlier
// requests of the segment may be damaged.
func (n *Source) start(g *seglog.Segment, to int64) error {
	n.log.dir.Mu.Lock()
	data, err := g.Read(0)
	if err == nil {
		data = data[:g.OnDisk]
	}
	n.log.dir.Mu.Unlock()
	at := int(g.Start)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", g.Name, err)
	case at == 0 && uint64(to) == g.Number:
		return &DamageError{g.Name, "its head is not what was written"}
	case at == 0:
		at = headBytes
	}
	for n.next = int64(g.Number); ; {
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
	n.log.dir.Mu.Lock()
	n.log.reader = place{g.Number, int64(at)}
	n.log.dir.Mu.Unlock()
	if n.next == to {
		return nil
	}
	if ok, err := n.read(); err != nil || !ok || n.next+int64(n.left) <= to {
		return cmp.Or(err, n.damaged())
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
	return &DamageError{n.log.dir.Name(n.log.reader.segment, ".events"), fmt.Sprintf("event %d is not what was written", n.next)}
}

// read reads the next request. It returns false if the next request has not arrived yet.
func (n *Source) read() (ok bool, err error) {
	l := n.log
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	g := l.log.Find(l.reader.segment)
	if l.reader.at >= g.OnDisk {
		if g == l.log.Last() {
			return false, nil
		}
		// Continue with the segment that begins with the next event.
		switch next := l.log.Segments[slices.Index(l.log.Segments, g)+1]; {
		case next.OnDisk == 0:
			return false, nil
		case int64(next.Number) != n.next:
			return false, &DamageError{g.Name, fmt.Sprintf("it ends with event %d, and the next file begins with %d", n.next-1, next.Number)}
		case next.Start == 0:
			return false, &DamageError{next.Name, "its head is not what was written"}
		default:
			l.reader = place{next.Number, next.Start}
			return next.OnDisk > next.Start, nil
		}
	}
	data, err := g.Frame(l.reader.at) // a new slice, because the Examples of a Batch borrow it
	f, end := readFrame(data, 0)
	if err != nil || end == 0 || f.first != n.next {
		return false, n.damaged()
	}
	n.frame, n.left = f, f.events
	l.reader.at += int64(end)
	return true, nil
}

// Next implements event.Source.
func (n *Source) Next(ctx context.Context, b *event.Batch) error {
	for n.left == 0 {
		n.log.dir.Mu.Lock()
		grown, broken := n.log.grown, n.log.broken
		n.log.dir.Mu.Unlock()
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

// Close implements a method of sources. The files belong to the Log.
func (n *Source) Close() error { return nil }
