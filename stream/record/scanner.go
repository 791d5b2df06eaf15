package record

// This file splits the text of a file into records.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"blankout/internal/event"
)

// Scanner splits the text of a file into records. A record is a line, CSV lines that quotes join, an image of an idx
// pair, or a JSON object that is not a line (objects.go). The offset of a record is the number of its first line, image
// or JSON object, from 0. Blank lines, comments and a CSV header are counted but skipped.
//
// Scan returns records from a buffer that Refill fills. A Scanner belongs to one goroutine.
type Scanner struct {
	Name string // name of the file, for messages
	// Live makes Lines return the bytes that have arrived instead of waiting for more, as for standard input.
	Live bool

	c       Config
	framing framing
	in      io.Reader
	eof     error

	buf  []byte
	end  int // buf[at:end] is not scanned yet
	held int64
	mark
	before mark // position before the latest Scan
	search

	objects   bool // the text is JSON objects that are not lines
	undecided bool // objects is not decided yet

	cut  bool // for a fork: the buffer is only the start of a line
	idx  *idx
	text []byte // text of the image that Next has returned
}

// mark is a position in a text.
type mark struct {
	at      int   // position in the buffer
	line    int64 // number of the line at that position
	skipped bool  // the position is in the rest of a line that was cut
}

// search is the progress of the search for the end of the record at the mark.
type search struct {
	seen    int     // number of bytes already searched
	quoted  bool    // the position is within the quotes of a CSV value
	stray   bool    // a misplaced quote was found
	newline int     // 1 + position of the first newline within quotes, or 0
	nest    nesting // state for JSON objects
}

// framing describes how the records of a format are separated in a file.
type framing struct {
	none    bool // the format has no text
	quotes  bool // newlines within quotes do not end a record
	comment byte // first byte of a comment line; 0 if the format has no comments
	// finished reports whether a last line without a newline is complete. It is nil for formats in which this is
	// unknown.
	finished func(line []byte) bool
}

// bufferBytes is the size of the buffer, unless a record needs more.
const bufferBytes = 1 << 18

