package record

// This file decides from the first values of a field whether they are text or times (event.Reading).

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
)

// readings finds the Readings of a Schema by name. The changes of a record can be undone.
type readings struct {
	byName map[string]int // 1 + index in Schema.Readings
	known  int            // number of Readings in byName
	before int            // number of Readings before the current record
	undo   []oldReading
}

type oldReading struct {
	index int
	was   event.Reading
}

// plainReading in named.reading means that the values of the field are finally plain.
const plainReading = -1

// beginReadings starts a record. It adds Readings that another decoder has added.
func (d *core) beginReadings() {
	r := &d.readings
	r.undo = r.undo[:0]
	if r.known != len(d.s.Readings) {
		for ; r.known < len(d.s.Readings); r.known++ {
			r.byName[d.s.Readings[r.known].Name] = r.known + 1
		}
		d.age++ // invalidates the indices stored in each named
	}
	r.before = r.known
}

// forgetReadings undoes the changes of a refused record.
func (d *core) forgetReadings() {
	r := &d.readings
	if len(r.undo) > 0 || r.known > r.before {
		d.age++
	}
	for _, old := range slices.Backward(r.undo) {
		d.s.SetReading(old.index, old.was)
	}
	if r.known > r.before {
		for _, reading := range d.s.Readings[r.before:] {
			delete(r.byName, reading.Name)
		}
		d.s.DropReadings(r.before)
		r.known = r.before
	}
	r.undo = r.undo[:0]
}

// isRead reports whether n has a Reading that is not finally plain.
func (d *core) isRead(n *named) bool {
	if n.readingAge != d.age {
		d.findReading(n)
	}
	return n.reading > 0
}

// findReading sets the Reading of n. A field whose way of reading is configured has none.
func (d *core) findReading(n *named) {
	n.readingAge, n.reading = d.age, d.readings.byName[n.name]
	if n.categorical || n.times != nil || n.text {
		n.reading = plainReading
	} else if n.reading > 0 {
		if r := &d.s.Readings[n.reading-1]; r.Final() && r.As == event.ReadPlain {
			n.reading = plainReading
		}
	}
}

// infers reports whether the decoder may decide how values are read. A model that no longer learns keeps its Readings.
func (d *core) infers() bool { return d.c.Infer && d.s.Closed == 0 }

// readingOf returns a copy of the Reading of n, or a new one.
func (d *core) readingOf(n *named) event.Reading {
	if n.reading > 0 {
		return d.s.Readings[n.reading-1]
	}
	return event.Reading{Name: n.name}
}

// setReading stores the Reading of n. It returns false if the Schema has no room for it.
func (d *core) setReading(n *named, r event.Reading) bool {
	if n.reading > 0 {
		i := n.reading - 1
		d.readings.undo = append(d.readings.undo, oldReading{i, d.s.Readings[i]})
		if d.s.SetReading(i, r); r.Final() {
			d.age++
		}
		return true
	}
	if len(n.name) > maxNameBytes || !d.s.SetReading(len(d.s.Readings), r) {
		n.reading = plainReading
		return false
	}
	d.readings.known++
	d.readings.byName[n.name] = d.readings.known
	n.reading = d.readings.known
	d.age++ // other named values may have this name
	return true
}

// addString adds a string of the field n: as words, as a time or as a category. It returns false if the limits do not
// allow its features. listed means that the string is an element of an array, and is one word unless it is text.
func (d *core) addString(n *named, text []byte, listed bool) bool {
	as, ms := event.ReadPlain, int64(0)
	if n.text {
		as = event.ReadText
	} else if d.isRead(n) || n.reading == 0 && !isWord(text) {
		as, ms = d.readString(n, text, listed)
	}
	if listed && as == event.ReadPlain {
		d.pair(n, event.Words, text, 1)
		return true
	}
	return d.addRead(n, text, as, ms)
}

// addRead adds a string that is read in the given way.
func (d *core) addRead(n *named, text []byte, as event.ReadAs, ms int64) bool {
	switch as {
	case event.ReadText:
		return d.words(n, text)
	case event.ReadTime:
		d.times.met = append(d.times.met, timeMet{d.timesOf(n.name), ms})
	default:
		d.pair(n, event.Categorical, text, 1)
	}
	return true
}

