package stream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"blankout"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// File is the source that reads a file, or standard input, through a Decoder.
// The offset of an example is the number of the line it starts in, from 0 (of an
// idx pair, of the image); blank lines, comments and a CSV header count and are
// stepped over. The methods but Progress are for one goroutine.
type File struct {
	config  RecordConfig
	records *Records
	decoder Decoder
	schema  *blankout.Schema

	block block // without reading ahead
	ahead *ahead
}

const (
	batchExamples = 512     // bounds a Batch; it ends earlier with the lines at hand
	bufferBytes   = 1 << 18 // of a buffer that is no longer than a record makes it
)

// OpenFile opens a file of records for learning: plain or compressed by gzip or
// zstd, "-" for standard input. The format is c.Format or told by the name; that
// of a name with images-idx3 is the MNIST pair of that file and the one with
// labels-idx1. Decoding adds to s.
func OpenFile(path string, c RecordConfig, s *blankout.Schema) (*File, error) {
	return OpenFileContext(context.Background(), path, c, s)
}

// OpenFileContext opens a file as OpenFile does. It waits for the first bytes of
// standard input until ctx ends.
func OpenFileContext(ctx context.Context, path string, c RecordConfig, s *blankout.Schema) (*File, error) {
	records, err := openRecords(ctx, path, c)
	if err != nil {
		return nil, err
	}
	f := &File{config: c, records: records, schema: s}
	if records.idx != nil {
		f.decoder, err = newIdxDecoder(records.c, s, records.idx)
	} else {
		f.decoder, err = NewDecoder(records.c, s)
	}
	if err != nil {
		records.Close()
		return nil, fmt.Errorf("%s: %w", records.name, err)
	}
	return f, nil
}

// Progress returns how many bytes of the file, as it lies on disk, have been
// read, and its size, -1 if that is unknown. It may be called by any goroutine.
func (f *File) Progress() (read, size int64) { return f.records.Progress() }

// Skip moves to the record of the given offset, or the first that follows it:
// where a Position says that learning goes on. It must come before Next.
func (f *File) Skip(offset int64) error { return f.records.skip(offset) }

// Resume moves to where the file's Position in from says that learning goes on, if
// there is one. A Position under another spelling of the file's name, ./g of g,
// is the file's as well; the furthest counts, and its spelling stays the name of
// the Batches. It must come before Next.
func (f *File) Resume(from blankout.Offsets) error {
	var found *blankout.Position
	for i, p := range from {
		if SourceName(p.Topic) == SourceName(f.records.path) && (found == nil || p.Next > found.Next) {
			found = &from[i]
		}
	}
	if found == nil {
		return nil
	}
	f.records.name = found.Topic
	return f.Skip(found.Next)
}

// Seek goes back to where Resume would begin. Standard input cannot be read again.
func (f *File) Seek(to blankout.Offsets) error {
	if f.records.pump != nil {
		return errors.New("standard input cannot be read again")
	}
	again, err := OpenFile(f.records.path, f.config, f.schema)
	if err != nil {
		return fmt.Errorf("reading again: %w", err)
	}
	again.records.name = f.records.name
	if err := again.Resume(to); err != nil {
		return errors.Join(fmt.Errorf("reading again: %w", err), again.Close())
	}
	err = f.Close()
	*f = *again
	return err
}

// Held returns the number of the last line, from 1, if it was left because it may
// still be written (see RecordConfig.Growing), else 0. It may be called after Close.
func (f *File) Held() int64 { return f.records.held }

// Next fills b with the next examples; after the last it returns io.EOF. Other
// errors name file and line; what was read before them has been returned. b
// shares no memory with the File: a caller that uses several Batches in turn may
// read ahead while it learns. After Ahead it is borrowed until the next call.
func (f *File) Next(ctx context.Context, b *blankout.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.ahead != nil {
		return f.ahead.next(ctx, f, b)
	}
	if p := f.records.pump; p != nil {
		p.ctx = ctx
	}
	f.block.batch.Examples = b.Examples
	if f.fill(&f.block, true); f.block.err != nil {
		return f.block.err
	}
	*b = f.block.batch
	return nil
}

