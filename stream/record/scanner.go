package record

// This file cuts the text of a file into records.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"blankout/internal/event"
)

// Scanner cuts the text of a file into records: lines, CSV lines that quotes join, images of an idx pair, or JSON
// objects that are not lines (objects.go). The offset of a record is the number of its first line, from 0. For an idx
// pair it is the number of the image, and for JSON objects that of the object. Blank lines, comments and a CSV header
// count but are skipped.\
//
// Scan returns records from a buffer that Refill fills. A Scanner belongs to one goroutine.
type Scanner struct {
	Name string // of the file, for messages
	// Live makes Lines return what has arrived instead of waiting for more, as for standard input.
	Live bool

	c       Config
	framing framing
	in      io.Reader
	eof     error

	buf  []byte
	end  int // buf[at:end] is not scanned yet
	held int64
	mark
	before mark // the last Scan
	search

	objects   bool // a JSON text of objects that are not lines
	undecided bool // not yet known whether it is one

	cut  bool // for a fork: the buffer is the start of one line
	idx  *idx
	text []byte // of the image that Next has returned
}

// mark is a position in a text.
type mark struct {
	at      int   // in the buffer
	line    int64 // number of the line there
	skipped bool  // within the rest of a line that was cut
}

// search is the progress of the search for the end of the record at the mark.
type search struct {
	seen    int     // number of searched bytes
	quoted  bool    // within the quotes of a CSV value
	stray   bool    // a misplaced quote was found
	newline int     // 1 + the first newline within quotes, or 0
	nest    nesting // of JSON objects
}

// framing says how the records of a format are separated in a file.
type framing struct {
	none    bool // the format has no text
	quotes  bool // newlines within quotes do not end a record
	comment byte // first byte of a comment line; 0 if there are none
	// finished reports whether a last line without a newline is complete. It is nil if a format cannot tell.
	finished func(line []byte) bool
}

// bufferBytes is the size of a buffer, unless a record needs more.
const bufferBytes = 1 << 18

// NewScanner returns a Scanner of a text of c.Format. It skips a byte order mark. For CSV it reads the column names
// from the header, if there is to be one.
func NewScanner(name string, in io.Reader, c Config) (*Scanner, error) {
	s := &Scanner{Name: name, c: c, in: in}
	for _, f := range formats {
		if f.name == c.Format {
			s.framing = f.framing
		}
	}
	if s.framing.none {
		return nil, fmt.Errorf("%s: format %s is that of records in a topic, with the id of their schema before them: a file holds one of %s", name, c.Format, strings.Join(FileFormats(), ", "))
	}
	s.undecided = c.Format == "json"
	if err := s.Refill(); err != nil && err != io.EOF {
		return nil, err
	}
	if err := checkEncoding(s.buf[s.at:s.end]); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(s.buf[s.at:s.end], []byte("\ufeff")) {
		s.at += len("\ufeff")
	}
	if s.undecided {
		if err := s.findObjects(); err != nil {
			return nil, err
		}
		if s.undecided = false; !s.objects && s.eof == io.EOF && c.Growing {
			s.dropUnfinished()
		}
	}
	if c.Format != "csv" {
		return s, nil
	}
	return s, s.readHeader()
}

// readHeader reads the CSV column names from the first line, unless the configuration has them, and detects the
// separator.
func (s *Scanner) readHeader() error {
	var header Record
	for !s.Scan(&header) {
		if err := s.Refill(); err == io.EOF && len(s.c.Columns) > 0 {
			return nil
		} else if err == io.EOF {
			return fmt.Errorf("no header line")
		} else if err != nil {
			return err
		}
	}
	if header.Cut && len(s.c.Columns) == 0 {
		return fmt.Errorf("the header has more than max_bytes, %d", s.c.MaxBytes)
	}
	s.c.Separator = foundSeparator(header.Value, s.c)
	if len(s.c.Columns) > 0 {
		if names, err := csvFields(header.Value, s.c.Separator[0]); err == nil && sameNames(names, s.c.Columns) {
			s.c.Columns = names // a header after all
		} else {
			s.Unscan()
		}
		return nil
	}
	if text := notUTF8(header.Value); text != "" {
		return &event.Refusal{Reason: event.ReasonSyntax, Detail: "the header: " + text}
	}
	var err error
	s.c.Columns, err = csvFields(header.Value, s.c.Separator[0])
	return err
}

// sameNames reports whether two lists hold the same names in any order.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Decoder returns a Decoder of the Scanner's records. It takes columns, fields and classes from schema and adds to it.
func (s *Scanner) Decoder(schema *event.Schema) (Decoder, error) {
	if s.idx != nil {
		return newIdxDecoder(s.c, schema, s.idx)
	}
	return NewDecoder(s.c, schema)
}

// Config returns the settings of the records, completed from the header. The format of images is "".
func (s *Scanner) Config() Config { return s.c }

// Columns returns the CSV column names, from the header or the configuration.
func (s *Scanner) Columns() []string { return s.c.Columns }