// readString counts a string in the Reading of n, and returns how to read it. ms is the time of a date.
func (d *core) readString(n *named, text []byte, listed bool) (as event.ReadAs, ms int64) {
	if x, next := number(text, 0, false); next == len(text) && x >= leastEpoch {
		if ms, is := d.epochTime(n, x); is {
			return event.ReadTime, ms
		}
		return event.ReadPlain, 0
	}
	r := d.readingOf(n)
	at, isTime := date{}, false
	if !listed {
		at, isTime = d.times.parse(text, r.Order)
	}
	if d.infers() && len(text) > 0 {
		words := 0
		if !r.Final() {
			words = countWords(text)
		}
		if n.reading == 0 && words < 3 && !isTime {
			return event.ReadPlain, 0
		}
		changed := false
		if isTime && r.Order == event.OrderUnknown && at.shows != event.OrderUnknown {
			r.Order, changed = at.shows, true
		}
		if !r.Final() {
			r.Values++
			r.Words += words
			r.Different |= 1 << (xxhash.Sum64(text) % 64)
			if isTime {
				r.Times++
			}
			r.Decide()
			changed = true
		}
		if changed && !d.setReading(n, r) {
			return event.ReadPlain, 0
		}
	}
	if n.reading == 0 || r.As == event.ReadTime && !isTime {
		return event.ReadPlain, 0 // for example a word in a column of dates
	}
	return r.As, at.ms
}

// leastEpoch is the least number that may be a time: the date 19700101.
const leastEpoch = 19700101

// epochTime counts a number that may be the time of the field n, and reports whether it is read as a time. ms is then the
// time. The numbers of a time grow, unless the name says that they are times.
func (d *core) epochTime(n *named, x float64) (ms int64, is bool) {
	if !d.isRead(n) && (n.reading == plainReading || x < leastEpoch) {
		return 0, false
	}
	ms, isEpoch := epoch(x, d.times.zone)
	if n.reading == 0 {
		_, number := d.fields[fieldKey{n.name, event.Numeric}]
		if _, text := d.fields[fieldKey{n.name, event.Categorical}]; number || text || !isEpoch {
			return 0, false // the first value of a time is one
		}
	}
	r := d.readingOf(n)
	if d.infers() && !r.Final() {
		if n.reading == 0 || x != r.Last {
			if n.reading > 0 {
				if r.Values++; isEpoch && plausible(ms) && (x > r.Last || namesTime(n.name)) {
					r.Times++
				}
			}
			r.Last = x
			r.Decide()
			if !d.setReading(n, r) {
				return 0, false
			}
		}
	}
	return ms, isEpoch && n.reading > 0 && r.As == event.ReadTime
}

// plausible reports whether a time of an event, in milliseconds since 1970, is between the years 1980 and 2040. A number
// outside may still be a time, but is more often an amount.
func plausible(ms int64) bool { return ms >= 315_532_800_000 && ms < 2_208_988_800_000 }

// namesTime reports whether a name is one that programs give to epochs.
func namesTime(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	return name == "ts" || strings.HasSuffix(name, "_ts") || strings.HasSuffix(name, "_at") || strings.Contains(name, "timestamp") || strings.Contains(name, "epoch")
}

// isWord reports whether a string is a single word, which is neither text nor a time.
func isWord(text []byte) bool {
	for i, c := range text {
		if c|0x20-'a' < 26 {
			continue
		}
		if c >= utf8.RuneSelf || c < '0' && c != '-' && c != '_' || c == ';' || c == '|' || c == '>' || i == 0 && c <= '9' {
			return false
		}
	}
	return true
}

// countWords returns the number of words with a letter, separated by blanks or the usual signs of lists. In scripts
// without blanks, two letters count as a word.
func countWords(text []byte) (words int) {
	letters, dense := false, 0
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case unspaced(c):
			dense++
		case unicode.IsLetter(c):
			letters = true
		case letters && (c == ',' || c == ';' || c == '|' || c == '>' || unicode.IsSpace(c)):
			words, letters = words+1, false
		}
	}
	if letters {
		words++
	}
	return words + dense/2
}

// unspaced reports whether c belongs to a script that writes no blanks between words.
func unspaced(c rune) bool {
	return c >= 0x0e00 && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
