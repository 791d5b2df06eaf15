// Package inbox stores events that arrive in requests, for example over HTTP, until they are learned. It has a Log on
// disk, and a Source that reads the Log. It does not depend on HTTP.
package inbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"blankout/internal/seglog"
)

// Log is a log of events on disk. The events of a request are appended together: after a crash the Log has all of them
// or none. Append returns once they are on disk. The log is divided into segments. A segment is removed once its events
// are no longer needed.
//
//	NUMBER.events  a head, then a frame for each request; NUMBER is the number of its first event, in 16 hexadecimal digits
//
// The head of a segment has the keys of earlier events. So a repeated request is recognized even after the segment
// with its events is removed. Each frame has the number of its first event. So the frames after damage are found.
//
// A write that a crash interrupted was never acknowledged, and no frame follows it. The next write moves such an end to
// NUMBER.cut. Other damage is a DamageError, unless all damaged events have been learned.
//
// Any goroutine may call its methods.
type Log struct {
	options Options
	wake    chan struct{} // signals that posts has entries
	ended   chan struct{} // closed when the writer has ended

	dir    *seglog.Directory // its Mu protects what follows
	log    *seglog.Log
	posts  []*post // requests that wait or are being written
	closed bool
	broken error         // error after which nothing can be written
	grown  chan struct{} // closed when there are more events to read, then replaced
	next   int64         // number of the next event
	keys   keys
	reader place  // position up to which events have been read
	torn   []byte // incomplete end of the last segment, which the writer keeps before it writes
}

// Options has the limits of a Log.
type Options struct {
	// Most is the largest number of unread bytes; 0 means 64 MiB. Beyond it, Append fails with ErrBehind.
	Most int64
	// Segment is the size of a full segment in bytes. 0 means 64 MiB.
	Segment int64
	// Learned is the number of the first event that no checkpoint has. Earlier events are never cut, and may be damaged.
	Learned int64
	Log     *slog.Logger // nil disables the log
	system  seglog.System
}

// The errors of Append. If Append returns one of them, no event of the request is stored.
var (
	ErrBehind   = errors.New("learning is behind: too many events wait")
	ErrDiskFull = errors.New("the disk is full")
	ErrClosed   = errors.New("the learner is stopping")
)

// place is the position of a reader: the number of the segment's first event, and the byte offset in the segment.
type place struct {
	segment uint64
	at      int64
}

// post is a request to append events.
type post struct {
	frame
	data   []byte // encoded frame
	stored Stored // set when the post is done
	err    error
	done   chan struct{}
}

// Stored reports where the events of a request are stored. First is the number of the first event that the request
// added, or of its first event if it added none. Repeated is the number of events that were stored earlier.
type Stored struct {
	First     int64
	Repeated  int
	partition int32 // partition of a repeated event in a topic
}

const (
	magic      = "blankout inbox 3"
	headBytes  = seglog.FrameBytes + len(magic) + 8 // without keys
	frameBytes = seglog.FrameBytes
	postBytes  = 24 // start of a payload: number of the first event, number of events, arrival, number of keys
)

// DamageError reports that a file of a Log differs from the bytes that were written.
type DamageError struct{ File, Why string }

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; restore it, or move it away and restart with --reset", e.File, e.Why)
}

// Open opens the log in a directory, which it creates if necessary.
func Open(directory string, o Options) (_ *Log, err error) {
	o.Most, o.Segment, o.Log = cmp.Or(o.Most, 64<<20), cmp.Or(o.Segment, 64<<20), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	l := &Log{options: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), grown: make(chan struct{})}
	switch l.dir, err = seglog.Lock(directory, o.system); {
	case errors.Is(err, seglog.ErrInUse):
		return nil, fmt.Errorf("the events that wait to be learned in %w", err)
	case err != nil:
		return nil, fmt.Errorf("events that wait to be learned: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.dir.Close())
	}
	go l.write()
	return l, nil
}

// open finds the segments, and reads the last one to its end.
func (l *Log) open() (err error) {
	if l.log, err = l.dir.Open(".events", magic); err != nil {
		return fmt.Errorf("events that wait to be learned: %w", err)
	}
	for begun := int64(0); len(l.log.Segments) > 0; {
		g := l.log.Last()
		data, err := g.Read(0)
		if err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		whole, err := l.recover(g, data)
		switch {
		case err != nil:
			return err
		case whole && l.next < begun:
			return &DamageError{g.Name, fmt.Sprintf("it ends before event %d", begun)}
		case whole:
			return nil
		}
		// The process ended while it wrote the head of this segment.
		begun = max(begun, int64(g.Number))
		if err := errors.Join(l.keep(g.Number, data), l.log.Remove(g)); err != nil {
			return err
		}
	}
	_, err = l.begin()
	return err
}

