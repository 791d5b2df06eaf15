// Package inbox stores events that arrive in requests, for example over HTTP, until they are learned. It has a Log on
// disk, and a Source that reads the Log. It does not depend on HTTP.
package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/gofrs/flock"

	"blankout/internal/failpoint"
)

// Log is a log of events on disk. The events of a request are appended together: after a crash the Log has all of them
// or none. Append returns once they are on disk. The log is divided into segments. A segment is removed once its events
// are no longer needed.
//
//	NUMBER.events  a head, then a frame for each request; NUMBER is the number of its first event, in 16 hexadecimal digits
//
// The head of a segment has the keys of earlier requests. So a repeated request is recognized even after the segment
// with its events is removed. A write that a crash interrupted was never acknowledged, so opening the Log removes it.
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
	reader   place // position up to which events have been read
}

// Options has the limits of a Log.
type Options struct {
	// Most is the largest number of unread bytes; 0 means 64 MiB. Beyond it, Append fails with ErrBehind.
	Most int64
	// Segment is the size of a full segment in bytes. 0 means 64 MiB.
	Segment int64
	// Free returns the number of free bytes on the disk, and MinFree is the number that must remain free. Below it,
	// Append fails with ErrDiskFull. A nil Free disables the check.
	Free    func() (int64, error)
	MinFree int64
	Log     *slog.Logger // nil disables the log
	// file opens the files of segments; nil uses the operating system. Tests set it to simulate failing files.
	file func(name string, flag int) (segmentFile, error)
}

// segmentFile is the file of a segment that is being written.
type segmentFile interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// The errors of Append. If Append returns one of them, no event of the request is stored.
var (
	ErrBehind   = errors.New("learning is behind: too many events wait")
	ErrDiskFull = errors.New("the disk is nearly full")
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
	key    key
	frame  []byte
	events int
	first  int64 // number of the first event, set when the post is done
	err    error
	done   chan struct{}
}

var magic = []byte("blankout inbox 1")

const (
	headBytes  = 32 // magic number, number of the first event, size of the keys, checksum of both
	frameBytes = 8  // checksum and size of a payload
	postBytes  = 28 // start of a payload: number of events, arrival and key
)

// DamageError reports that a file of a Log differs from the bytes that were written.
type DamageError struct{ File, Why string }

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; restore it, or restart with --reset", e.File, e.Why)
}

// Open opens the log in a directory, which it creates if necessary.
func Open(directory string, o Options) (_ *Log, err error) {
	if o.Most == 0 {
		o.Most = 64 << 20
	}
	if o.Segment == 0 {
		o.Segment = 64 << 20
	}
	if o.file == nil {
		o.file = func(name string, flag int) (segmentFile, error) { return os.OpenFile(name, flag, 0o600) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(directory, 0o700); err != nil { // only the owner may read the events
		return nil, fmt.Errorf("events that wait to be learned: %w", err)
	}
	l := &Log{options: o, directory: directory, wake: make(chan struct{}, 1), ended: make(chan struct{}), grown: make(chan struct{})}
	path := filepath.Join(directory, "lock")
	l.lock = flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := l.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("events that wait to be learned: locking %s: %w", path, err)
	case !locked:
		return nil, fmt.Errorf("the events that wait to be learned in %s are in use by another learner", directory)
	}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.lock.Close())
	}
	go l.write()
	return l, nil
}

func (l *Log) name(first int64) string {
	return filepath.Join(l.directory, fmt.Sprintf("%016x.events", first))
}

// open finds the segments, and reads the last one to its end.
func (l *Log) open() error {
	entries, err := os.ReadDir(l.directory)
	if err != nil {
		return fmt.Errorf("events that wait to be learned: %w", err)
	}
	for _, e := range entries { // sorted by name
		name, isSegment := strings.CutSuffix(e.Name(), ".events")
		if first, err := strconv.ParseInt(name, 16, 64); isSegment && err == nil && len(name) == 16 {
			info, err := e.Info()
			if err != nil {
				return err
			}
			l.segments = append(l.segments, &segment{first: first, size: info.Size()})
		}
	}
	for len(l.segments) > 0 {
		g := l.segments[len(l.segments)-1]
		whole, err := l.recover(g)
		if err != nil {
			return err
		}
		if whole {
			l.reader = place{l.segments[0].first, 0}
			return nil
		}
		// The process ended while it wrote the head of this segment.
		if err := os.Remove(l.name(g.first)); err != nil {
			return err
		}
		l.segments = l.segments[:len(l.segments)-1]
	}
	if err := l.begin(); err != nil {
		return err
	}
	l.reader = place{l.segments[0].first, 0}
	return nil
}

// recover reads the last segment and removes an incomplete end. It returns false if the head is incomplete.
func (l *Log) recover(g *segment) (whole bool, err error) {
	name := l.name(g.first)
	data, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	known, at := readHead(data, g.first)
	if at == 0 {
		if len(l.segments) == 1 && len(data) >= headBytes {
			return false, &DamageError{name, "its head is not what was written"}
		}
		return false, nil
	}
	l.keys, l.next = known, g.first
	for {
		p, end := readFrame(data, at)
		if end == 0 {
			break
		}
		l.keys.add(p.key, placed{l.next, p.events})
		l.next += int64(p.events)
		at = end
	}
	if g.file, err = l.options.file(name, os.O_RDWR); err != nil {
		return false, err
	}
	if at < len(data) {
		l.options.Log.Warn("the program ended while writing the last events; they were not acknowledged and are dropped", "file", name, "bytes", len(data)-at)
		if err := g.file.Truncate(int64(at)); err != nil {
			return false, err
		}
		if err := g.file.Sync(); err != nil {
			return false, err
		}
	}
	g.size = int64(at)
	return true, nil
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
		err = syncDirectory(l.directory)
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

func syncDirectory(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil // Windows cannot sync a directory
	}
	return errors.Join(err, d.Close())
}

