package record

// This file converts texts to bags of words.

import (
	"unicode"
	"unicode/utf8"

	"blankout/internal/event"
)

// maxNgrams is the largest valid Config.Ngrams.
const maxNgrams = 5

// words adds the words of a text as a bag for n. Words are runs of letters, digits and their marks, in lower case. In
// scripts without blanks each letter is a word. It also adds every sequence of up to ngrams words, joined with blanks. It returns false if the limits do not allow all
// of these features; the caller then refuses the record.
func (d *core) words(n *named, text []byte) bool {
	d.lower, d.starts = d.lower[:0], d.starts[:0]
	for len(text) > 0 {
		skip := wordEnd(text, false)
		text = text[skip:]
		size := wordEnd(text, true)
		if size == 0 {
			break
		}
		if d.tooMany() {
			return false
		}
		if len(d.starts) > 0 {
			d.lower = append(d.lower, ' ')
		}
		d.starts = append(d.starts, len(d.lower))
		d.lower = appendLower(d.lower, text[:size])
		text = text[size:]
		last := len(d.starts) - 1
		for first := last; first > last-max(d.c.Ngrams, 1) && first >= 0; first-- {
			d.pair(n, event.Words, d.lower[d.starts[first]:], 1)
		}
	}
	return !d.tooMany()
}

// wordEnd returns the number of bytes at the start of text that belong to a word or, if word is false, that do not.
func wordEnd(text []byte, word bool) int {
	alone := false // the word is a letter of a script without blanks
	for i := 0; i < len(text); {
		c, size := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRune(text[i:])
		}
		mark := unicode.IsMark(c)
		if (mark || unicode.IsLetter(c) || unicode.IsDigit(c)) != word || word && i > 0 && !mark && (alone || unspaced(c)) {
			return i
		}
		alone = unspaced(c) || alone && mark
		i += size
	}
	return len(text)
}

func appendLower(to, word []byte) []byte {
	for _, c := range string(word) {
		to = utf8.AppendRune(to, unicode.ToLower(c))
	}
	return to
}
