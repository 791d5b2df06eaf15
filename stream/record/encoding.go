package record

// This file detects the separator and the encoding of a text.

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"blankout/internal/event"
)

// separators are the separators to try, after the configured separator.
const separators = ",;\t|"

// foundSeparator detects the separator of CSV in its first line. It returns the separator of c, unless that is the
// default and only another separator gives the columns that c names. If c names no columns and the default gives only
// one column, it returns the separator that gives the most columns.
func foundSeparator(line []byte, c Config) string {
	if c.Separator != DefaultConfig().Separator {
		return c.Separator
	}
	best, most := c.Separator, 1
	for _, separator := range []byte(separators) {
		names, err := csvFields(line, separator)
		switch {
		case err != nil:
		case len(c.Columns) > 0:
			if len(names) == len(c.Columns) {
				return string(separator)
			}
		case len(names) > 1 && c.names(names):
			return string(separator)
		case len(names) > most && best == c.Separator:
			best, most = string(separator), len(names)
		}
	}
	return best
}

// names reports whether c names a label column for labeled records, and columns include all columns that c names.
func (c Config) names(columns []string) bool {
	for role, name := range c.special() {
		if name != "" && !(c.Unlabeled && fieldRole(role) == isLabel) && !slices.Contains(columns, name) {
			return false
		}
	}
	return !c.Unlabeled && c.Label != ""
}

// checkEncoding rejects UTF-16, which no format uses.
func checkEncoding(text []byte) error {
	// zero reports whether of two characters only the bytes at i and i + 2 are zero.
	zero := func(i int) bool {
		return len(text) >= 4 && text[i] == 0 && text[i+2] == 0 && text[1-i] != 0 && text[3-i] != 0
	}
	name := ""
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}) || zero(1):
		name = "UTF-16LE"
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}) || zero(0):
		name = "UTF-16BE"
	default:
		return nil
	}
	return &event.Refusal{Reason: event.ReasonSyntax, Detail: fmt.Sprintf("the text is %s, and is read as UTF-8: convert it with iconv -f %s -t UTF-8", name, name[:6])}
}

// notUTF8 returns the position at which text is not valid UTF-8, or "" if it is valid.
func notUTF8(text []byte) string {
	if utf8.Valid(text) {
		return ""
	}
	p := invalidUTF8(text)
	return fmt.Sprintf("byte %d: "+byteNotUTF8, p+1, text[p])
}

const byteNotUTF8 = "0x%02x is not UTF-8: convert the text, with iconv -f LATIN1 -t UTF-8 if it is Latin-1"

// invalidUTF8 returns the position of the first invalid byte of text, which is not valid UTF-8.
func invalidUTF8(text []byte) int {
	for p := 0; ; {
		r, size := utf8.DecodeRune(text[p:])
		if r == utf8.RuneError && size <= 1 {
			return p
		}
		p += size
	}
}
