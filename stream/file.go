package stream

// This file reads events from files and standard input.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"blankout/internal/event"
	"blankout/stream/record"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// File is a source that reads a file or standard input through a record.Decoder. The offset of an example is the number
// of its first line, from 0 (in an idx pair, the number of its image). Blank lines, comments and a CSV header are
// counted but skipped. The methods are for one goroutine.
type File struct {
	records *Records
	scanner *record.Scanner // scanner of the records
	decoder record.Decoder
	schema  *event.Schema

	block    block // used if the File does not read ahead
	pipeline *pipeline
}

// batchExamples is the largest number of examples in a Batch. A Batch is smaller if fewer lines are in the buffer. If
// the file is a regular one, a Batch that borrows nothing from the buffer has at least leastExamples, except at the
// end of the file or after mostRefills reads. Each Batch has costs of its own, and decompressed text arrives in small
// pieces.
const batchExamples, leastExamples, mostRefills = 512, 64, 64

// OpenFile opens a file of records for learning: plain or compressed by gzip or zstd, or "-" for standard input. The
// format is c.Format; if that is empty, the file name determines it. A name with images-idx3 opens the MNIST pair of
// that file and the file with labels-idx1. Decoding extends s.
func OpenFile(path string, c record.Config, s *event.Schema) (*File, error) {
	return OpenFileContext(context.Background(), path, c, s)
}

// OpenFileContext is OpenFile, but it stops waiting for the first bytes of standard input when ctx ends.
func OpenFileContext(ctx context.Context, path string, c record.Config, s *event.Schema) (*File, error) {
	records, err := openRecords(ctx, path, c)
	if err != nil {
		return nil, err
	}
	f := &File{records: records, scanner: records.scanner, schema: s}
	if f.decoder, err = f.scanner.Decoder(s); err != nil {
		records.Close()
		return nil, fmt.Errorf("%s: %w", f.scanner.Name, err)
	}
	return f, nil
}

// ReplacedError reports that a file does not begin with the records that were learned from the file with that name.
type ReplacedError struct{ Name string }

func (e *ReplacedError) Error() string {
	return e.Name + ": it does not start with the records learned from a file of this name, so it was replaced or changed: give the new file another name, or restart with --reset"
}

// Resume moves to the Position of the file in from, if there is one. A Position with another spelling of the path, such
// as ./g for g, counts too. The furthest Position is used, and its spelling becomes the name of the Batches. Resume
// must be called before Next.
func (f *File) Resume(from event.Offsets) error {
	var found *event.Position
	for i, p := range from {
		if SourceName(p.Topic) == SourceName(f.records.path) && (found == nil || p.Next > found.Next) {
			found = &from[i]
		}
	}
	if found == nil {
		return nil
	}
	f.scanner.Name = found.Topic
	records, sum, err := f.scanner.Skip(found.First, found.Next)
	if err == nil && found.Records > 0 && (records != found.Records || sum != found.Sum) {
		err = &ReplacedError{f.scanner.Name}
	}
	return err
}

// Place returns a readable position of a record: the file and line, or the number of the object.
func (f *File) Place(offset int64) string { return f.scanner.Place(offset) }

// Held returns the number of the last line, from 1, if it was not read because it may still be incomplete (see
// record.Config.Growing). Otherwise it returns 0. It may be called after Close.
func (f *File) Held() int64 { return f.scanner.Held() }

// Next fills b with the next examples. It returns io.EOF after the last example. Other errors name the file and line;
// all earlier records have been returned. b shares no memory with the File, so a caller with several Batches may read
// ahead while it learns. If Ahead has been called, b is borrowed until the next call.
func (f *File) Next(ctx context.Context, b *event.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.pipeline != nil {
		return f.pipeline.next(ctx, f, b)
	}
	f.records.readUntil(ctx)
	f.block.batch.Examples = b.Examples
	if f.fill(ctx, &f.block, true); f.block.err != nil {
		return f.block.err
	}
	*b = f.block.batch
	return nil
}

// fill reads and decodes the next batch into k. If copied is set, its examples do not borrow k.bytes.
func (f *File) fill(ctx context.Context, k *block, copied bool) {
	s := f.scanner
	decode := f.decoder.Decode
	if copied {
		decode = func(ctx context.Context, r record.Record, e *event.Example) error {
			return record.DecodeOwned(ctx, f.decoder, &r, e)
		}
	}
	b := &k.batch
	b.Examples, k.err = b.Examples[:0], nil
	if !copied { // otherwise no example borrows the buffer, and it is used up first
		k.bytes = s.Move(k.bytes)
	}
	var r record.Record
	refills := 0
	for len(b.Examples) < batchExamples {
		if !s.Scan(&r) {
			if n := len(b.Examples); n >= leastExamples || n > 0 && (!copied || f.records.size < 0 || refills >= mostRefills) {
				break
			}
			refills++
			if err := s.Refill(); err != nil {
				if len(b.Examples) == 0 { // otherwise the next call returns the error again
					k.err = err
				}
				break
			}
			k.bytes = s.Buffer()
			continue
		}
		e := b.Extend()
		if err := decode(ctx, r, e); err != nil {
			s.Unscan()
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				k.err = err
			}
			break
		}
		f.seal(&r, e)
	}
	f.complete(b, s.Line())
}