// Place returns a readable position of a record: file and line, or the number of the object.
func (s *Scanner) Place(offset int64) string {
	if s.objects {
		return fmt.Sprintf("%s: object %d", s.Name, offset+1)
	}
	return fmt.Sprintf("%s:%d", s.Name, offset+1)
}

// Held returns the number of the last line or object, from 1, if it was not read because it may still be written (see
// Config.Growing). Otherwise it returns 0.
func (s *Scanner) Held() int64 { return s.held }

// Line returns the number of the line after what has been scanned.
func (s *Scanner) Line() int64 {
	if s.skipped && !s.objects {
		return s.line + 1 // the line was cut, its end is still to come
	}
	return s.line
}

// Next reads the next record. After the last it returns io.EOF. The bytes are valid until the next call. An image of an
// idx pair becomes a line of svmlight. A line of more than max_bytes is an error.
func (s *Scanner) Next(r *Record) error {
	for !s.Scan(r) {
		if err := s.Refill(); err != nil {
			return err
		}
	}
	if r.Cut {
		return fmt.Errorf("%s: it has more than max_bytes, %d", s.Place(r.Offset), s.c.MaxBytes)
	}
	if s.idx != nil {
		s.text = s.idx.appendText(s.text[:0], r.Offset, r.Value)
		r.Value = s.text
	}
	return nil
}

// Skip moves to the record at the given offset, or to the first one after it. It returns the number of skipped records
// with an offset of at least first, and the sum of their Fingerprints.
func (s *Scanner) Skip(first, offset int64) (records, sum uint64, err error) {
	var r Record
	for s.line < offset {
		if s.Scan(&r) {
			if r.Offset >= offset { // the lines before it are blank
				s.Unscan()
				return records, sum, nil
			}
			if r.Offset >= first {
				records, sum = records+1, sum+Fingerprint(r.Offset, r.Key, r.Value)
			}
			continue
		}
		if err := s.Refill(); err != nil {
			if err == io.EOF {
				what := "line"
				if s.objects {
					what = "object"
				}
				return 0, 0, fmt.Errorf("%s: it ends at %s %d, before %s %d where learning was to go on", s.Name, what, s.line, what, offset+1)
			}
			return 0, 0, err
		}
	}
	return records, sum, nil
}

// Scan sets r to the next complete record in the buffer, and reports whether there is one. The bytes are valid until
// Refill reads more.
func (s *Scanner) Scan(r *Record) bool {
	s.before = s.mark
	if s.idx != nil {
		if size := s.idx.pixels; s.end-s.at >= size && s.line < s.idx.count {
			*r = Record{Value: s.buf[s.at : s.at+size], Offset: s.line}
			s.at += size
			s.line++
			return true
		}
		return false
	}
	if s.cut {
		*r = Record{Value: s.buf[:s.end], Offset: s.line, Cut: true}
		s.cut, s.at = false, s.end
		return true
	}
	if s.objects {
		return s.scanObject(r)
	}
	for s.at < s.end {
		line := s.findEnd()
		if line < 0 {
			size := s.end - s.at
			if size == s.c.MaxBytes+1 && s.buf[s.end-1] == '\r' {
				size-- // the newline is not part of the record
			}
			if size <= s.c.MaxBytes || s.skipped {
				if s.skipped {
					s.at = s.end
					s.search = search{}
				}
				return false
			}
			*r = Record{Value: s.buf[s.at : s.at+s.c.MaxBytes+1], Offset: s.line, Cut: true}
			s.at += s.c.MaxBytes + 1
			s.search = search{}
			s.skipped = true
			return true
		}
		value, offset := s.buf[s.at:line], s.line
		s.line++
		if s.framing.quotes {
			s.line += int64(bytes.Count(value, []byte{'\n'}))
		}
		s.at = min(line+1, s.end)
		s.search = search{}
		if s.skipped {
			s.skipped = false
			continue
		}
		if n := len(value); n > 0 && value[n-1] == '\r' {
			value = value[:n-1]
		}
		cut := len(value) > s.c.MaxBytes
		if cut {
			value = value[:s.c.MaxBytes+1]
		} else if s.isBlank(value) {
			continue
		}
		*r = Record{Value: value, Offset: offset, Cut: cut}
		return true
	}
	return false
}

// Unscan undoes the last Scan, which has returned a record: the next Scan returns it again. Refill must not have been
// called in between.
func (s *Scanner) Unscan() {
	s.mark = s.before
	s.search = search{}
}

// findEnd returns the end of the record at s.at, or -1 if it is not in the buffer yet.
func (s *Scanner) findEnd() int {
	if s.framing.quotes && !s.skipped {
		return s.quotedEnd()
	}
	i := bytes.IndexByte(s.buf[s.at+s.seen:s.end], '\n')
	switch {
	case i >= 0:
		return s.at + s.seen + i
	case s.eof == io.EOF:
		return s.end
	}
	s.seen = s.end - s.at
	return -1
}

