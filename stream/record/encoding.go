package record

// This file finds out how a text is written: its separator and its encoding.

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"blankout/internal/event"
)

// separators are those that are looked for, after that of the configuration.
const separators = ",;\t|"

// foundSeparator returns the separator of the columns of CSV, by its first line: that of c
// unless it is the default and does not lead to the columns that c names, where another does.
// Without such names a line of one column takes the separator that makes the most of it.
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

// names reports whether columns of CSV hold the label, or all that are named besides where there
// are no labels.
func (c Config) names(columns []string) bool {
	for role, name := range c.special() {
		if name != "" && !(c.Unlabeled && fieldRole(role) == isLabel) && !slices.Contains(columns, name) {
			return false
		}
	}
	return !c.Unlabeled && c.Label != ""
}

// checkEncoding refuses a text of UTF-16, which no format is written in.
func checkEncoding(text []byte) error {
	name := ""
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}):
		name = "UTF-16LE"
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		name = "UTF-16BE"
	case len(text) >= 4 && text[0] != 0 && text[1] == 0 && text[2] != 0 && text[3] == 0:
		name = "UTF-16LE"
	case len(text) >= 4 && text[0] == 0 && text[1] != 0 && text[2] == 0 && text[3] != 0:
		name = "UTF-16BE"
	default:
		return nil
	}
	return &event.Refusal{Reason: event.ReasonSyntax, Detail: fmt.Sprintf("the text is %s, and is read as UTF-8: convert it with iconv -f %s -t UTF-8", name, name[:6])}
}

// notUTF8 says where text is not UTF-8; "" where all of it is.
func notUTF8(text []byte) string {
	if utf8.Valid(text) {
		return ""
	}
	p := 0
	for {
		r, size := utf8.DecodeRune(text[p:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		p += size
	}
	return fmt.Sprintf("byte %d: 0x%02x is not UTF-8: convert the text, with iconv -f LATIN1 -t UTF-8 if it is Latin-1", p+1, text[p])
}
