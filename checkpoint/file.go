// Package checkpoint stores the state of a learner. It has one file format for checkpoints, models and snapshots, and a
// directory of such files that survives a crash at any instant.
//
// A file is a container of named blocks (see [Write], [Decode] and the table in docs/formats.md). The packages that
// write blocks define their meaning. This package verifies the checksum of every byte. A directory is a [Store]: it has
// one owner, keeps the newest files, and finds the newest undamaged file after a crash.
package checkpoint

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"blankout/internal/event"
	"blankout/internal/pages"

	"github.com/cespare/xxhash/v2"
)

// Magic is the start of every file. Version is the format version that this program writes. It is also the newest
// version that this program reads.
const (
	Magic   = "blankout"
	Version = 1
)

// Kind is the kind of a file.
type Kind string

// Kinds of files.
const (
	Linear Kind = "linear" // a linear model, with or without the learner's state
	Kernel Kind = "kernel" // support vectors and their multipliers
)

// These errors describe why a file cannot be used. Check for them with errors.Is. The text of a returned error contains
// the position in the file.
var (
	ErrDamaged = errors.New("damaged")                             // bytes changed or missing
	ErrForeign = errors.New("not a blankout file")                 // the file does not begin with Magic
	ErrNewer   = errors.New("written by a newer blankout program") // a format version above Version
)

// File is a decoded file.
type File struct {
	Name   string // base name, for messages; "" if decoded from memory
	Kind   Kind
	Blocks []event.Block // in the order of the file; their data may alias the input of Decode
}