// dropUnfinished ignores the last line if no newline ends it, because a program may still be writing it.
func (s *Scanner) dropUnfinished() {
	start := bytes.LastIndexByte(s.buf[:s.end], '\n') + 1
	line := bytes.TrimSpace(s.buf[start:s.end])
	if s.framing.finished != nil && s.framing.finished(line) {
		return
	}
	if len(line) > 0 {
		s.held = s.line + int64(bytes.Count(s.buf[s.at:start], []byte{'\n'})) + 1
	}
	s.end = max(s.at, start)
	s.search = search{}
}

func (s *Scanner) isBlank(line []byte) bool {
	for _, c := range line {
		if !blank(c) {
			return c == s.framing.comment
		}
	}
	return true
}

// Buffer returns the buffer that holds the records of Scan.
func (s *Scanner) Buffer() []byte { return s.buf }

// Move makes buf the buffer, and copies what is not scanned yet to its start. Scanned records stay where they are. It
// returns the buffer, which is a new one if buf is too small.
func (s *Scanner) Move(buf []byte) []byte {
	rest := s.buf[s.at:s.end]
	most := max(len(rest), s.c.MaxBytes+1) + bufferBytes // room for the longest record and more
	if cap(buf) < bufferBytes || cap(buf)-len(rest) < cap(buf)/2 && cap(buf) < most {
		buf = make([]byte, max(bufferBytes, min(4*len(rest), most)))
	}
	s.buf = buf[:cap(buf)]
	s.end = copy(s.buf, rest)
	s.at = 0
	return s.buf
}

// Refill reads more. It returns io.EOF at the end.
func (s *Scanner) Refill() error {
	if s.eof == io.EOF && s.idx != nil && s.line < s.idx.count {
		return fmt.Errorf("%s: it ends in image %d of %d", s.Name, s.line+1, s.idx.count)
	}
	if s.eof != nil {
		return s.eof
	}
	buf := s.Move(s.buf)
	for tries := 0; ; tries++ {
		n, err := s.in.Read(buf[s.end:])
		s.end += n
		if err == nil && n == 0 && tries == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			s.eof = err
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				s.end = s.at
				return err
			}
			if err != io.EOF {
				s.eof = fmt.Errorf("%s:%d: reading: %w", s.Name, s.line+1, err)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					s.eof = fmt.Errorf("%s:%d: the compressed file ends early: %w", s.Name, s.line+1, err)
				}
				if !s.objects { // the text before the damage may end in half a line
					s.end = bytes.LastIndexByte(buf[:s.end], '\n') + 1
					s.search = search{}
				}
			} else if s.c.Growing && !s.objects && !s.undecided {
				s.dropUnfinished()
			}
			if s.end == 0 {
				return s.eof
			}
			return nil
		}
		if n > 0 {
			return nil
		}
	}
}

// Lines are whole lines of a file whose records can be decoded independently of those before.
type Lines struct {
	Text  []byte
	First int64 // number of the first line
	Count int
	Cut   bool // Text is the start of one line, which is longer than max_bytes
}

// Lines returns at most most of the next lines, for a format whose records are lines. Text lies in the Scanner's
// buffer, which the caller moves (Move) before it asks for more. For a line that is too long Lines returns its start
// and skips the rest.
func (s *Scanner) Lines(most int) (l Lines, err error) {
	for {
		if s.skipped {
			if i := bytes.IndexByte(s.buf[s.at:s.end], '\n'); i >= 0 {
				s.at, s.line, s.skipped = s.at+i+1, s.line+1, false
			} else if s.at = s.end; s.eof != nil {
				s.line, s.skipped = s.line+1, false
			}
		}
		// For a file return a good part of the buffer, for a live input what has arrived.
		if s.skipped || s.eof == nil && s.end-s.at < bufferBytes/2 && (!s.Live || s.end == s.at) {
			if err := s.Refill(); err != nil {
				return l, err
			}
			continue
		}
		at := s.at
		l = Lines{First: s.line}
		for l.Count < most && s.at < s.end {
			i := bytes.IndexByte(s.buf[s.at+s.seen:s.end], '\n')
			if i < 0 && s.eof == nil {
				s.seen = s.end - s.at
				break
			}
			if i < 0 {
				s.at = s.end
			} else {
				s.at += s.seen + i + 1
			}
			s.seen = 0
			l.Count++
		}
		if l.Cut = l.Count == 0 && s.end-s.at > s.c.MaxBytes; l.Cut {
			l.Count, s.at, s.seen, s.skipped = 1, s.at+s.c.MaxBytes+1, 0, true
		} else {
			s.line += int64(l.Count)
		}
		if l.Count > 0 {
			l.Text = s.buf[at:s.at]
			return l, nil
		}
		if err := s.Refill(); err != nil {
			return l, err
		}
	}
}

// Fork returns a Scanner for another goroutine, which scans the lines of Set.
func (s *Scanner) Fork() *Scanner { return &Scanner{Name: s.Name, c: s.c, framing: s.framing} }

// Set makes a fork scan l and nothing after it.
func (s *Scanner) Set(l Lines) {
	s.buf, s.end, s.eof, s.mark = l.Text, len(l.Text), io.EOF, mark{line: l.First}
	s.cut = l.Cut
	s.search = search{}
}
