// Package inbox stores events that arrive in requests, for example over HTTP, until they are learned. It has a Log on
// disk, and a Source that reads the Log. It does not depend on HTTP.
package inbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/gofrs/flock"

	"blankout/internal/failpoint"
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
	options   Options
	directory string
	lock      *flock.Flock
	wake      chan struct{} // signals that posts has entries
	ended     chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	posts    []*post // requests that wait or are being written
	closed   bool
	broken   error         // error after which nothing can be written
	grown    chan struct{} // closed when there are more events to read, then replaced
	segments []*segment    // oldest first; the last segment is written
	next     int64         // number of the next event
	keys     keys
	reader   place  // position up to which events have been read
	torn     []byte // incomplete end of the last segment, which the writer cuts before it writes
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
	// file opens the files of segments; nil uses the operating system. Tests set it to simulate failing files.
	file func(name string, flag int) (segmentFile, error)
	// sync syncs the directory; nil uses the operating system. Tests set it to see the calls.
	sync func(directory string) error
}

// segmentFile is the file of a segment that is being written.
type segmentFile interface {
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// The errors of Append. If Append returns one of them, no event of the request is stored.
var (
	ErrBehind   = errors.New("learning is behind: too many events wait")
	ErrDiskFull = errors.New("the disk is full")
	ErrClosed   = errors.New("the learner is stopping")
)

// segment is one file of the log.
type segment struct {
	first int64 // number of its first event
	size  int64 // number of bytes that are known to be on disk
	file  segmentFile
}

// place is the position of a reader: the number of the segment's first event, and the byte offset in the segment.
type place struct{ segment, at int64 }

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

var magic = []byte("blankout inbox 2")

const (
	headBytes  = 32 // magic number, number of the first event, size of the keys, checksum of both
	frameBytes = 8  // checksum and size of a payload
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
	if o.file == nil {
		o.file = func(name string, flag int) (segmentFile, error) { return os.OpenFile(name, flag, 0o600) }
	}
	if o.sync == nil {
		o.sync = seglog.Sync
	}
	l := &Log{options: o, directory: directory, wake: make(chan struct{}, 1), ended: make(chan struct{}), grown: make(chan struct{})}
	switch l.lock, err = seglog.Lock(directory); {
	case errors.Is(err, seglog.ErrInUse):
		return nil, fmt.Errorf("the events that wait to be learned in %w", err)
	case err != nil:
		return nil, fmt.Errorf("events that wait to be learned: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.lock.Close())
	}
	go l.write()
	return l, nil
}

func (l *Log) name(first int64) string {
	return seglog.Name(l.directory, uint64(first), ".events")
}

// open finds the segments, and reads the last one to its end.
func (l *Log) open() error {
	firsts, err := seglog.Segments(l.directory, ".events")
	if err != nil {
		return fmt.Errorf("events that wait to be learned: %w", err)
	}
	for _, first := range firsts {
		info, err := os.Stat(l.name(int64(first)))
		if err != nil {
			return err
		}
		l.segments = append(l.segments, &segment{first: int64(first), size: info.Size()})
	}
	for begun := int64(0); len(l.segments) > 0; {
		g := l.segments[len(l.segments)-1]
		whole, err := l.recover(g)
		switch {
		case err != nil:
			return err
		case whole && l.next < begun:
			return &DamageError{l.name(g.first), fmt.Sprintf("it ends before event %d", begun)}
		case whole:
			return nil
		}
		// The process ended while it wrote the head of this segment.
		begun = max(begun, g.first)
		if err := os.Rename(l.name(g.first), l.cutName(g.first)); err != nil {
			return err
		}
		l.segments = l.segments[:len(l.segments)-1]
	}
	return l.begin()
}

// recover reads the last segment. It changes no segment, because the start may still be refused. It returns false if the
// head is incomplete.
func (l *Log) recover(g *segment) (whole bool, err error) {
	name := l.name(g.first)
	data, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	damage := func(why string, args ...any) error { return &DamageError{name, fmt.Sprintf(why, args...)} }
	known, at := readHead(data, g.first)
	if at == 0 {
		_, _, end := nextFrame(data, 0)
		switch torn := end == 0 && l.options.Learned <= g.first; {
		case torn && (len(l.segments) > 1 || len(data) < headBytes):
			return false, nil
		case end == 0 || l.options.Learned <= g.first:
			return false, damage("its head is not what was written")
		}
		l.options.Log.Warn("the head of a file of learned events is damaged: requests before it are no longer recognized when they are repeated", "file", name)
		at = headBytes
	}
	l.keys, l.next = known, g.first
	for {
		f, start, end := nextFrame(data, at)
		if end == 0 {
			break
		}
		if f.first > l.options.Learned && f.first != l.next || f.first < l.next {
			return false, damage("events %d to %d are not what was written", l.next, f.first-1)
		}
		if start > at {
			l.options.Log.Warn("a file of events is damaged; the damaged events had been learned", "file", name, "from", l.next, "to", f.first-1)
		}
		l.keys.remember(&f, 0)
		l.next = f.first + int64(f.events)
		at = end
	}
	if g.file, err = l.options.file(name, os.O_RDWR); err != nil {
		return false, err
	}
	g.size = int64(at)
	switch missing := l.options.Learned - l.next; {
	case missing <= 0 && at == len(data):
		return true, nil
	case missing <= 0:
		l.torn = slices.Clone(data[at:])
		l.options.Log.Warn("the last events of the log are incomplete, as after a failure while they were written; they are dropped, though they may have been acknowledged if the file was damaged later", "file", name, "bytes", len(l.torn), "kept in", l.cutName(l.next))
		return true, nil
	case !holds(data[at:], missing):
		return false, errors.Join(damage("it ends with event %d, and event %d has been learned", l.next-1, l.options.Learned-1), g.file.Close())
	}
	l.options.Log.Warn("the end of a file of events is damaged; the damaged events had been learned", "file", name, "from", l.next, "to", l.options.Learned-1)
	l.next = l.options.Learned
	return true, l.begin()
}

// cut moves an incomplete end of the last segment to another file.
func (l *Log) cut(g *segment) error {
	f, err := os.OpenFile(l.cutName(l.next), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(l.torn)
	if err = errors.Join(err, f.Sync(), f.Close(), l.options.sync(l.directory)); err == nil {
		if err = g.file.Truncate(g.size); err == nil {
			err = g.file.Sync()
		}
	}
	return err
}

func (l *Log) cutName(first int64) string {
	return strings.TrimSuffix(l.name(first), ".events") + ".cut"
}

// begin starts a new segment.
func (l *Log) begin() error {
	name := l.name(l.next)
	f, err := l.options.file(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return fmt.Errorf("beginning %s: %w", name, err)
	}
	head := l.keys.encode(append(make([]byte, 0, headBytes), magic...), l.next)
	if _, err = f.WriteAt(head, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.options.sync(l.directory)
	}
	if err != nil {
		return fmt.Errorf("beginning %s: %w", name, errors.Join(err, f.Close(), os.Remove(name)))
	}
	if n := len(l.segments); n > 0 {
		if err := l.segments[n-1].file.Close(); err != nil {
			return err
		}
		l.segments[n-1].file = nil
	}
	l.segments = append(l.segments, &segment{first: l.next, size: int64(len(head)), file: f})
	return nil
}

// Append writes the events of a request, and returns their place once they are on disk. keys is empty, or has one key for
// the request, or a key for each event, where "" means no key. Events whose key is known are not written again. If their
// content differs from the known content, Append writes nothing and returns a *ReusedError. Append does not keep the
// slice events after it returns.
func (l *Log) Append(ctx context.Context, keys []string, events [][]byte) (Stored, error) {
	p := &post{done: make(chan struct{})}
	p.data = encodeFrame(hashes(keys), events, time.Now().UnixMilli())
	p.frame = decodeFrame(p.data)
	l.mu.Lock()
	if fresh, stored, err := l.keys.fresh(&p.frame, nil); err != nil || len(fresh) == 0 {
		l.mu.Unlock()
		return stored, err
	}
	if err := l.admit(int64(len(p.data))); err != nil {
		l.mu.Unlock()
		return Stored{}, err
	}
	l.posts = append(l.posts, p)
	l.mu.Unlock()
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
	for _, g := range l.segments {
		switch {
		case g.first == l.reader.segment:
			bytes += max(0, g.size-max(l.reader.at, headBytes))
		case g.first > l.reader.segment:
			bytes += g.size
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
		l.mu.Lock()
		posts, broken, closed := slices.Clone(l.posts), l.broken, l.closed
		l.mu.Unlock()
		err := broken
		data, added, next := l.arrange(posts)
		if err == nil && len(data) > 0 {
			err = l.writeAll(data)
		}
		l.mu.Lock()
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
			close(l.grown)
			l.grown = make(chan struct{})
		}
		l.mu.Unlock()
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
	g := l.segments[len(l.segments)-1] // no other goroutine changes this segment
	if l.torn != nil {
		if err = l.cut(g); err != nil {
			return diskError(fmt.Errorf("keeping the end of %s: %w", l.name(g.first), err))
		}
		l.torn = nil
	}
	if g.size >= l.options.Segment {
		l.mu.Lock()
		err = l.begin()
		g = l.segments[len(l.segments)-1]
		l.mu.Unlock()
		if err != nil {
			return diskError(err)
		}
	}
	name := l.name(g.first)
	if _, err = g.file.WriteAt(data, g.size); err != nil {
		if back := g.file.Truncate(g.size); back != nil {
			return l.fail(fmt.Errorf("writing %s: %w", name, errors.Join(err, back)))
		}
		return diskError(fmt.Errorf("writing %s: %w", name, err))
	}
	if err = failpoint.Here("inbox.sync"); err == nil {
		err = g.file.Sync()
	}
	if err == nil {
		err = seglog.InPlace(g.file, name)
	}
	if err != nil {
		return l.fail(fmt.Errorf("writing %s to disk: %w", name, err))
	}
	l.mu.Lock()
	g.size += int64(len(data))
	l.mu.Unlock()
	return nil
}

// fail makes all further writes fail.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	l.broken = fmt.Errorf("%w: no more events are accepted until the learner restarts", err)
	close(l.grown) // notifies readers
	l.grown = make(chan struct{})
	l.mu.Unlock()
	return l.broken
}

// Passed declares that events before the given number are no longer needed. It removes segments that contain only such
// events.
func (l *Log) Passed(number int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.segments) > 1 && l.segments[1].first <= number && l.segments[0].first < l.reader.segment {
		if err := seglog.Remove(l.name(l.segments[0].first)); err != nil {
			return fmt.Errorf("removing events that have been learned: %w", err)
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// First returns the number of the oldest stored event.
func (l *Log) First() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].first
}

// Next returns the number of the next event.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Close writes waiting posts and closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	wake(l.wake)
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.segments[len(l.segments)-1].file.Close()
	return errors.Join(err, l.lock.Close())
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
	le.PutUint32(out[4:], uint32(size))
	return out
}

// seal sets the number of the first event of a frame, and the checksum.
func seal(data []byte, first int64) {
	le := binary.LittleEndian
	le.PutUint64(data[frameBytes:], uint64(first))
	le.PutUint32(data, checksum(data[4:]))
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
	le := binary.LittleEndian
	if len(data)-at < frameBytes+postBytes {
		return f, 0
	}
	size := int(le.Uint32(data[at+4:]))
	if size < postBytes || len(data)-at-frameBytes < size {
		return f, 0
	}
	end = at + frameBytes + size
	f = decodeFrame(data[at:end])
	if n := len(f.keys) / keyBytes; f.count() != f.events || f.events == 0 || n > 1 && n != f.events || le.Uint32(data[at:]) != checksum(data[at+4:end]) {
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

func checksum(b []byte) uint32 { return uint32(xxhash.Sum64(b)) }

// diskError converts an error of the operating system to ErrDiskFull if the disk is full.
func diskError(err error) error {
	if isDiskFull(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