// fill reads and decodes the next batch into k. With copied set its examples
// borrow nothing of k.bytes.
func (f *File) fill(k *block, copied bool) {
	r := f.records
	examples := k.batch.Examples[:0]
	k.err = nil
	if !copied { // else nobody borrows the buffer: it is read to its end first
		k.bytes = r.move(k.bytes)
	}
	var record Record
	for len(examples) < batchExamples {
		ok := r.scan(&record)
		if !ok {
			if len(examples) > 0 {
				break
			}
			if k.err = r.refill(); k.err != nil {
				break
			}
			k.bytes = r.buf
			continue
		}
		examples = slices.Grow(examples, 1)[:len(examples)+1]
		e := &examples[len(examples)-1]
		key, value := e.Key[:0], e.Value[:0]
		f.decoder.Decode(record, e)
		if copied && e.Key != nil {
			e.Key = append(key, e.Key...)
		}
		if copied && e.Value != nil {
			e.Value = append(value, e.Value...)
		}
		if copied && e.Refused != nil {
			e.Refused.Value = slices.Clone(e.Refused.Value)
		}
		r.seal(&record, e)
	}
	next := r.line
	if r.skipped {
		next++ // the line was cut, its end is to come
	}
	k.batch.Examples = examples
	f.complete(&k.batch, next)
}

// complete says of a batch, whose records end before line next, where it is from
// and what the Schema knows.
func (f *File) complete(b *blankout.Batch, next int64) {
	*b = blankout.Batch{
		Topic: f.records.name, Examples: b.Examples, Packed: b.Packed, Next: next, HighWater: -1,
		Fields: len(f.schema.Fields), Classes: f.schema.NamedClasses(), Names: f.schema.Names.Len(),
	}
}

// seal completes the example of the record that scan has returned.
func (r *Records) seal(record *Record, e *blankout.Example) {
	e.Fingerprint = Fingerprint(record.Offset, record.Key, record.Value)
	if e.Refused == nil {
		return
	}
	if r.cut {
		e.Refused.Reason, e.Refused.Detail = blankout.ReasonOversize, fmt.Sprintf("a line of more than max_bytes, %d; its rest is skipped", r.c.MaxBytes)
	}
	r.place(e)
}

// place adds file and line to a refusal.
func (r *Records) place(e *blankout.Example) {
	e.Refused.Detail = fmt.Sprintf("%s:%d: %s", r.name, e.Offset+1, e.Refused.Detail)
}

// Close ends reading ahead and closes the file. A read of standard input that is
// under way when its context ends goes on in the background until there is input.
func (f *File) Close() error {
	if f.ahead != nil {
		close(f.ahead.stop)
		f.ahead.cancel()
		f.ahead.done.Wait()
	}
	return f.records.Close()
}

// Records reads the records of a file as they are, to produce them into a topic.
// An idx pair gives svmlight lines.
type Records struct {
	c     RecordConfig
	path  string
	name  string // of the source, in messages too
	in    io.Reader
	read  atomic.Int64
	size  int64
	file  io.Closer
	pump  *pump // of standard input
	unzip func()

	buf     []byte
	at, end int  // buf[at:end] is not yet scanned
	seen    int  // of it, so much has been searched for the record's end
	quoted  bool // the search stands within the quotes of a CSV value
	stray   bool // the search has met a quote that has no place there
	newline int  // of the search, the first newline within quotes and 1, or 0
	plain   bool // the file is a regular one and not compressed
	held    int64
	eof     error
	line    int64 // number of the line at buf[at]
	skipped bool  // within the rest of a line that was cut
	cut     bool  // the record that scan returned is the start of a longer one
	idx     *idx
	text    []byte
}

// OpenRecords opens a file as OpenFile does.
func OpenRecords(path string, c RecordConfig) (*Records, error) {
	return openRecords(context.Background(), path, c)
}

func openRecords(ctx context.Context, path string, c RecordConfig) (*Records, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r := &Records{c: c, path: path, name: SourceName(path), size: -1}
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, err
		}
		r.file = file
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		r.size = info.Size()
	}
	in := io.Reader(file)
	if path == "-" {
		r.pump = &pump{ctx: ctx, in: file, ask: make(chan struct{}), got: make(chan error, 1)}
		go r.pump.run()
		in = r.pump
	}
	if err := r.open(in); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return r, nil
}