// recover reads the last segment, whose content is data. It changes no segment, because the start may still be refused.
// It returns false if the head is incomplete.
func (l *Log) recover(g *seglog.Segment, data []byte) (whole bool, err error) {
	damage := func(why string, args ...any) error { return &DamageError{g.Name, fmt.Sprintf(why, args...)} }
	l.keys, l.next = readKeys(g.Head), int64(g.Number)
	at := int(g.Start)
	if at == 0 {
		_, _, end := nextFrame(data, 0)
		switch torn := end == 0 && l.options.Learned <= l.next; {
		case torn && (len(l.log.Segments) > 1 || len(data) < headBytes):
			return false, nil
		case end == 0 || l.options.Learned <= l.next:
			return false, damage("its head is not what was written")
		}
		l.options.Log.Warn("the head of a file of learned events is damaged: requests before it are no longer recognized when they are repeated", "file", g.Name)
		at = headBytes
	}
	for {
		f, start, end := nextFrame(data, at)
		if end == 0 {
			break
		}
		if f.first > l.options.Learned && f.first != l.next || f.first < l.next {
			return false, damage("events %d to %d are not what was written", l.next, f.first-1)
		}
		if start > at {
			l.options.Log.Warn("a file of events is damaged; the damaged events had been learned", "file", g.Name, "from", l.next, "to", f.first-1)
		}
		l.keys.remember(&f, 0)
		l.next = f.first + int64(f.events)
		at = end
	}
	switch missing := l.options.Learned - l.next; {
	case at == len(data) && missing <= 0:
		return true, nil
	case missing <= 0:
		l.torn = slices.Clone(data[at:])
		g.Cut(int64(at))
		l.options.Log.Warn("the last events of the log are incomplete, as after a failure while they were written; they are dropped, though they may have been acknowledged if the file was damaged later", "file", g.Name, "bytes", len(l.torn), "kept in", l.dir.Name(uint64(l.next), ".cut"))
		return true, nil
	case !holds(data[at:], missing):
		return false, damage("it ends with event %d, and event %d has been learned", l.next-1, l.options.Learned-1)
	}
	l.options.Log.Warn("the end of a file of events is damaged; the damaged events had been learned", "file", g.Name, "from", l.next, "to", l.options.Learned-1)
	l.next = l.options.Learned
	_, err = l.begin()
	return true, err
}

