package record

// This file implements the format CSV.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"blankout/internal/event"
)

// csvDecoder decodes lines of comma-separated values (RFC 4180) with named columns. A value is a number, true, false or
// a category name. Blanks around an unquoted value are ignored.
type csvDecoder struct {
	core
	columns   []named
	unlabeled []named // the columns without the label, if labels are ignored
	separator byte
	scratch   []byte // the latest value that contained doubled quotes
	raw       [][]byte
}

func newCSV(c core) (Decoder, error) {
	names := c.c.Columns
	if len(names) == 0 {
		return nil, fmt.Errorf("csv records need the names of their columns: set columns")
	}
	if most := c.c.MaxFeatures + len(c.c.special()); len(names) > most {
		return nil, &event.Refusal{Reason: event.ReasonTooMany, Detail: fmt.Sprintf("a header of %d columns: the most is max_features, %d", len(names), c.c.MaxFeatures)}
	}
	d := &csvDecoder{core: c, separator: c.c.Separator[0]}
	met := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" { // for example the index that pandas writes
			d.columns = append(d.columns, named{role: isDropped})
			continue
		}
		if met[name] {
			return nil, &event.Refusal{Reason: event.ReasonDuplicate, Detail: fmt.Sprintf("two columns are named %.80q: rename one in the header", name)}
		}
		met[name] = true
		if len(name) > maxFieldBytes {
			return nil, fmt.Errorf("column %d, %.40q…, has a name of %d bytes, the most is %d", i+1, name, len(name), maxFieldBytes)
		}
		d.columns = append(d.columns, d.named(name))
	}
	if c.c.Unlabeled && met[c.c.Label] {
		label := slices.Index(names, c.c.Label)
		d.unlabeled = slices.Concat(d.columns[:label], d.columns[label+1:])
	}
	// If a name were wrong, every event would be without its label, weight, ID or time.
	for role, name := range c.c.special() {
		if name != "" && !met[name] && !(c.c.Unlabeled && fieldRole(role) == isLabel) {
			return nil, &MissingColumnError{name, names}
		}
	}
	return d, nil
}

// MissingColumnError reports that a CSV file does not have the column configured as the label, the weight, the ID or
// the time.
type MissingColumnError struct {
	Column  string
	Columns []string // the existing columns
}

func (e *MissingColumnError) Error() string {
	among := fmt.Sprintf("%.40q", e.Columns)
	if more := len(e.Columns) - 20; more > 1 {
		among = fmt.Sprintf("%.40q and %d more", e.Columns[:20], more)
	}
	return fmt.Sprintf("no column %q among %s: name the label's column in record.label (--label)", e.Column, among)
}

func (d *csvDecoder) Decode(_ context.Context, r Record, e *event.Example) error {
	if d.begin(&r, e, false) && d.line(&r, e) {
		d.complete(&r, e)
	}
	return nil
}

// line reads the values of a line. It returns false if it has refused the record.
func (d *csvDecoder) line(r *Record, e *event.Example) bool {
	data := bytes.TrimPrefix(bytes.TrimRight(r.Value, "\r\n"), []byte("\ufeff")) // a mark is there where files are put together
	if text := notUTF8(data); text != "" {
		return d.refuse(r, e, event.ReasonSyntax, "%s", text)
	}
	if d.isHeader(data) {
		return d.refuse(r, e, event.ReasonSyntax, "the header again, as where files are put together")
	}
	columns := d.columns
	if d.unlabeled != nil {
		if d.raw = rawValues(d.raw[:0], data, d.separator); len(d.raw) == len(d.unlabeled) {
			columns = d.unlabeled // a line to predict needs no label
		}
	}
	i, p := 0, 0
	for ; ; i++ {
		if i == len(columns) {
			return d.refuse(r, e, event.ReasonSyntax, "byte %d: a value more than the %d columns", p+1, i)
		}
		text, inPlace, next := csvValue(data, p, d.separator, &d.scratch)
		if next < 0 {
			return d.refuse(r, e, event.ReasonSyntax, "byte %d: column %q: "+strayQuote, p+1, columns[i].name)
		}
		if reason, detail := d.column(&columns[i], text, inPlace); detail != "" {
			return d.refuse(r, e, reason, "byte %d: column %q: %s", p+1, columns[i].name, detail)
		}
		if next == len(data) {
			break
		}
		p = next + 1
	}
	if i+1 < len(columns) {
		other := ""
		if bytes.HasPrefix(data, []byte{'#'}) {
			other = ": if it is a comment, remove it, as grep -v '^#' FILE does"
		}
		for _, separator := range []byte(separators) {
			if separator != d.separator && bytes.Count(data, []byte{separator}) == len(columns)-1 {
				other = fmt.Sprintf(": record.separator is %q, and %q would make them so many", d.separator, separator)
			}
		}
		return d.refuse(r, e, event.ReasonSyntax, "%d values for %d columns%s", i+1, len(columns), other)
	}
	return true
}

