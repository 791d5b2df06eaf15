package record

// This file splits a JSON text that is not JSON lines into objects. The text is an array, or has objects over several
// lines, or has several objects in one line.

import (
	"bytes"
	"io"
)

// nesting is the state of a search for the end of a JSON object.
type nesting struct {
	depth           int
	arrays          uint64 // bit i is set if the container at depth i+1 is an array
	inText, escaped bool
	last            byte // latest non-blank byte outside of strings
	newline         bool // a newline was seen
	broken          bool // the text is not JSON
}

// maxKnown is the depth down to which nesting distinguishes arrays from objects. maxKnown exceeds the depth that a
// record may have.
const maxKnown = 64

func (n *nesting) inArray() bool { return n.depth > 0 && n.arrays>>((n.depth-1)%maxKnown)&1 == 1 }

func (n *nesting) push(array bool) {
	bit := uint64(1) << (n.depth % maxKnown)
	n.arrays &^= bit
	if array {
		n.arrays |= bit
	}
	n.depth++
}

// end returns the end of the object at the start of data, or -1. The bytes before from have already been searched. If a
// brace opens an object where no object is valid, the previous object ends before it. So a missing brace or quote
// affects only the objects around it, not all later objects.
func (n *nesting) end(data []byte, from int) int {
	for p := from; p < len(data); p++ {
		c := data[p]
		if n.inText {
			switch {
			case c == '\n': // strings contain no newlines
				n.inText, n.escaped, n.newline, n.broken = false, false, true, true
			case n.escaped:
				n.escaped = false
			case c == '\\':
				n.escaped = true
			case c == '"':
				n.inText = false
			}
			continue
		}
		switch c {
		case '\n':
			n.newline = true
			continue
		case ' ', '\t', '\r':
			continue
		case '"':
			n.inText = true
		case '{':
			if n.misplaced() {
				n.broken = true
				return p
			}
			n.push(false)
		case '[':
			n.push(true)
		case ']':
			if n.inArray() {
				n.depth--
			} else {
				n.broken = true
			}
		case '}':
			for n.inArray() {
				n.depth--
				n.broken = true
			}
			if n.depth--; n.depth <= 0 {
				return p + 1
			}
		}
		n.last = c
	}
	return -1
}

// misplaced reports whether no object may begin at this point.
func (n *nesting) misplaced() bool {
	switch {
	case n.depth == 0 || n.depth > maxKnown:
		return false
	case n.inArray():
		return n.last != ',' && n.last != '['
	}
	return n.last != ':'
}

// between reports whether c may be between the objects of a text: a blank, the brackets and commas of an array, or the
// record separator of RFC 7464.
func between(c byte) bool {
	return blank(c) || c == '\n' || c == ',' || c == '[' || c == ']' || c == '\x1e'
}

// findObjects decides from the first record whether a JSON text has one object per line, or objects in another
// arrangement. If the first line is damaged, the text has one object per line.
func (s *Scanner) findObjects() error {
	for {
		objects, decided := s.startsObjects()
		if decided {
			s.objects = objects
			return nil
		}
		if err := s.Refill(); err != nil && err != io.EOF {
			return err
		}
	}
}

func (s *Scanner) startsObjects() (objects, decided bool) {
	ended := s.eof != nil
	text := bytes.TrimLeft(s.buf[s.at:s.end], " \t\r\n")
	if len(text) == 0 {
		return false, ended
	}
	if text[0] != '{' {
		return text[0] == '[' || text[0] == '\x1e', true
	}
	var n nesting
	end := n.end(text, 0)
	switch {
	case n.broken || end < 0 && len(text) > s.c.MaxBytes || end > s.c.MaxBytes:
		return false, true
	case end < 0:
		return ended && n.newline, ended
	case n.newline:
		return true, true
	}
	rest := bytes.TrimLeft(text[end:], " \t\r")
	if len(rest) == 0 {
		return false, ended
	}
	return rest[0] == '{' || rest[0] == ',', true
}

// scanObject finds the next record in a text that consists of JSON objects, as Scan does for lines. Other text between
// objects, up to the end of its line, is also a record, which the decoder will refuse. The offset of a record is its
// number.
func (s *Scanner) scanObject(r *Record) bool {
	if s.skipped {
		end := s.objectEnd()
		if end < 0 {
			s.at, s.seen = s.end, 0
			return false
		}
		s.at, s.skipped, s.search = end, false, search{}
		s.before = s.mark
	}
	for s.seen == 0 && s.at < s.end && between(s.buf[s.at]) {
		s.at++
	}
	if s.at == s.end {
		return false
	}
	end := s.objectEnd()
	if end < 0 {
		if s.end-s.at <= s.c.MaxBytes {
			return false
		}
		*r = Record{Value: s.buf[s.at : s.at+s.c.MaxBytes+1], Offset: s.line, Cut: true}
		s.at, s.seen, s.skipped = s.end, 0, true
		s.line++
		return true
	}
	value := bytes.TrimRight(s.buf[s.at:end], " \t\r\n")
	if s.eof == io.EOF && end == s.end && s.c.Growing && s.unfinished(value) {
		s.held, s.at = s.line+1, s.end
		return false
	}
	*r = Record{Value: value, Offset: s.line}
	if end-s.at > s.c.MaxBytes {
		r.Value, r.Cut = s.buf[s.at:s.at+s.c.MaxBytes+1], true
	}
	s.at, s.search = end, search{}
	s.line++
	return true
}

// unfinished reports whether the last record of a file may be incomplete.
func (s *Scanner) unfinished(value []byte) bool { return s.nest.depth > 0 || value[0] != '{' }

// objectEnd is findEnd for a text of objects.
func (s *Scanner) objectEnd() int {
	data := s.buf[s.at:s.end]
	var end int
	if s.nest.depth > 0 || !s.skipped && data[0] == '{' {
		end = s.nest.end(data, s.seen)
	} else {
		end = bytes.IndexAny(data[s.seen:], "{\n")
		if end >= 0 {
			end += s.seen
		}
	}
	switch {
	case end >= 0:
		return s.at + end
	case s.eof == io.EOF:
		return s.end
	}
	s.seen = len(data)
	return -1
}