// complete sets the origin of a batch and its View of the Schema. The records of the batch end before line next.
func (f *File) complete(b *event.Batch, next int64) {
	*b = event.Batch{
		Topic: f.scanner.Name, Examples: b.Examples, Next: next, HighWater: -1, Schema: f.schema.View(),
	}
}

// seal completes the example of a record.
func (f *File) seal(r *record.Record, e *event.Example) {
	e.Fingerprint = record.Fingerprint(r.Offset, r.Key, r.Value)
	if e.Refused != nil {
		f.place(e)
	}
}

// place adds the file and line to a refusal.
func (f *File) place(e *event.Example) {
	e.Refused.Detail = fmt.Sprintf("%s: %s", f.Place(e.Offset), e.Refused.Detail)
}

// Close stops reading ahead and closes the file. A running read of standard input whose context has ended continues in
// the background until there is input.
func (f *File) Close() error {
	if f.pipeline != nil {
		f.pipeline.cancel()
		f.pipeline.done.Wait()
	}
	return f.records.Close()
}

// Records reads the undecoded records of a file, to produce them into a topic. It converts an idx pair to svmlight
// lines.
type Records struct {
	path    string
	scanner *record.Scanner
	read    atomic.Int64
	ctx     atomic.Pointer[context.Context] // context of the next read
	size    int64
	file    io.Closer
	pump    *pump // reader of standard input
	unzip   func()
}

// OpenRecords opens a file as OpenFile does.
func OpenRecords(path string, c record.Config) (*Records, error) {
	return openRecords(context.Background(), path, c)
}

func openRecords(ctx context.Context, path string, c record.Config) (*Records, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r := &Records{path: path, size: -1}
	r.ctx.Store(&ctx)
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
		r.pump = &pump{of: r, in: file, ask: make(chan struct{}), got: make(chan error, 1)}
		go r.pump.run()
		in = r.pump
	}
	if err := r.open(in, c); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", SourceName(path), err)
	}
	return r, nil
}

// readUntil makes all further reads end with ctx.
func (r *Records) readUntil(ctx context.Context) { r.ctx.Store(&ctx) }

// SourceName returns the name of a file as a source of events: its cleaned path, or stdin for standard input. Invalid
// UTF-8 is written as \xff, because names are stored in checkpoints and metrics.
func SourceName(path string) string {
	if path == "-" {
		return "stdin"
	}
	path = filepath.Clean(path)
	if utf8.ValidString(path) {
		return path
	}
	var name strings.Builder
	for i, r := range path {
		if r == utf8.RuneError && !strings.HasPrefix(path[i:], "\ufffd") {
			fmt.Fprintf(&name, `\x%02x`, path[i])
		} else {
			name.WriteRune(r)
		}
	}
	return name.String()
}

// open detects the compression from the first bytes and the format from the name.
func (r *Records) open(file io.Reader, c record.Config) error {
	in := bufio.NewReaderSize(&counter{file, r}, 1<<16)
	text, unzip, err := decompress(in)
	if err != nil {
		return err
	}
	r.unzip = unzip
	plain := text == io.Reader(in)
	var first []byte
	if plain {
		first, _ = in.Peek(16)
	}
	if filepath.Ext(r.path) == ".parquet" || bytes.HasPrefix(first, parquetMagic) {
		if text, err = r.parquet(file, plain, c.MaxBytes); err != nil {
			return err
		}
		c.Format, plain = "json", false
	} else if err := checkFormat(first); err != nil {
		return err
	}
	c.Growing = c.Growing && plain && r.size >= 0
	name := SourceName(r.path)
	switch format := cmp.Or(c.Format, record.FormatOf(r.path)); format {
	case "idx":
		r.scanner, err = record.NewIdxScanner(name, text, c, func() (io.ReadCloser, error) { return openLabels(r.path) })
	case "":
		return fmt.Errorf("its name does not show the format: name one of %s, as in --set record.format=json", strings.Join(record.FileFormats(), ", "))
	default:
		c.Format = format
		r.scanner, err = record.NewScanner(name, text, c)
	}
	if err == nil {
		r.scanner.Live = r.pump != nil
	}
	return err
}