// NewScanner returns a Scanner of a text in the format c.Format. It skips a byte order mark. For CSV it reads the
// column names from the header, if the configuration requires a header.
func NewScanner(name string, in io.Reader, c Config) (*Scanner, error) {
	s := &Scanner{Name: name, c: c, in: in}
	if f := formatNamed(c.Format); f != nil {
		s.framing = f.framing
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

// readHeader reads the CSV column names from the first line, unless the configuration has them. It also detects the
// separator.
func (s *Scanner) readHeader() error {
	var header Record
	for {
		if s.Scan(&header) {
			if s.prelude(header.Value) {
				continue
			}
			break
		}
		if err := s.Refill(); err == io.EOF {
			if len(s.c.Columns) == 0 {
				err = &event.Refusal{Reason: event.ReasonSyntax, Detail: "no event was read: there is no header line"}
			} else {
				err = nil
			}
			return cmp.Or(returnsAlone(s.buf[s.at:]), err)
		} else if err != nil {
			return err
		}
	}
	if err := returnsAlone(header.Value); err != nil {
		return err
	}
	if header.Cut && len(s.c.Columns) == 0 {
		return fmt.Errorf("the header has more than max_bytes, %d", s.c.MaxBytes)
	}
	s.c.Separator = foundSeparator(header.Value, s.c)
	if len(s.c.Columns) > 0 {
		if names, err := csvFields(header.Value, s.c.Separator[0]); err == nil && sameNames(names, s.c.Columns) {
			s.c.Columns = names // the first line is a header, although the columns are configured
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

// prelude reports whether a line before the header of CSV is no header: a comment, or the line sep=; with which
// spreadsheets name the separator. After a comment, later lines that begin with # are comments, too.
func (s *Scanner) prelude(line []byte) bool {
	text := strings.TrimRight(strings.ReplaceAll(string(line), `"`, ""), " ")
	if len(text) > 4 && strings.EqualFold(text[:4], "sep=") && strings.Trim(text[4:], text[4:5]) == "" { // sep=;;; if padded
		s.c.Separator = text[4:5]
		return true
	}
	if !bytes.HasPrefix(line, []byte{'#'}) {
		return false
	}
	names, err := csvFields(line, foundSeparator(line, s.c)[0])
	if s.c.Unlabeled || s.c.Label == "" { // nothing tells which names the header should have
		if err == nil && len(names) > 1 && !bytes.HasPrefix(line, []byte("# ")) {
			return false
		}
	} else if slices.Contains(names, s.c.Label) || slices.Contains(names, "#"+s.c.Label) {
		return false
	}
	s.framing.comment = '#'
	return true
}

// returnsAlone refuses a text whose lines end with CR alone, of which text is the start.
func returnsAlone(text []byte) error {
	text = bytes.TrimRight(text, "\r\n\x00")
	quoted := false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			return nil
		case c == '\r' && !quoted && text[i+1] != '\n':
			return &event.Refusal{Reason: event.ReasonSyntax, Detail: `its lines end with CR alone, and are read as ending with LF: convert them with tr '\r' '\n' < FILE`}
		}
	}
	return nil
}

// sameNames reports whether two lists have the same names in any order.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Decoder returns a Decoder for the Scanner's records. It uses the columns, fields and classes of schema, and adds new
// ones to schema.
func (s *Scanner) Decoder(schema *event.Schema) (Decoder, error) {
	if s.idx != nil {
		return newIdxDecoder(s.c, schema, s.idx)
	}
	return NewDecoder(s.c, schema)
}

// Config returns the settings of the records, including settings from the header. Images have the format "".
func (s *Scanner) Config() Config { return s.c }

// Columns returns the CSV column names, from the header or the configuration.
func (s *Scanner) Columns() []string { return s.c.Columns }

// Place returns a readable position of a record: the file and line, or the number of the object.
func (s *Scanner) Place(offset int64) string {
	if s.objects {
		return fmt.Sprintf("%s: object %d", s.Name, offset+1)
	}
	return fmt.Sprintf("%s:%d", s.Name, offset+1)
}

// Held returns the number of the last line or object, from 1, if it was not read because it may be incomplete (see
// Config.Growing). Otherwise it returns 0.
func (s *Scanner) Held() int64 { return s.held }

// Line returns the number of the first line that is not scanned yet.
func (s *Scanner) Line() int64 {
	if s.skipped && !s.objects {
		return s.line + 1 // the line was cut, and its end is not read yet
	}
	return s.line
}

// Next reads the next record. It returns io.EOF after the last record. The bytes are valid until the next call. An
// image of an idx pair becomes a line of svmlight. A line of more than max_bytes is an error.
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

// Skip moves to the record at the given offset, or to the next record after it. It returns the number of skipped
// records with an offset of at least first, and the sum of their Fingerprints.
func (s *Scanner) Skip(first, offset int64) (records, sum uint64, err error) {
	var r Record
	for s.line < offset {
		if s.Scan(&r) {
			if r.Offset >= offset { // blank lines may precede the record
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
				size-- // exclude the newline
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

// Unscan undoes the latest Scan, which must have returned a record: the next Scan returns it again. Refill must not
// have been called in between.
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

// dropUnfinished ignores the last line if it does not end with a newline, because a program may still be writing it.
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

// Buffer returns the buffer that has the records of Scan.
func (s *Scanner) Buffer() []byte { return s.buf }

// Move makes buf the buffer, and copies the bytes that are not scanned yet to its start. Scanned records remain in the
// old buffer. It returns the new buffer, which is newly allocated if buf is too small.
func (s *Scanner) Move(buf []byte) []byte {
	rest := s.buf[s.at:s.end]
	most := max(len(rest), s.c.MaxBytes+1) + bufferBytes // size for the longest record and more
	if cap(buf) < bufferBytes || cap(buf)-len(rest) < cap(buf)/2 && cap(buf) < most {
		buf = make([]byte, max(bufferBytes, min(4*len(rest), most)))
	}
	s.buf = buf[:cap(buf)]
	s.end = copy(s.buf, rest)
	s.at = 0
	return s.buf
}

// Refill reads more bytes. It returns io.EOF at the end.
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
				if !s.objects { // the text before the damage may end within a line
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

// Lines has whole lines of a file whose records can be decoded independently of earlier lines.
type Lines struct {
	Text  []byte
	First int64 // number of the first line
	Count int
	Cut   bool // set if Text is only the start of a line longer than max_bytes
}

// Lines returns the next lines (most is their largest number) for a format whose records are lines. Text is in the
// Scanner's buffer; the caller must call Move before the next call. If a line is too long, Lines returns its start and
// skips the rest.
func (s *Scanner) Lines(most int) (l Lines, err error) {
	for {
		if s.skipped {
			if i := bytes.IndexByte(s.buf[s.at:s.end], '\n'); i >= 0 {
				s.at, s.line, s.skipped = s.at+i+1, s.line+1, false
			} else if s.at = s.end; s.eof != nil {
				s.line, s.skipped = s.line+1, false
			}
		}
		// For a file, return a large part of the buffer; for a live input, return the bytes that have arrived.
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

// Fork returns a Scanner for another goroutine. The new Scanner scans the lines passed to Set.
func (s *Scanner) Fork() *Scanner { return &Scanner{Name: s.Name, c: s.c, framing: s.framing} }

// Set makes a fork scan only l.
func (s *Scanner) Set(l Lines) {
	s.buf, s.end, s.eof, s.mark = l.Text, len(l.Text), io.EOF, mark{line: l.First}
	s.cut = l.Cut
	s.search = search{}
}

// blank reports whether c separates the words of a line.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// word returns the end of the word of a line of svmlight that starts at p.
func word(data []byte, p int) int {
	for p < len(data) && !blank(data[p]) && data[p] != '#' {
		p++
	}
	return p
}

// skipBlanks returns the position of the first byte from p on that is not blank.
func skipBlanks(data []byte, p int) int {
	for p < len(data) && blank(data[p]) {
		p++
	}
	return p
}