// SourceName returns the name of a file as a source of events: its path without what
// says nothing, as in ./g, and what is not UTF-8 in it as \xff, since names go into
// checkpoints and metrics. Standard input is called stdin.
func SourceName(path string) string {
	if path == "-" {
		return "stdin"
	}
	path = filepath.Clean(path)
	if utf8.ValidString(path) {
		return path
	}
	var name strings.Builder
	for len(path) > 0 {
		r, size := utf8.DecodeRuneInString(path)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&name, `\x%02x`, path[0])
		} else {
			name.WriteString(path[:size])
		}
		path = path[size:]
	}
	return name.String()
}

// open finds out the compression by the first bytes and the format by the name.
func (r *Records) open(file io.Reader) error {
	in := bufio.NewReaderSize(&counter{file, &r.read}, 1<<16)
	r.in = in
	var err error
	if r.in, r.unzip, err = decompress(in); err != nil {
		return err
	}
	r.plain = r.in == io.Reader(in) && r.size >= 0
	if r.c.Format == "" {
		switch r.c.Format = FormatOf(r.path); r.c.Format {
		case "idx":
			r.c.Format = ""
			r.idx, err = openIdx(r.path, r.in, r.c)
			return err
		case "":
			return fmt.Errorf("its name does not tell the format; give one of %s", formatNames())
		}
	}
	return r.openText()
}

// FormatOf returns the format that a file's name tells, "idx" for MNIST's pairs
// and "" if it tells none.
func FormatOf(name string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".zst")
	if strings.Contains(base, "idx") {
		return "idx"
	}
	for _, f := range formats {
		if slices.Contains(f.suffixes, filepath.Ext(base)) {
			return f.name
		}
	}
	return ""
}

// openText steps over a byte order mark and reads the header of CSV.
func (r *Records) openText() error {
	if err := r.refill(); err != nil && err != io.EOF {
		return err
	}
	if bytes.HasPrefix(r.buf[r.at:r.end], []byte("\ufeff")) {
		r.at += len("\ufeff")
	}
	if r.c.Format != "csv" || len(r.c.Columns) > 0 {
		return nil
	}
	var header Record
	if err := r.Next(&header); err == io.EOF {
		return fmt.Errorf("no header line")
	} else if err != nil {
		return err
	}
	columns, err := csvFields(header.Value, r.c.Separator[0])
	r.c.Columns = columns
	return err
}

// Columns returns the names of the columns of CSV, by the header or the configuration.
func (r *Records) Columns() []string { return r.c.Columns }