// isHeader reports whether a line has the names of the columns.
func (d *csvDecoder) isHeader(line []byte) bool {
	if len(d.c.Columns) < 2 {
		return false
	}
	if first, _, next := csvValue(line, 0, d.separator, &d.scratch); next < 0 || string(first) != d.c.Columns[0] {
		return false // most lines, without reading them to the end
	}
	names, err := csvFields(line, d.separator)
	return err == nil && slices.Equal(names, d.c.Columns)
}

// column sets the value of column n. If the record must be refused, it returns the reason and a detail; otherwise
// detail is "".
func (d *csvDecoder) column(n *named, text []byte, inPlace bool) (reason event.Reason, detail string) {
	for _, m := range d.c.Missing {
		if string(text) == m {
			if n.role == isFeature {
				d.miss(n)
			}
			return "", ""
		}
	}
	switch {
	case n.role != isFeature:
		return d.special(n.role, text, inPlace)
	case n.times != nil:
		if !d.takeTime(n, text) {
			return event.ReasonSyntax, fmt.Sprintf("%.40q: %s", text, wantTime)
		}
		return "", ""
	case !n.text && (string(text) == "true" || string(text) == "false"):
		d.pair(n, event.Boolean, text, 1)
		return "", ""
	case d.writtenNumber(n, text):
		return "", ""
	}
	switch x, next := number(text, 0, false); {
	case !n.categorical && !n.text && next == len(text) && next > 0:
		if x > maxMagnitude || x < -maxMagnitude {
			return event.ReasonOutOfRange, fmt.Sprintf("%.40s is beyond 1e30", text)
		}
		d.addNumber(n, x)
	case !n.categorical && !n.text && notFinite(text):
		if !d.missNumber(n) {
			return event.ReasonNotFinite, fmt.Sprintf("%s is not a number", text)
		}
	default:
		if !n.text {
			text = wholeNumber(text)
		}
		if !d.addString(n, text, false) {
			return event.ReasonTooMany, fmt.Sprintf(moreFeatures, d.c.MaxFeatures)
		}
	}
	return "", ""
}

// wholeNumber removes the zero fraction of a whole number, which pandas adds to columns with missing values: 20095.0
// becomes the category 20095. A text that begins with 0 is a code and does not change.
func wholeNumber(text []byte) []byte {
	whole := bytes.TrimRight(text, "0")
	if n := len(whole); n == len(text) || n < 2 || whole[n-1] != '.' {
		return text
	}
	if whole = whole[:len(whole)-1]; !plainInteger(bytes.TrimPrefix(whole, []byte{'-'})) {
		return text
	}
	return whole
}

const strayQuote = "a quote that is not closed or does not enclose the whole value, or a newline without quotes"

// csvValue returns the value at data[p:], and the position of the following separator or end, or -1. If inPlace is
// false, the text is in scratch.
func csvValue(data []byte, p int, separator byte, scratch *[]byte) (text []byte, inPlace bool, next int) {
	if p >= len(data) || data[p] != '"' {
		end := p
		for end < len(data) && data[end] != separator {
			if data[end] == '"' || data[end] == '\n' {
				return nil, true, -1
			}
			end++
		}
		next = end
		for p < end && (data[p] == ' ' || data[p] == '\t') {
			p++
		}
		for p < end && (data[end-1] == ' ' || data[end-1] == '\t') {
			end--
		}
		return data[p:end], true, next
	}
	p++
	start, inPlace := p, true
	for {
		i := bytes.IndexByte(data[p:], '"')
		if i < 0 {
			return nil, true, -1
		}
		end := p + i
		if end+1 < len(data) && data[end+1] == '"' { // a doubled quote
			if inPlace {
				*scratch, inPlace = (*scratch)[:0], false
			}
			*scratch = append(*scratch, data[start:end+1]...)
			p = end + 2
			start = p
			continue
		}
		if end+1 < len(data) && data[end+1] != separator {
			return nil, true, -1
		}
		if inPlace {
			return data[start:end], true, end + 1
		}
		*scratch = append(*scratch, data[start:end]...)
		return *scratch, false, end + 1
	}
}

// csvFields returns the values of a line.
func csvFields(line []byte, separator byte) (fields []string, err error) {
	var scratch []byte
	for p := 0; ; p++ {
		text, _, next := csvValue(line, p, separator, &scratch)
		if next < 0 {
			return nil, fmt.Errorf("byte %d: "+strayQuote, p+1)
		}
		fields = append(fields, string(text))
		if p = next; p == len(line) {
			return fields, nil
		}
	}
}