// Append writes the events of a request, and returns the number of the first event once they are on disk. If a request
// with this key was already written, Append writes nothing and returns the number of that request's first event. Append
// does not keep the slice events after it returns.
func (l *Log) Append(ctx context.Context, requestKey string, events [][]byte) (first int64, again bool, err error) {
	p := &post{key: keyOf(requestKey), events: len(events), done: make(chan struct{})}
	p.frame = encodePost(p.key, events)
	l.mu.Lock()
	if !p.key.none() {
		if was, ok := l.keys.find(p.key); ok {
			l.mu.Unlock()
			return was.first, true, nil
		}
		for _, other := range l.posts {
			if other.key == p.key {
				l.mu.Unlock()
				first, err = other.wait(ctx)
				return first, err == nil, err
			}
		}
	}
	if err := l.admit(int64(len(p.frame))); err != nil {
		l.mu.Unlock()
		return 0, false, err
	}
	l.posts = append(l.posts, p)
	l.mu.Unlock()
	wake(l.wake)
	first, err = p.wait(ctx)
	return first, false, err
}

func (p *post) wait(ctx context.Context) (int64, error) {
	select {
	case <-p.done:
		return p.first, p.err
	case <-ctx.Done():
		return 0, ctx.Err()
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
		waiting += int64(len(p.frame))
	}
	if waiting += l.unread(); waiting > 0 && waiting+size > l.options.Most {
		return fmt.Errorf("%w (%d bytes, the most is %d)", ErrBehind, waiting, l.options.Most)
	}
	if l.options.Free == nil {
		return nil
	}
	if free, err := l.options.Free(); err == nil && free-size < l.options.MinFree {
		return fmt.Errorf("%w: %d bytes are free and checkpoint.min_free is %d", ErrDiskFull, free, l.options.MinFree)
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
		if err == nil && len(posts) > 0 {
			err = l.writeAll(posts)
		}
		l.mu.Lock()
		l.posts = l.posts[len(posts):]
		for _, p := range posts {
			if p.err = err; err == nil {
				p.first = l.next
				l.keys.add(p.key, placed{l.next, p.events})
				l.next += int64(p.events)
			}
			close(p.done)
		}
		if err == nil && len(posts) > 0 {
			close(l.grown)
			l.grown = make(chan struct{})
		}
		l.mu.Unlock()
		if closed {
			return
		}
	}
}

// writeAll writes posts and syncs them. A failed write is undone, so that the next attempt may succeed. If a sync
// fails, the content of the disk is unknown, and the Log is broken.
func (l *Log) writeAll(posts []*post) (err error) {
	g := l.segments[len(l.segments)-1] // no other goroutine changes this segment
	if g.size >= l.options.Segment {
		l.mu.Lock()
		err = l.begin()
		g = l.segments[len(l.segments)-1]
		l.mu.Unlock()
		if err != nil {
			return diskError(err)
		}
	}
	var data []byte
	for _, p := range posts {
		data = append(data, p.frame...)
	}
	if _, err = g.file.WriteAt(data, g.size); err != nil {
		if back := g.file.Truncate(g.size); back != nil {
			return l.fail(fmt.Errorf("writing %s: %w", l.name(g.first), errors.Join(err, back)))
		}
		return diskError(fmt.Errorf("writing %s: %w", l.name(g.first), err))
	}
	if err = failpoint.Here("inbox.sync"); err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		return l.fail(fmt.Errorf("writing %s to disk: %w", l.name(g.first), err))
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
		if err := os.Remove(l.name(l.segments[0].first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// encodePost returns the frame of a request with key k.
func encodePost(k key, events [][]byte) []byte {
	size := postBytes
	for _, e := range events {
		size += 4 + len(e)
	}
	le := binary.LittleEndian
	out := make([]byte, frameBytes, frameBytes+size)
	out = le.AppendUint32(out, uint32(len(events)))
	out = le.AppendUint64(out, uint64(time.Now().UnixMilli()))
	out = append(out, k[:]...)
	for _, e := range events {
		out = append(le.AppendUint32(out, uint32(len(e))), e...)
	}
	le.PutUint32(out[4:], uint32(size))
	le.PutUint32(out, checksum(out[4:]))
	return out
}

// frame is a stored request, as a reader of the Log decodes it.
type frame struct {
	key    key
	events int
	came   int64 // time of arrival, in milliseconds since the Unix epoch
	rest   []byte
}

// readFrame decodes the frame at data[at:]. It returns the start of the next frame, or 0 if the frame is incomplete.
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
	if le.Uint32(data[at:]) != checksum(data[at+4:end]) {
		return f, 0
	}
	p := data[at+frameBytes : end]
	f = frame{events: int(le.Uint32(p)), came: int64(le.Uint64(p[4:])), key: key(p[12:28]), rest: p[postBytes:]}
	return f, end
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

// key is a hash of the key of a request, or zeros if it has no key.
type key [16]byte

func (k key) none() bool { return k == key{} }

func keyOf(text string) (k key) {
	if text != "" {
		sum := sha256.Sum256([]byte(text))
		copy(k[:], sum[:])
	}
	return k
}