// Unnamed returns the numbers, from 1, of the columns of CSV whose name in the header
// is empty. They are no features.
func (f *File) Unnamed() (numbers []int) {
	for i, name := range f.records.Columns() {
		if name == "" {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// decompress returns a reader of what in holds, by its first bytes gzip, zstd or
// plain, and what frees it.
func decompress(in *bufio.Reader) (io.Reader, func(), error) {
	magic, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { z.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<27))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return in, func() {}, nil
}

type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// pump reads in a goroutine, so that waiting for input that may never come ends
// with the context. Close ends the goroutine once no read is under way.
type pump struct {
	ctx   context.Context // of the next Read
	in    io.Reader
	ask   chan struct{}
	got   chan error
	asked bool // an answer is due
	bytes [1 << 16]byte
	rest  []byte // of bytes, not yet given out
	n     int    // bytes that the goroutine has read
}

func (p *pump) run() {
	for range p.ask {
		var err error
		p.n, err = p.in.Read(p.bytes[:])
		p.got <- err
	}
}

// Read reads what has come, or waits for it until the context ends.
func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if !p.asked {
			p.ask <- struct{}{}
			p.asked = true
		}
		select {
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		case err := <-p.got:
			p.asked = false
			if p.rest = p.bytes[:p.n]; err != nil && p.n == 0 {
				return 0, err
			}
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Progress is File.Progress.
func (r *Records) Progress() (read, size int64) { return r.read.Load(), r.size }

// Close closes the file.
func (r *Records) Close() error {
	if r.unzip != nil {
		r.unzip()
	}
	if r.pump != nil {
		close(r.pump.ask)
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Next reads the next record; after the last it returns io.EOF. Its bytes are
// valid until the next call. A line of more than max_bytes is an error.
func (r *Records) Next(record *Record) error {
	for !r.scan(record) {
		if err := r.refill(); err != nil {
			return err
		}
	}
	if r.cut {
		return fmt.Errorf("%s:%d: a line of more than max_bytes, %d", r.name, record.Offset+1, r.c.MaxBytes)
	}
	if r.idx != nil {
		r.text = r.idx.appendText(r.text[:0], record.Offset, record.Value)
		record.Value = r.text
	}
	return nil
}

func (r *Records) skip(offset int64) error {
	var record Record
	for r.line < offset {
		at, line := r.at, r.line
		if r.scan(&record) {
			if record.Offset >= offset { // the lines before it are blank
				r.at, r.line = at, line
				r.search(0)
				return nil
			}
			continue
		}
		if err := r.refill(); err != nil {
			if err == io.EOF {
				return fmt.Errorf("%s: it ends at line %d, before line %d where learning was to go on", r.name, r.line, offset+1)
			}
			return err
		}
	}
	return nil
}

// scan sets record to the next record that is complete in r.buf, and reports
// whether there is one. The bytes are valid until r.buf is refilled.
func (r *Records) scan(record *Record) bool {
	r.cut = false
	if r.idx != nil {
		if size := r.idx.pixels; r.end-r.at >= size && r.line < r.idx.count {
			*record = Record{Value: r.buf[r.at : r.at+size], Offset: r.line}
			r.at += size
			r.line++
			return true
		}
		return false
	}
	for r.at < r.end {
		line := r.findEnd()
		if line < 0 {
			size := r.end - r.at
			if size == r.c.MaxBytes+1 && r.buf[r.end-1] == '\r' {
				size-- // if a newline follows
			}
			if size <= r.c.MaxBytes || r.skipped {
				if r.skipped {
					r.at = r.end
					r.search(0)
				}
				return false
			}
			*record = Record{Value: r.buf[r.at : r.at+r.c.MaxBytes+1], Offset: r.line}
			r.at += r.c.MaxBytes + 1
			r.search(0)
			r.cut, r.skipped = true, true
			return true
		}
		value, offset := r.buf[r.at:line], r.line
		r.line++
		if r.c.Format == "csv" {
			r.line += int64(bytes.Count(value, []byte{'\n'}))
		}
		r.at = min(line+1, r.end)
		r.search(0)
		if r.skipped {
			r.skipped = false
			continue
		}
		if n := len(value); n > 0 && value[n-1] == '\r' {
			value = value[:n-1]
		}
		if len(value) > r.c.MaxBytes {
			value, r.cut = value[:r.c.MaxBytes+1], true
		} else if r.isBlank(value) {
			continue
		}
		*record = Record{Value: value, Offset: offset}
		return true
	}
	return false
}

// findEnd returns where the record at r.at ends, -1 if its end is not yet in the
// buffer.
func (r *Records) findEnd() int {
	if r.c.Format == "csv" && !r.skipped {
		return r.findQuotedEnd()
	}
	i := bytes.IndexByte(r.buf[r.at+r.seen:r.end], '\n')
	switch {
	case i >= 0:
		return r.at + r.seen + i
	case r.eof == io.EOF:
		return r.end
	}
	r.search(r.end - r.at)
	return -1
}

// search says that so many bytes of the record have been searched for its end.
func (r *Records) search(seen int) {
	if r.seen = seen; seen == 0 {
		r.quoted, r.stray, r.newline = false, false, 0
	}
}

// findQuotedEnd is findEnd for CSV, where a newline within quotes ends nothing. A
// quote that has no place in a record must not make one of all that follow: where
// there is one behind a newline in quotes, where quotes are not closed, or where such
// a record is longer than max_bytes, it ends at its first newline, and is refused;
// what follows is read anew.
func (r *Records) findQuotedEnd() int {
	data, p := r.buf[r.at:r.end], r.seen
	newline := -1 // the next one, if it has been looked for
	for p < len(data) {
		if !r.quoted {
			if newline < p {
				if newline = bytes.IndexByte(data[p:], '\n'); newline < 0 {
					newline = len(data)
				} else {
					newline += p
				}
			}
			if q := bytes.IndexByte(data[p:newline], '"'); q >= 0 && !r.stray {
				q += p
				if q == 0 || data[q-1] == r.c.Separator[0] {
					r.quoted, p = true, q+1
					continue
				}
				if r.newline > 0 {
					return r.at + r.newline - 1
				}
				r.stray = true
			}
			if newline < len(data) {
				return r.ends(newline)
			}
			p = newline
			break
		}
		q := bytes.IndexByte(data[p:], '"')
		inside := data[p:]
		if q >= 0 {
			inside = data[p : p+q]
		}
		if r.newline == 0 {
			if i := bytes.IndexByte(inside, '\n'); i >= 0 {
				r.newline = p + i + 1
			}
		}
		if q < 0 {
			p = len(data)
			break
		}
		q += p
		switch rest := data[q+1:]; {
		case len(rest) == 0 || len(rest) == 1 && rest[0] == '\r':
			if r.eof == io.EOF {
				return r.ends(len(data))
			}
			r.search(q)
			return r.tooLong(len(data))
		case rest[0] == '"': // a doubled one
			p = q + 2
		case rest[0] == r.c.Separator[0]:
			r.quoted, p = false, q+1
		case rest[0] == '\n':
			return r.ends(q + 1)
		case rest[0] == '\r' && rest[1] == '\n':
			return r.ends(q + 2)
		case r.newline > 0:
			return r.at + r.newline - 1
		default:
			r.quoted, r.stray, p = false, true, q+1
		}
	}
	if r.eof == io.EOF {
		if r.quoted && r.newline > 0 {
			return r.at + r.newline - 1
		}
		return r.end
	}
	r.search(p)
	return r.tooLong(p)
}

// ends returns the end of a record of so many bytes, or that of its first line.
func (r *Records) ends(size int) int {
	if end := r.tooLong(size); end >= 0 {
		return end
	}
	return r.at + size
}

// tooLong returns the end of the first line of a record of so many bytes and more, if
// it is too long and has another line; else -1.
func (r *Records) tooLong(size int) int {
	if size > r.c.MaxBytes && r.newline > 0 {
		return r.at + r.newline - 1
	}
	return -1
}

// hold leaves the last line, which no newline ends, where whoever writes the file may
// not be through with it. An object of JSON that is closed is whole.
func (r *Records) hold() {
	start := bytes.LastIndexByte(r.buf[:r.end], '\n') + 1
	line := bytes.TrimSpace(r.buf[start:r.end])
	if r.c.Format == "json" && bytes.HasSuffix(line, []byte("}")) && json.Valid(line) {
		return
	}
	if len(line) > 0 {
		r.held = r.line + int64(bytes.Count(r.buf[r.at:start], []byte{'\n'})) + 1
	}
	r.end = start
	r.search(0)
}

func (r *Records) isBlank(line []byte) bool {
	for _, c := range line {
		if !blank(c) {
			return c == '#' && r.c.Format == "svmlight"
		}
	}
	return true
}

// move makes buf the buffer, with what is not yet scanned at its start; records
// scanned before stay where they are. It returns the buffer, which is a new one
// if buf has not got the room.
func (r *Records) move(buf []byte) []byte {
	rest := r.buf[r.at:r.end]
	if cap(buf) < bufferBytes || cap(buf)-len(rest) < cap(buf)/2 {
		buf = make([]byte, max(bufferBytes, 4*len(rest)))
	}
	r.buf = buf[:cap(buf)]
	r.end = copy(r.buf, rest)
	r.at = 0
	return r.buf
}

// refill reads more behind what is not yet scanned. It returns io.EOF when there
// is no more.
func (r *Records) refill() error {
	if r.eof == io.EOF && r.idx != nil && r.line < r.idx.count {
		return fmt.Errorf("%s: it ends in image %d of %d", r.name, r.line+1, r.idx.count)
	}
	if r.eof != nil {
		return r.eof
	}
	buf := r.move(r.buf)
	for tries := 0; ; tries++ {
		n, err := r.in.Read(buf[r.end:])
		r.end += n
		if err == nil && n == 0 && tries == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			r.eof = err
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				r.end = r.at
				return err
			}
			if err != io.EOF {
				r.eof = fmt.Errorf("%s:%d: reading: %w", r.name, r.line+1, err)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					r.eof = fmt.Errorf("%s:%d: the compressed file ends early: %w", r.name, r.line+1, err)
				}
				// What stands before the damage may be half a line.
				r.end = bytes.LastIndexByte(buf[:r.end], '\n') + 1
				r.search(0)
			} else if r.c.Growing && r.plain {
				r.hold()
			}
			if r.end == 0 {
				return r.eof
			}
			return nil
		}
		if n > 0 {
			return nil
		}
	}
}