// keep writes an incomplete end, of which number is the first event, to another file.
func (l *Log) keep(number uint64, end []byte) error {
	f, err := os.OpenFile(l.dir.Name(number, ".cut"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(end)
	return errors.Join(err, f.Sync(), f.Close(), l.dir.System.Sync(l.dir.Path))
}

// begin starts a new segment. A Source reads it once it is on disk.
func (l *Log) begin() (g *seglog.Segment, err error) {
	l.dir.Mu.Lock()
	g = l.log.Begin(uint64(l.next), l.keys.encode())
	l.dir.Mu.Unlock()
	err = l.dir.Sync()
	if err != nil {
		l.dir.Mu.Lock()
		defer l.dir.Mu.Unlock()
		err = fmt.Errorf("beginning %s: %w", g.Name, errors.Join(err, l.log.Remove(g)))
	}
	return g, err
}

// Append writes the events of a request, and returns their place once they are on disk. keys is empty, or has one key for
// the request, or a key for each event, where "" means no key. Events whose key is known are not written again. If their
// content differs from the known content, Append writes nothing and returns a *ReusedError. Append does not keep the
// slice events after it returns.
func (l *Log) Append(ctx context.Context, keys []string, events [][]byte) (Stored, error) {
	p := &post{done: make(chan struct{})}
	p.data = encodeFrame(hashes(keys), events, time.Now().UnixMilli())
	p.frame = decodeFrame(p.data)
	l.dir.Mu.Lock()
	if fresh, stored, err := l.keys.fresh(&p.frame, nil); err != nil || len(fresh) == 0 {
		l.dir.Mu.Unlock()
		return stored, err
	}
	if err := l.admit(int64(len(p.data))); err != nil {
		l.dir.Mu.Unlock()
		return Stored{}, err
	}
	l.posts = append(l.posts, p)
	l.dir.Mu.Unlock()
	wake(l.wake)
	select {
	case <-p.done:
		return p.stored, p.err
	case <-ctx.Done():
		return Stored{}, ctx.Err()
	}
}

// admit returns an error if the limits do not allow size more bytes.
func (l *Log) admit(size int64) error {
	switch {
	case l.broken != nil:
		return l.broken
	case l.closed:
		return ErrClosed
	}
	waiting := int64(0)
	for _, p := range l.posts {
		waiting += int64(len(p.data))
	}
	if waiting += l.unread(); waiting > 0 && waiting+size > l.options.Most {
		return fmt.Errorf("%w (%d bytes, the most is %d)", ErrBehind, waiting, l.options.Most)
	}
	return nil
}

// unread returns the number of bytes that are written but not read.
func (l *Log) unread() (bytes int64) {
	for _, g := range l.log.Segments {
		switch {
		case g.Number == l.reader.segment:
			bytes += max(0, g.OnDisk-max(l.reader.at, int64(headBytes)))
		case g.Number > l.reader.segment:
			bytes += g.OnDisk
		}
	}
	return bytes
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write writes posts until the Log is closed. All waiting posts share one write and one fsync.
func (l *Log) write() {
	defer close(l.ended)
	for range l.wake {
		l.dir.Mu.Lock()
		posts, broken, closed := slices.Clone(l.posts), l.broken, l.closed
		l.dir.Mu.Unlock()
		err := broken
		data, added, next := l.arrange(posts)
		if err == nil && len(data) > 0 {
			err = l.writeAll(data)
		}
		l.dir.Mu.Lock()
		l.posts = l.posts[len(posts):]
		if err == nil {
			for _, of := range added.order[added.begin:] {
				l.keys.add(of, added.of[of])
			}
			l.next = next
		}
		for _, p := range posts {
			p.err = cmp.Or(p.err, err)
			close(p.done)
		}
		if err == nil && len(data) > 0 {
			l.grow()
		}
		l.dir.Mu.Unlock()
		if closed {
			return
		}
	}
}

// arrange numbers the events of posts that are not stored yet. It returns their frames, their keys, and the number of
// the event after them.
func (l *Log) arrange(posts []*post) (data []byte, added keys, next int64) {
	next = l.next // no other goroutine changes the keys and the number
	for _, p := range posts {
		var fresh []int
		if fresh, p.stored, p.err = l.keys.fresh(&p.frame, &added); p.err != nil || len(fresh) == 0 {
			continue
		}
		if len(fresh) < p.events {
			p.data = p.frame.only(fresh)
			p.frame = decodeFrame(p.data)
		}
		p.first, p.stored.First = next, next
		seal(p.data, next)
		added.remember(&p.frame, 0)
		next += int64(p.events)
		data = append(data, p.data...)
	}
	return data, added, next
}

// writeAll writes frames and syncs them. A failed write is undone, so that the next attempt may succeed. If a sync
// fails, the content of the disk is unknown, and the Log is broken.
func (l *Log) writeAll(data []byte) (err error) {
	l.dir.Mu.Lock()
	g := l.log.Last() // no other goroutine changes this segment
	l.dir.Mu.Unlock()
	if l.torn != nil {
		if err = l.keep(uint64(l.next), l.torn); err == nil {
			err = l.dir.Sync() // removes the end from the segment
		}
		if err != nil {
			return l.failed(fmt.Errorf("keeping the end of %s: %w", g.Name, err))
		}
		l.torn = nil
	}
	if g.Size() >= l.options.Segment {
		if g, err = l.begin(); err != nil {
			return l.failed(err)
		}
	}
	l.dir.Mu.Lock()
	size := g.Size()
	g.Append(data)
	if err = l.dir.Flush(); err != nil {
		g.Cut(size)
		if back := l.dir.Flush(); back != nil {
			err = &seglog.BrokenError{Err: errors.Join(err, back)}
		}
	}
	l.dir.Mu.Unlock()
	if err == nil {
		err = l.dir.Sync()
	}
	if err != nil {
		return l.failed(fmt.Errorf("writing %s: %w", g.Name, err))
	}
	return nil
}

// failed returns the error of writing. After a BrokenError, it makes all further writes fail.
func (l *Log) failed(err error) error {
	switch _, broken := errors.AsType[*seglog.BrokenError](err); {
	case !broken && isDiskFull(err):
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case !broken:
		return err
	}
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	l.broken = fmt.Errorf("%w: no more events are accepted until the learner restarts", err)
	l.grow() // notifies readers
	return l.broken
}

// grow wakes the readers that wait. The caller has locked Mu.
func (l *Log) grow() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// Passed declares that events before the given number are no longer needed. It removes segments that contain only such
// events.
func (l *Log) Passed(number int64) error {
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	for len(l.log.Segments) > 1 && int64(l.log.Segments[1].Number) <= number && l.log.Segments[0].Number < l.reader.segment {
		if err := l.log.Remove(l.log.Segments[0]); err != nil {
			return fmt.Errorf("removing events that have been learned: %w", err)
		}
	}
	return nil
}

// First returns the number of the oldest stored event.
func (l *Log) First() int64 {
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	return int64(l.log.Segments[0].Number)
}

// Next returns the number of the next event.
func (l *Log) Next() int64 {
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	return l.next
}

// Close writes waiting posts and closes the log.
func (l *Log) Close() error {
	l.dir.Mu.Lock()
	l.closed = true
	l.dir.Mu.Unlock()
	wake(l.wake)
	<-l.ended
	l.dir.Mu.Lock()
	defer l.dir.Mu.Unlock()
	return l.dir.Close()
}

// frame is a stored request.
type frame struct {
	first  int64 // number of the first event
	events int
	came   int64  // time of arrival, in milliseconds since the Unix epoch
	keys   []byte // no key, one for the frame, or one for each event
	rest   []byte // events that have not been read
}

// encodeFrame returns a frame without its first number and its checksum.
func encodeFrame(keys []byte, events [][]byte, came int64) []byte {
	size := postBytes + len(keys)
	for _, e := range events {
		size += 4 + len(e)
	}
	le := binary.LittleEndian
	out := make([]byte, frameBytes+8, frameBytes+size)
	out = le.AppendUint32(out, uint32(len(events)))
	out = le.AppendUint64(out, uint64(came))
	out = append(le.AppendUint32(out, uint32(len(keys)/keyBytes)), keys...)
	for _, e := range events {
		out = append(le.AppendUint32(out, uint32(len(e))), e...)
	}
	return out
}

// seal sets the number of the first event of a frame, and the checksum.
func seal(data []byte, first int64) {
	binary.LittleEndian.PutUint64(data[frameBytes:], uint64(first))
	seglog.Seal(data)
}

// decodeFrame decodes a frame, which has at least frameBytes+postBytes bytes. The lengths in it may be wrong.
func decodeFrame(data []byte) (f frame) {
	le, p := binary.LittleEndian, data[frameBytes:]
	f = frame{first: int64(le.Uint64(p)), events: int(le.Uint32(p[8:])), came: int64(le.Uint64(p[12:]))}
	keys := min(int(le.Uint32(p[20:])), (len(p)-postBytes)/keyBytes) * keyBytes
	f.keys, f.rest = p[postBytes:postBytes+keys], p[postBytes+keys:]
	return f
}

// readFrame decodes the frame at data[at:]. It returns the start of the next frame, or 0 if the frame is not whole.
func readFrame(data []byte, at int) (f frame, end int) {
	payload, end := seglog.Frame(data, at)
	if len(payload) < postBytes {
		return f, 0
	}
	f = decodeFrame(data[at:end])
	if n := len(f.keys) / keyBytes; f.count() != f.events || f.events == 0 || n > 1 && n != f.events {
		return f, 0
	}
	return f, end
}

// nextFrame returns the first whole frame at or after data[at:], with its start and the start of the next frame, which
// is 0 if there is none.
func nextFrame(data []byte, at int) (f frame, start, end int) {
	for start = at; start < len(data); start++ {
		if f, end = readFrame(data, start); end > 0 {
			return f, start, end
		}
	}
	return frame{}, start, 0
}

// holds reports whether data is a damaged frame of the given number of events.
func holds(data []byte, events int64) bool {
	if len(data) < frameBytes+postBytes {
		return false
	}
	f := decodeFrame(data)
	return int64(f.events) == events || int64(f.count()) == events
}

// count returns the number of events in f.rest, or -1 if an event is not whole.
func (f frame) count() (n int) {
	for len(f.rest) > 0 {
		if _, ok := f.event(); !ok {
			return -1
		}
		n++
	}
	return n
}

// each calls do with the index and the bytes of each event, including its length.
func (f frame) each(do func(i int, data []byte)) {
	for i := range f.events {
		from := f.rest
		e, _ := f.event()
		do(i, from[:4+len(e)])
	}
}

// only returns a frame with some of the events, which have keys of their own.
func (f *frame) only(fresh []int) []byte {
	var keys []byte
	var events [][]byte
	f.each(func(i int, data []byte) {
		if len(events) < len(fresh) && fresh[len(events)] == i {
			keys = append(keys, f.keys[i*keyBytes:(i+1)*keyBytes]...)
			events = append(events, data[4:])
		}
	})
	return encodeFrame(keys, events, f.came)
}

// event returns the next event of the frame.
func (f *frame) event() (e []byte, ok bool) {
	if len(f.rest) < 4 {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint32(f.rest))
	if len(f.rest)-4 < n {
		return nil, false
	}
	e, f.rest = f.rest[4:4+n:4+n], f.rest[4+n:]
	return e, true
}