// quotedEnd is findEnd for CSV, where a newline within quotes does not end a record. A stray quote must not join all
// following records. So an invalid record ends at its first newline and is refused. A record is invalid if a misplaced
// quote follows a newline within quotes, if quotes are not closed, or if it is longer than max_bytes. The following
// lines are then read as new records.
func (s *Scanner) quotedEnd() int {
	data, p := s.buf[s.at:s.end], s.seen
	newline := -1 // position of the next newline, if already searched
	for p < len(data) {
		if !s.quoted {
			if newline < p {
				if newline = bytes.IndexByte(data[p:], '\n'); newline < 0 {
					newline = len(data)
				} else {
					newline += p
				}
			}
			if q := bytes.IndexByte(data[p:newline], '"'); q >= 0 && !s.stray {
				q += p
				if q == 0 || data[q-1] == s.c.Separator[0] {
					s.quoted, p = true, q+1
					continue
				}
				if s.newline > 0 {
					return s.at + s.newline - 1
				}
				s.stray = true
			}
			if newline < len(data) {
				return s.ends(newline)
			}
			p = newline
			break
		}
		q := bytes.IndexByte(data[p:], '"')
		inside := data[p:]
		if q >= 0 {
			inside = data[p : p+q]
		}
		if s.newline == 0 {
			if i := bytes.IndexByte(inside, '\n'); i >= 0 {
				s.newline = p + i + 1
			}
		}
		if q < 0 {
			p = len(data)
			break
		}
		q += p
		switch rest := data[q+1:]; {
		case len(rest) == 0 || len(rest) == 1 && rest[0] == '\r':
			if s.eof == io.EOF {
				return s.ends(len(data))
			}
			s.seen = q
			return s.tooLong(len(data))
		case rest[0] == '"': // a doubled quote
			p = q + 2
		case rest[0] == s.c.Separator[0]:
			s.quoted, p = false, q+1
		case rest[0] == '\n':
			return s.ends(q + 1)
		case rest[0] == '\r' && rest[1] == '\n':
			return s.ends(q + 2)
		case s.newline > 0:
			return s.at + s.newline - 1
		default:
			s.quoted, s.stray, p = false, true, q+1
		}
	}
	if s.eof == io.EOF {
		if s.quoted && s.newline > 0 {
			return s.at + s.newline - 1
		}
		return s.end
	}
	s.seen = p
	return s.tooLong(p)
}

// ends returns the end of a record of size bytes, or the end of its first line if it is invalid.
func (s *Scanner) ends(size int) int {
	if end := s.tooLong(size); end >= 0 {
		return end
	}
	return s.at + size
}

// If a record of at least size bytes is too long and has further lines, tooLong returns the end of its first line.
// Otherwise it returns -1.
func (s *Scanner) tooLong(size int) int {
	if size > s.c.MaxBytes && s.newline > 0 {
		return s.at + s.newline - 1
	}
	return -1
}

// Rows returns the lines of a request as lines with the columns of c. It removes a header, whose columns may have another
// order or be fewer: a line then gets the missing columns as missing values. The error names a column of the header that
// c does not have, or the first line that has another number of values than the header.
func (c Config) Rows(lines [][]byte) ([][]byte, error) {
	if len(lines) == 0 {
		return lines, nil
	}
	if first, marked := bytes.CutPrefix(lines[0], []byte("\ufeff")); marked {
		lines = append([][]byte{first}, lines[1:]...)
	}
	names, err := csvFields(lines[0], c.Separator[0])
	switch {
	case err != nil || !c.isHeader(names):
		return lines, nil
	case slices.Equal(names, c.Columns):
		return lines[1:], nil // the decoder checks the number of values
	}
	at := map[string]int{}
	for i, name := range names {
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("the header names column %.80q twice", name)
		}
		if !slices.Contains(c.Columns, name) {
			return nil, fmt.Errorf("the header names column %.80q, but the columns are %.200q (record.columns)", name, c.Columns)
		}
		at[name] = i
	}
	missing := ""
	if len(c.Missing) > 0 {
		missing = c.Missing[0]
	}
	out := make([][]byte, len(lines)-1)
	for i, line := range lines[1:] {
		values := rawValues(nil, line, c.Separator[0])
		if out[i] = line; values == nil {
			continue // the decoder refuses it
		}
		if len(values) != len(names) {
			return nil, fmt.Errorf("line %d has %d values for %d columns", i+2, len(values), len(names))
		}
		var row []byte
		for j, name := range c.Columns {
			if j > 0 {
				row = append(row, c.Separator[0])
			}
			if k, ok := at[name]; ok {
				row = append(row, values[k]...)
			} else {
				row = append(row, missing...)
			}
		}
		out[i] = row
	}
	return out, nil
}

// isHeader reports whether the values of a line are names of columns: if one is the label's name, or at least half are
// names of columns.
func (c Config) isHeader(values []string) bool {
	known := 0
	for _, v := range values {
		if v == c.Label && v != "" {
			return true
		}
		if v != "" && slices.Contains(c.Columns, v) {
			known++
		}
	}
	return known > 0 && 2*known >= len(values)
}

// rawValues appends the values of a line as they are written, or returns nil if the line is invalid.
func rawValues(values [][]byte, line []byte, separator byte) [][]byte {
	var scratch []byte
	line = bytes.TrimRight(line, "\r\n")
	for p := 0; ; p++ {
		_, _, next := csvValue(line, p, separator, &scratch)
		if next < 0 {
			return nil
		}
		values = append(values, line[p:next])
		if p = next; p == len(line) {
			return values
		}
	}
}
