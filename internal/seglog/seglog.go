// Package seglog stores logs on disk for the packages inbox and labels. Logs are in a Directory, which has one owner. A
// Log is a sequence of Segments: files that only grow, of which the oldest and the newest can be removed.
//
//	NUMBER.SUFFIX  a head, then the appended bytes; NUMBER has 16 hexadecimal digits
//	frame          checksum and size of the payload, 4 bytes each, then the payload
//	head           a frame of the log's magic number, the segment's number and what Begin was given
//
// What follows the head is up to the user of the Log, and so is the rule for a damaged end: a user reads the bytes of
// a Segment, decides where they end and calls Cut. Checkpoints use Sync, too.
package seglog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/gofrs/flock"

	"blankout/internal/failpoint"
)

// ErrInUse means that another process has locked the directory.
var ErrInUse = errors.New("in use by another learner")

// BrokenError reports that it is unknown whether written data is on disk. Only opening the directory again shows the
// content of the disk.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return e.Err.Error() }

// System has the calls of the operating system that can fail. Nil functions use the operating system.
type System struct {
	Open func(name string, flag int) (File, error)
	Sync func(directory string) error
}

// File is an open file of a Segment.
type File interface {
	io.ReaderAt
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// Directory is a locked directory of logs.
type Directory struct {
	// Mu protects the Directory, its Logs and their Segments. A caller locks it for all methods except Sync. While
	// another goroutine calls Sync, only Segments whose bytes are all on disk may be removed.
	Mu      sync.Mutex
	Path    string
	System  System
	lock    *flock.Flock
	logs    []*Log
	changed bool  // whether a file was created or removed since the directory was synced
	broken  error // reason why written data may not be on disk, or nil
}

// Lock creates the directory if necessary, and locks it. Only the owner may read its files, which contain events. The
// error wraps ErrInUse if another process has locked it.
func Lock(directory string, s System) (*Directory, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(directory, "lock")
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: remove it", path)
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", path, err)
	case !locked:
		return nil, fmt.Errorf("%s is %w", directory, ErrInUse)
	}
	if s.Open == nil {
		s.Open = func(name string, flag int) (File, error) { return os.OpenFile(name, flag, 0o600) }
	}
	if s.Sync == nil {
		s.Sync = Sync
	}
	return &Directory{Path: directory, System: s, lock: lock}, nil
}

// Log is a log of a Directory.
type Log struct {
	Segments  []*Segment // oldest first
	directory *Directory
	suffix    string
	magic     string
}

// Segment is a file of a Log.
type Segment struct {
	Number uint64
	Name   string
	// Start is the size of the head, and Head is what Begin was given. They are 0 and nil if the file does not begin with
	// the head that was written.
	Start int64
	Head  []byte
	// OnDisk is the size of the file when it was opened, cut or last synced.
	OnDisk int64

	file    File   // nil before the first write
	written int64  // size of the file
	out     []byte // bytes at the end that are not written yet
	longer  bool   // whether the file may have more bytes, which the next Flush removes
	dirty   bool   // whether written bytes are not synced
}

// Open opens the segments with a suffix. The Directory writes the Logs in the order in which they were opened.
func (d *Directory) Open(suffix, magic string) (*Log, error) {
	l := &Log{directory: d, suffix: suffix, magic: magic}
	d.logs = append(d.logs, l)
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // sorted by name
		name, is := strings.CutSuffix(e.Name(), suffix)
		number, err := strconv.ParseUint(name, 16, 64)
		if !is || err != nil || len(name) != 16 {
			continue
		}
		g := &Segment{Number: number, Name: d.Name(number, suffix)}
		if g.file, err = d.System.Open(g.Name, os.O_RDWR); err != nil {
			return nil, err
		}
		l.Segments = append(l.Segments, g)
		info, err := g.file.Stat()
		if err != nil {
			return nil, err
		}
		g.written, g.OnDisk = info.Size(), info.Size()
		frame, err := g.Frame(0)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if payload, end := Frame(frame, 0); bytes.HasPrefix(payload, l.head(number)) {
			g.Start, g.Head = int64(end), payload[len(l.magic)+8:]
		}
	}
	return l, nil
}

