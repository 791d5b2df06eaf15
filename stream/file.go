package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

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

// Seek goes back to where the file's Position in to says that learning goes on,
// to its beginning if there is none. Standard input cannot be read again.
func (f *File) Seek(to blankout.Offsets) error {
	if f.records.pump != nil {
		return errors.New("standard input cannot be read again")
	}
	again, err := OpenFile(f.records.name, f.config, f.schema)
	if err != nil {
		return fmt.Errorf("reading again: %w", err)
	}
	if p, ok := to.Lookup(f.records.name, 0); ok {
		if err := again.Skip(p.Next); err != nil {
			return errors.Join(fmt.Errorf("reading again: %w", err), again.Close())
		}
	}
	err = f.Close()
	*f = *again
	return err
}

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
	name  string
	in    io.Reader
	read  atomic.Int64
	size  int64
	file  io.Closer
	pump  *pump // of standard input
	unzip func()

	buf     []byte
	at, end int  // buf[at:end] is not yet scanned
	seen    int  // of it, so much has been searched for the record's end
	quoted  bool // the search stands within quotes
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
	r := &Records{c: c, name: path, size: -1}
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
		r.name = "stdin"
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

// open finds out the compression by the first bytes and the format by the name.
func (r *Records) open(file io.Reader) error {
	in := bufio.NewReaderSize(&counter{file, &r.read}, 1<<16)
	r.in = in
	var err error
	if r.in, r.unzip, err = decompress(in); err != nil {
		return err
	}
	if r.c.Format == "" {
		switch r.c.Format = FormatOf(r.name); r.c.Format {
		case "idx":
			r.c.Format = ""
			r.idx, err = openIdx(r.name, r.in, r.c)
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
				r.at, r.line, r.seen, r.quoted = at, line, 0, false
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
			if r.end-r.at <= r.c.MaxBytes || r.skipped {
				if r.skipped {
					r.at, r.seen = r.end, 0
				}
				return false
			}
			*record = Record{Value: r.buf[r.at : r.at+r.c.MaxBytes+1], Offset: r.line}
			r.at, r.seen, r.quoted = r.at+r.c.MaxBytes+1, 0, false
			r.cut, r.skipped = true, true
			return true
		}
		value, offset := r.buf[r.at:line], r.line
		r.line++
		if r.c.Format == "csv" {
			r.line += int64(bytes.Count(value, []byte{'\n'}))
		}
		r.at, r.seen, r.quoted = min(line+1, r.end), 0, false
		if r.skipped {
			r.skipped = false
			continue
		}
		if n := len(value); n > 0 && value[n-1] == '\r' {
			value = value[:n-1]
		}
		if r.isBlank(value) {
			continue
		}
		if len(value) > r.c.MaxBytes {
			value, r.cut = value[:r.c.MaxBytes+1], true
		}
		*record = Record{Value: value, Offset: offset}
		return true
	}
	return false
}

// findEnd returns where the record at r.at ends, -1 if its end is not yet in the
// buffer. A newline within the quotes of CSV ends nothing.
func (r *Records) findEnd() int {
	for from := r.at + r.seen; ; {
		i := bytes.IndexByte(r.buf[from:r.end], '\n')
		if i < 0 {
			if r.eof != nil {
				if r.eof != io.EOF {
					return -1 // in open quotes before the damage
				}
				return r.end
			}
			if r.c.Format == "csv" && !r.skipped {
				r.quoted = r.quoted != (bytes.Count(r.buf[from:r.end], []byte{'"'})&1 == 1)
			}
			r.seen = r.end - r.at
			return -1
		}
		if r.c.Format == "csv" && !r.skipped {
			r.quoted = r.quoted != (bytes.Count(r.buf[from:from+i], []byte{'"'})&1 == 1)
			if r.quoted {
				from += i + 1
				continue
			}
		}
		return from + i
	}
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
				r.seen, r.quoted = 0, false
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