// Block returns the data of a block.
func (f *File) Block(name string) ([]byte, error) {
	data, err := event.FindBlock(f.Blocks, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return data, nil
}

const (
	prefixLen = len(Magic) + 4 + 4 // magic, version, checksum: the same in every version
	tagBlock  = 'B'
	tagEnd    = 'E'
	maxName   = 1<<16 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write writes a file. It requests the blocks one at a time and keeps none of them. So only one encoded block is in
// memory if the caller encodes blocks on demand. Equal blocks give equal bytes, because a file contains no time, name
// or counter.
func Write(w io.Writer, kind Kind, blocks iter.Seq[event.Block]) error {
	if kind != Linear && kind != Kernel {
		return fmt.Errorf("writing a file of unknown kind %q", kind)
	}
	// The closing checksum covers all bytes before it. Every other checksum covers its own part of the file.
	total := xxhash.New()
	buffered := bufio.NewWriterSize(w, 1<<16)
	e := &encoder{w: io.MultiWriter(buffered, total), part: crc32.New(castagnoli)}

	e.write([]byte(Magic))
	e.write(binary.LittleEndian.AppendUint32(nil, Version))
	e.checksum()
	e.write(append([]byte{byte(len(kind))}, kind...))
	e.checksum()
	count, seen := uint32(0), map[string]bool{}
	for b := range blocks {
		if e.err != nil {
			break
		}
		if len(b.Name) == 0 || len(b.Name) > maxName || seen[b.Name] {
			return fmt.Errorf("writing block %d: the name %.80q is empty, too long or taken", count, b.Name)
		}
		seen[b.Name] = true
		head := binary.LittleEndian.AppendUint16([]byte{tagBlock}, uint16(len(b.Name)))
		head = append(head, b.Name...)
		e.write(binary.LittleEndian.AppendUint64(head, uint64(len(b.Data))))
		e.checksum()
		e.write(b.Data)
		e.checksum()
		count++
	}
	e.write(binary.LittleEndian.AppendUint32([]byte{tagEnd}, count))
	e.write(binary.LittleEndian.AppendUint64(nil, total.Sum64()))
	if e.err == nil {
		e.err = buffered.Flush()
	}
	return e.err
}

// encoder writes the parts of a file, each followed by its checksum. It stops at the first error.
type encoder struct {
	w    io.Writer
	part hash.Hash32
	err  error
}

func (e *encoder) write(p []byte) {
	e.part.Write(p)
	if e.err == nil {
		_, e.err = e.w.Write(p)
	}
}

func (e *encoder) checksum() {
	sum := binary.LittleEndian.AppendUint32(nil, e.part.Sum32())
	e.write(sum)
	e.part.Reset()
}

// Decode decodes a file from memory. The blocks alias data. Errors are ErrForeign, ErrNewer or ErrDamaged, with the
// position in the file.
func Decode(data []byte) (*File, error) {
	d := decoder{data: data, size: len(data)}
	return d.file()
}

// decoder decodes a file and keeps the first error.
type decoder struct {
	data  []byte    // the whole file, nil if in is set
	in    io.Reader // source of the file, nil if data is set
	check bool      // the file is only checked, so memory may be reused
	size  int
	at    int
	total xxhash.Digest
	room  pages.Chunk
	reuse []byte
	err   error
}

func (d *decoder) file() (*File, error) {
	d.total.Reset()
	prefix := d.take(min(d.size, prefixLen), "the file's prefix")
	if d.err != nil {
		return nil, d.err
	}
	if n := min(len(prefix), len(Magic)); string(prefix[:n]) != Magic[:n] || n == 0 {
		return nil, fmt.Errorf("%w (it does not start with %q)", ErrForeign, Magic)
	}
	if len(prefix) < prefixLen {
		d.fail(0, "the file's prefix is cut off")
	}
	d.sum("the file's prefix", prefix)
	if d.err != nil {
		return nil, d.err
	}
	if v := binary.LittleEndian.Uint32(prefix[len(Magic):]); v > Version {
		return nil, fmt.Errorf("%w: format version %d, this program reads up to %d", ErrNewer, v, Version)
	} else if v == 0 {
		return nil, fmt.Errorf("%w: format version 0", ErrDamaged)
	}
	start := d.at
	kind := d.more(d.take(1, "the kind"), func(p []byte) int { return int(p[0]) + 4 }, "the kind")
	d.sum("the kind", kind)
	if d.err != nil {
		return nil, d.err
	}
	f := &File{Kind: Kind(kind[1 : len(kind)-4])}
	if f.Kind != Linear && f.Kind != Kernel {
		return nil, fmt.Errorf("%w at byte %d: unknown kind %q", ErrDamaged, start, f.Kind)
	}
	seen := map[string]bool{}
	for d.err == nil {
		start := d.at
		tag := d.take(1, "the closing part")
		if d.err != nil {
			break
		}
		if tag[0] == tagEnd {
			if d.closing(start, len(f.Blocks)); d.err == nil {
				return f, nil
			}
			break
		}
		if tag[0] != tagBlock {
			d.fail(start, "neither a block nor the end")
			break
		}
		where := fmt.Sprintf("the head of block %d", len(f.Blocks))
		head := d.more(tag, func([]byte) int { return 2 }, where)
		head = d.more(head, func(p []byte) int { return int(binary.LittleEndian.Uint16(p[1:])) + 8 + 4 }, where)
		d.sum(where, head)
		if d.err != nil {
			break
		}
		// The checksum of the head is valid here, so the lengths in the head are reliable.
		name := string(head[3 : len(head)-12])
		length := binary.LittleEndian.Uint64(head[len(head)-12:])
		where = fmt.Sprintf("block %q", name)
		if length > uint64(d.size-d.at) {
			d.fail(d.at, "%s is cut off: %d of %d bytes", where, d.size-d.at, length)
			break
		}
		body := d.take(int(length)+4, where)
		d.sum(where, body)
		if d.err == nil && seen[name] {
			d.fail(start, "%s twice", where)
		}
		if d.err == nil {
			seen[name] = true
			f.Blocks = append(f.Blocks, event.Block{Name: name, Data: body[:length:length]})
		}
	}
	return nil, d.err
}

// closing checks the closing part of a file with the given number of blocks. The argument start is the position of the
// closing part's tag.
func (d *decoder) closing(start, blocks int) {
	count := d.take(4, "the closing part")
	want := d.total.Sum64()
	sum := d.take(8, "the closing part")
	switch {
	case d.err != nil:
	case binary.LittleEndian.Uint64(sum) != want:
		d.fail(start, "the closing checksum does not match")
	case int(binary.LittleEndian.Uint32(count)) != blocks:
		d.fail(start, "%d blocks, the end says %d", blocks, binary.LittleEndian.Uint32(count))
	case d.at != d.size:
		d.fail(d.at, "%d bytes after the end", d.size-d.at)
	}
}

func (d *decoder) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w at byte %d: %s", ErrDamaged, at, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes, or nil after an error.
func (d *decoder) take(n int, where string) []byte {
	if d.err == nil && n > d.size-d.at {
		d.fail(d.at, "%s is cut off", where)
	}
	if d.err != nil {
		return nil
	}
	var p []byte
	if d.in == nil {
		p = d.data[d.at : d.at+n]
	} else {
		p = d.memory(n)
		if _, err := io.ReadFull(d.in, p); err == io.EOF || err == io.ErrUnexpectedEOF {
			d.fail(d.at, "%s is cut off", where)
			return nil
		} else if err != nil {
			d.err = err
			return nil
		}
	}
	d.total.Write(p)
	d.at += n
	return p
}

// memory returns n bytes to read into. Blocks of weight rows are adjacent in memory, so that a model.Table can use them
// in place.
func (d *decoder) memory(n int) []byte {
	switch {
	case n < 1<<16:
		return make([]byte, n)
	case d.check:
		d.reuse = slices.Grow(d.reuse[:0], n)
		return d.reuse[:n]
	}
	return d.room.Bytes(n, d.size-d.at)
}

// more returns p, the start of a part, followed by the rest of the part. The function size returns the length of the
// rest, given p.
func (d *decoder) more(p []byte, size func(p []byte) int, where string) []byte {
	if d.err != nil {
		return nil
	}
	p = slices.Clone(p)
	return append(p, d.take(size(p), where)...)
}

// sum checks a part whose last four bytes are the checksum of the bytes before them.
func (d *decoder) sum(where string, part []byte) {
	if d.err != nil {
		return
	}
	n := len(part) - 4
	if crc32.Checksum(part[:n], castagnoli) != binary.LittleEndian.Uint32(part[n:]) {
		d.fail(d.at-len(part), "the checksum of %s does not match", where)
	}
}

// ReadFile reads and checks a file.
func ReadFile(path string) (*File, error) { return readFile(osFS{}, path, false) }

// readFile reads and checks a file. Each block has its own memory, so that a reference to one block does not keep a
// large file in memory. If check is set, the file is only checked and the returned blocks are empty.
func readFile(fsys fileSystem, path string, check bool) (*File, error) {
	in, size, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d := decoder{in: bufio.NewReader(in), size: int(size), check: check}
	f, err := d.file()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.Name = filepath.Base(path)
	return f, nil
}

// WriteFile replaces the file at path. After a crash at any instant, the path holds either the old file or the new
// file. Once WriteFile has returned nil, the path holds the new file. A crash may leave a file that ends in ".tmp".
//
// WriteFile replaces regular files only, see Target.
func WriteFile(path string, kind Kind, blocks iter.Seq[event.Block]) error {
	path, err := Target(path)
	if err != nil {
		return err
	}
	_, err = replaceFile(osFS{}, path, modelMode, func(w io.Writer) error { return Write(w, kind, blocks) })
	return err
}

// Target returns the path that WriteFile replaces: path, or its target if path is a symbolic link. It returns an error
// if path exists and is not a regular file. Otherwise WriteFile would replace a device, a pipe or a directory by a
// file.
func Target(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	target := path
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err = filepath.EvalSymlinks(path); err == nil {
			info, err = os.Lstat(target)
		}
	}
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("writing %s: it exists and is not a regular file (%s): choose another name", path, info.Mode())
	}
	return target, nil
}

// Permissions of files, before the process's umask is applied.
const (
	modelMode      = fs.FileMode(0o644) // models: other users may predict with them
	checkpointMode = fs.FileMode(0o600) // checkpoints: they contain events
)

func replaceFile(fsys fileSystem, path string, mode fs.FileMode, write func(io.Writer) error) (size int64, err error) {
	temporary := path + temporarySuffix
	f, err := fsys.Create(temporary, mode)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			fsys.Remove(temporary) // best effort: Open removes leftover files
		}
	}()
	counted := &countingWriter{w: f}
	// Close is always called. Its error is reported only if no earlier call failed.
	err = cmp.Or(firstError(write(counted), f.Sync), f.Close())
	err = firstError(err, func() error { return fsys.Rename(temporary, path) })
	err = firstError(err, func() error { return fsys.SyncDir(filepath.Dir(path)) })
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", path, err)
	}
	return counted.n, nil
}

const temporarySuffix = ".tmp"

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