// otherFormats are formats that are not read, by their first bytes, with a command that converts a file.
var otherFormats = []struct{ first, name, convert string }{
	{"Obj\x01", "an Avro container file", "with fastavro FILE > FILE.jsonl (Python's fastavro) or avro-tools tojson FILE > FILE.jsonl"},
	{"ARROW1", "an Arrow (Feather) file", "with pandas.read_feather(FILE).to_parquet(…)"},
	{"ORC", "an ORC file", "with pandas.read_orc(FILE).to_parquet(…)"},
	{"PK\x03\x04", "a ZIP archive or an Excel workbook", "with unzip, or save the sheet as CSV"},
	{"\x89HDF", "an HDF5 file", "with pandas.read_hdf(FILE).to_parquet(…)"},
	{"SQLite format 3", "an SQLite database", "with sqlite3 -csv -header FILE 'SELECT …'"},
	{"BZh", "compressed by bzip2", "with bunzip2 FILE"},
	{"\xfd7zXZ", "compressed by xz", "with unxz FILE"},
}

// checkFormat refuses files in other formats, by their first bytes.
func checkFormat(first []byte) error {
	if !bytes.ContainsFunc(first, func(c rune) bool { return c < '\t' || c >= utf8.RuneSelf }) {
		return nil // a text
	}
	for _, f := range otherFormats {
		if bytes.HasPrefix(first, []byte(f.first)) {
			return &event.Refusal{Reason: event.ReasonSyntax, Detail: fmt.Sprintf("it is %s, which is not read: convert it to JSON lines, CSV or Parquet, %s", f.name, f.convert)}
		}
	}
	return nil
}

// parquet returns the rows of the file as lines of JSON.
func (r *Records) parquet(file io.Reader, plain bool, most int) (io.Reader, error) {
	at, ok := file.(io.ReaderAt)
	if !ok || !plain || r.size < 0 {
		return nil, &ParquetError{Err: errParquetStream}
	}
	lines, err := openParquet(&counterAt{at, &r.read}, r.size, most)
	if err != nil {
		return nil, err
	}
	unzip := r.unzip
	r.unzip = func() { lines.Close(); unzip() }
	return lines, nil
}

// openLabels opens the labels file for an images file of an idx pair.
func openLabels(images string) (io.ReadCloser, error) {
	plain := record.LabelsName(images)
	for _, name := range []string{plain, plain + ".gz", plain + ".zst"} {
		if name == images {
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			continue
		}
		in, unzip, err := decompress(bufio.NewReader(file))
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return labels{in, file, unzip}, nil
	}
	return nil, fmt.Errorf("%s: there is none (plain, .gz or .zst); without labels use unlabeled", plain)
}

// labels reads the labels of an idx pair.
type labels struct {
	io.Reader
	file  *os.File
	unzip func()
}

func (l labels) Close() error {
	l.unzip()
	return l.file.Close()
}

// Record returns the format of the file's records, determined from its name and header. Images have the format "".
func (f *File) Record() record.Config { return f.scanner.Config() }

// Place returns a readable position of a record, as File.Place does.
func (r *Records) Place(offset int64) string { return r.scanner.Place(offset) }

// Holds reports whether the File reads the given path.
func (f *File) Holds(path string) bool { return SourceName(f.records.path) == SourceName(path) }

// Unnamed returns the numbers, from 1, of the CSV columns without a name in the header. These columns are not features.
func (f *File) Unnamed() (numbers []int) {
	for i, name := range f.Record().Columns {
		if name == "" {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// decompress detects by the first bytes of in whether it is gzip, zstd or plain. It returns a reader of the content,
// and a function that frees the reader.
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

// counter counts the bytes read from a file. Its reads end with the context of the Records.
type counter struct {
	r  io.Reader
	of *Records
}

func (c *counter) Read(b []byte) (int, error) {
	if err := (*c.of.ctx.Load()).Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	c.of.read.Add(int64(n))
	return n, err
}

type counterAt struct {
	r io.ReaderAt
	n *atomic.Int64
}

func (c *counterAt) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.r.ReadAt(b, at)
	c.n.Add(int64(n))
	return n, err
}

// pump reads in a goroutine, so that waiting for input can end with the context. Close ends the goroutine once no read
// is running.
type pump struct {
	of    *Records // has the context of the next Read
	in    io.Reader
	ask   chan struct{}
	got   chan error
	asked bool // a read is in progress
	bytes [1 << 16]byte
	rest  []byte // part of bytes that is not returned yet
	n     int    // number of bytes that the goroutine has read
}

func (p *pump) run() {
	for range p.ask {
		var err error
		p.n, err = p.in.Read(p.bytes[:])
		p.got <- err
	}
}

// Read returns received bytes, or waits for bytes until the context ends.
func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if !p.asked {
			p.ask <- struct{}{}
			p.asked = true
		}
		ctx := *p.of.ctx.Load()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
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

// Progress returns the number of bytes read and the size of the file, as stored on disk (possibly compressed). The size
// is -1 if unknown. Any goroutine may call it.
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

// Next reads the next record. It returns io.EOF after the last record. The bytes are valid until the next call. A line
// of more than max_bytes is an error.
func (r *Records) Next(out *record.Record) error { return r.scanner.Next(out) }