// head returns the start of the head of a segment.
func (l *Log) head(number uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte(l.magic), number)
}

// Name returns the name of a file of the Directory.
func (d *Directory) Name(number uint64, suffix string) string {
	return filepath.Join(d.Path, fmt.Sprintf("%016x%s", number, suffix))
}

// Begin adds a segment. The next Flush creates its file.
func (l *Log) Begin(number uint64, head []byte) *Segment {
	frame := append(append(make([]byte, FrameBytes), l.head(number)...), head...)
	Seal(frame)
	g := &Segment{Number: number, Name: l.directory.Name(number, l.suffix), Start: int64(len(frame)), Head: head, out: frame}
	l.Segments = append(l.Segments, g)
	return g
}

// Last returns the newest segment. There must be one.
func (l *Log) Last() *Segment { return l.Segments[len(l.Segments)-1] }

// Find returns the newest segment whose number is at most the given one, or nil.
func (l *Log) Find(number uint64) *Segment {
	i, found := slices.BinarySearchFunc(l.Segments, number, func(g *Segment, number uint64) int { return cmp.Compare(g.Number, number) })
	switch {
	case found:
		return l.Segments[i]
	case i == 0:
		return nil
	}
	return l.Segments[i-1]
}

// Remove removes the oldest or the newest segment, so that the others have no gap.
func (l *Log) Remove(g *Segment) error {
	l.Segments = slices.DeleteFunc(l.Segments, func(other *Segment) bool { return other == g })
	l.directory.changed = true
	var err error
	if g.file != nil {
		err = g.file.Close()
	}
	if gone := os.Remove(g.Name); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Size returns the size of the segment with the head, including unwritten bytes.
func (g *Segment) Size() int64 { return g.written + int64(len(g.out)) }

// Append adds bytes to the end. They stay in memory until Flush or Sync.
func (g *Segment) Append(b []byte) { g.out = append(g.out, b...) }

// ReadAt fills b with the bytes from a position on, which Append added together.
func (g *Segment) ReadAt(b []byte, at int64) error {
	switch {
	case at+int64(len(b)) > g.Size():
		return io.ErrUnexpectedEOF
	case at >= g.written:
		copy(b, g.out[at-g.written:])
		return nil
	}
	_, err := g.file.ReadAt(b, at)
	return err
}

// Read returns all bytes from a position on.
func (g *Segment) Read(from int64) ([]byte, error) {
	data := make([]byte, g.Size()-from)
	return data, g.ReadAt(data, from)
}

// Frame returns the frame at a position, with its payload. It may not be what was written.
func (g *Segment) Frame(at int64) ([]byte, error) {
	frame := make([]byte, FrameBytes)
	if err := g.ReadAt(frame, at); err != nil {
		return nil, err
	}
	size := FrameBytes + int64(binary.LittleEndian.Uint32(frame[4:]))
	if at+size > g.Size() {
		return nil, io.ErrUnexpectedEOF
	}
	frame = make([]byte, size)
	return frame, g.ReadAt(frame, at)
}

// Cut removes the bytes from a position on. The next Flush removes them from the file.
func (g *Segment) Cut(size int64) {
	if size == g.Size() {
		return
	}
	g.out = g.out[:max(0, size-g.written)]
	g.written, g.OnDisk, g.longer = min(size, g.written), min(size, g.OnDisk), true
}

// Unwritten returns the number of bytes that the next Flush writes.
func (g *Segment) Unwritten() int { return len(g.out) }

// Flush writes the unwritten bytes. If it fails, for example because the disk is full, nothing is lost, and the next
// call tries again.
func (d *Directory) Flush() error {
	if d.broken != nil {
		return d.broken
	}
	for _, l := range d.logs {
		for _, g := range l.Segments {
			if err := d.flush(g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Directory) flush(g *Segment) error {
	if g.file == nil {
		f, err := d.System.Open(g.Name, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
		if err != nil {
			return err
		}
		g.file, d.changed = f, true
	}
	if g.longer {
		if err := g.file.Truncate(g.written); err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		g.longer, g.dirty = false, true
	}
	if len(g.out) == 0 {
		return nil
	}
	err := failpoint.Here("seglog.write")
	if err == nil {
		_, err = g.file.WriteAt(g.out, g.written)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	g.written, g.dirty, g.out = g.Size(), true, g.out[:0]
	return nil
}

// Sync writes the unwritten bytes and syncs all files to disk. Afterwards OnDisk has the sizes. If a file cannot be
// synced, or is no longer in its place, the error is a *BrokenError, and all later calls of Flush and Sync fail. Any
// goroutine may call Sync, but only one at a time.
func (d *Directory) Sync() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.Flush(); err != nil {
		return err
	}
	var dirty []*Segment
	var sizes []int64
	for _, l := range d.logs {
		for _, g := range l.Segments {
			if g.dirty {
				dirty, sizes, g.dirty = append(dirty, g), append(sizes, g.written), false
			}
		}
	}
	err, changed := d.inPlace(), d.changed
	d.changed = false
	d.Mu.Unlock()
	for _, g := range dirty {
		err = errors.Join(err, failpoint.Here("seglog.sync"), g.file.Sync())
	}
	if changed {
		err = errors.Join(err, d.System.Sync(d.Path))
	}
	d.Mu.Lock()
	if err != nil {
		d.broken = &BrokenError{fmt.Errorf("%s: %w", d.Path, err)}
		return d.broken
	}
	for i, g := range dirty {
		g.OnDisk = sizes[i]
	}
	return nil
}

// inPlace returns an error if the lock or a file of a segment no longer has its name, for example because the directory
// was removed.
func (d *Directory) inPlace() error {
	if err := inPlace(d.lock, d.lock.Path()); err != nil {
		return fmt.Errorf("another learner may use the directory: %w", err)
	}
	for _, l := range d.logs {
		for _, g := range l.Segments {
			if err := inPlace(g.file, g.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func inPlace(f interface{ Stat() (fs.FileInfo, error) }, name string) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Lstat(name)
	if err == nil && !os.SameFile(is, found) {
		err = fmt.Errorf("%s: another file is in its place", name)
	}
	return err
}

// Close closes the files and unlocks the Directory. Unwritten bytes are lost.
func (d *Directory) Close() error {
	var errs []error
	for _, l := range d.logs {
		for _, g := range l.Segments {
			if g.file != nil {
				errs = append(errs, g.file.Close())
			}
		}
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// FrameBytes is the size of a frame without its payload.
const FrameBytes = 8

// Seal completes a frame whose payload begins at FrameBytes.
func Seal(frame []byte) {
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-FrameBytes))
	binary.LittleEndian.PutUint32(frame, uint32(xxhash.Sum64(frame[4:])))
}

// Frame returns the payload of the frame at data[at:], and the start of the next frame. They are nil and 0 if the frame
// is not whole.
func Frame(data []byte, at int) (payload []byte, end int) {
	if len(data)-at < FrameBytes {
		return nil, 0
	}
	le := binary.LittleEndian
	size := int(le.Uint32(data[at+4:]))
	if end = at + FrameBytes + size; len(data) < end || le.Uint32(data[at:]) != uint32(xxhash.Sum64(data[at+4:end])) {
		return nil, 0
	}
	return data[at+FrameBytes : end], end
}

// Sync makes the names of new files durable.
func Sync(directory string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot open a directory for syncing; NTFS journals file creation
	}
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
