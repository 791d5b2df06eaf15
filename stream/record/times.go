package record

// This file parses times and computes their features.

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/internal/event"
)

// wantTime describes valid times, for error messages.
const wantTime = "want milliseconds since 1970, or a date as 2026-01-31T12:00:00Z, 2026-01-31 12:00 or 1/31/2026 (record.timezone)"

// date is a parsed time. shows says whether its digits show the order of day and month.
type date struct {
	ms    int64
	shows event.DayOrder
}

// eventTime parses milliseconds since the Unix epoch, or a date.
func (t *times) eventTime(text []byte, order event.DayOrder) (d date, ok bool) {
	if x, next := number(text, 0, false); next == len(text) && next > 0 {
		return date{ms: int64(x)}, math.Abs(x) < 1<<62
	}
	return t.parse(text, order)
}

// epoch returns the time of a number that lies between 1973 and 2100 in seconds, milliseconds, microseconds or
// nanoseconds since 1970, or whose digits are a date since 1970: YYYYMMDD, YYYYMMDDHH, YYYYMMDDHHMM, YYYYMMDDHHMMSS or
// YYMMDDHHMM.
func epoch(x float64, zone *time.Location) (ms int64, ok bool) {
	whole, n := x == math.Trunc(x), int(x)
	if whole && x >= 1.9e9 && x < 1e12 { // as an epoch such a number would be in another century, or after 2030
		short := 0
		switch {
		case n >= 1e11: // YYYYMMDDHHMM
			short = n * 100
		case n >= 19e8 && n < 21e8: // YYYYMMDDHH
			short = n * 1e4
		case n < 1e10: // YYMMDDHHMM
			short = (n + 2000_00_00_00_00) * 100
		}
		if ms, ok := stamp(short, 2099, zone); ok {
			return ms, true
		}
	}
	for _, per := range []float64{1, 1e3, 1e6, 1e9} {
		if x >= 1e8*per && x < 4.1e9*per {
			return int64(x / per * 1000), true
		}
	}
	switch {
	case !whole || n < leastEpoch || n > 21001231 && n < leastEpoch*1e6:
		return 0, false
	case n <= 21001231:
		n *= 1e6
	}
	return stamp(n, 2100, zone)
}

// stamp returns the time whose digits are YYYYMMDDHHMMSS, from 1970 to the last year.
func stamp(n, last int, zone *time.Location) (ms int64, ok bool) {
	year, month, day, hour, minute, second := n/1e10, n/1e8%100, n/1e6%100, n/1e4%100, n/100%100, n%100
	if year < 1970 || year > last || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, zone)
	return at.UnixMilli(), int(at.Month()) == month && at.Day() == day
}

// dateScan reads a date from the start of its text.
type dateScan struct{ text []byte }

// digits reads at most most digits. n is their number.
func (s *dateScan) digits(most int) (x, n int) {
	for n < most && n < len(s.text) && s.text[n]-'0' <= 9 {
		x = 10*x + int(s.text[n]-'0')
		n++
	}
	s.text = s.text[n:]
	return x, n
}

// skip removes the first byte if it is one of set, and returns it, or returns 0.
func (s *dateScan) skip(set string) byte {
	if len(s.text) == 0 || strings.IndexByte(set, s.text[0]) < 0 {
		return 0
	}
	c := s.text[0]
	s.text = s.text[1:]
	return c
}

// blanks removes blanks and commas.
func (s *dateScan) blanks() { s.text = bytes.TrimLeft(s.text, " ,") }

// word reads ASCII letters.
func (s *dateScan) word() (word []byte) {
	n := 0
	for n < len(s.text) && (s.text[n]|0x20)-'a' < 26 {
		n++
	}
	word, s.text = s.text[:n], s.text[n:]
	return word
}

// month returns the number of a month by at least three letters of its English name, or 0.
func month(word []byte) int {
	for m := time.January; m <= time.December; m++ {
		if name := m.String(); len(word) >= 3 && len(word) <= len(name) && strings.EqualFold(name[:len(word)], string(word)) || len(word) == 4 && m == time.September && strings.EqualFold("sept", string(word)) {
			return int(m)
		}
	}
	return 0
}

func isWeekday(word []byte) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); len(word) >= 2 && len(word) <= len(name) && strings.EqualFold(name[:len(word)], string(word)) {
			return true
		}
	}
	return false
}

// parse parses a date with or without the time of day, in the forms that programs and people usually write. A time
// without a zone is in the configured zone. order decides dates such as 1/2/2026; if it is unknown, the day is first
// unless slashes separate the numbers.
func (t *times) parse(text []byte, order event.DayOrder) (d date, ok bool) {
	text = bytes.TrimSpace(text)
	if len(text) < len("1/1/26") || len(text) > 48 || !bytes.ContainsAny(text, "0123456789") {
		return d, false
	}
	s := &dateScan{text}
	year, mon, day := 0, 0, 0
	if text[0]-'0' <= 9 {
		year, mon, day, d.shows, ok = s.numbers(order)
	} else {
		year, mon, day, ok = s.named()
	}
	if !ok {
		return d, false
	}
	clock, zone, ok := s.clock(&year, t.zone)
	if !ok || len(s.text) > 0 || mon < 1 || mon > 12 || day < 1 || year < 1 {
		return d, false
	}
	at := time.Date(year, time.Month(mon), day, 0, 0, 0, 0, time.UTC)
	if at.Day() != day {
		return d, false
	}
	seconds := int(clock / time.Second) // Date normalizes them, and a change of clocks counts
	d.ms = time.Date(year, time.Month(mon), day, seconds/3600, seconds/60%60, seconds%60, int(clock%time.Second), zone).UnixMilli()
	return d, true
}

// numbers reads a date that begins with a digit: 2026-01-31, 1/31/2026, 31.1.2026, 31-Jan-2026, 20260131T or 31 January
// 2026.
func (s *dateScan) numbers(order event.DayOrder) (year, mon, day int, shows event.DayOrder, ok bool) {
	first, n := s.digits(4)
	if n == 4 && len(s.text) > 4 && s.text[0]-'0' <= 9 { // digits alone are a number
		mon, _ = s.digits(2)
		day, n = s.digits(2)
		return first, mon, day, shows, n == 2 && (s.text[0]|0x20 == 't' || s.text[0] == ' ')
	}
	mark := s.skip("-/. ")
	if mark == 0 || n == 3 {
		return 0, 0, 0, shows, false
	}
	if name := s.word(); len(name) > 0 { // the month has a name
		s.skip(".")
		if mon = month(name); s.skip("-/. ,") == 0 {
			return 0, 0, 0, shows, false
		}
		s.blanks()
		last, m := s.digits(4)
		if n == 4 {
			return first, mon, last, shows, mon > 0 && (m == 1 || m == 2)
		}
		return fullYear(last, m), mon, first, shows, mon > 0 && (m == 2 || m == 4)
	}
	second, m := s.digits(2)
	if m == 0 || mark == ' ' || s.skip(string(mark)) == 0 {
		return 0, 0, 0, shows, false
	}
	third, l := s.digits(4)
	if n == 4 {
		return first, second, third, shows, l == 1 || l == 2
	}
	if l != 4 && (l != 2 || mark != '/') {
		return 0, 0, 0, shows, false
	}
	if first > 12 && second <= 12 {
		shows, order = event.DayFirst, event.DayFirst
	} else if second > 12 && first <= 12 {
		shows, order = event.MonthFirst, event.MonthFirst
	}
	if order == event.DayFirst || order == event.OrderUnknown && mark != '/' {
		first, second = second, first
	}
	return fullYear(third, l), first, second, shows, true
}

// named reads a date that begins with the name of a weekday or month: Jan 31, 2026 or Sat, 31 Jan 2026. The year may be 0,
// because it may follow the time of day.
func (s *dateScan) named() (year, mon, day int, ok bool) {
	name := s.word()
	if isWeekday(name) && month(name) == 0 {
		s.skip(".")
		s.blanks()
		if len(s.text) > 0 && s.text[0]-'0' <= 9 {
			year, mon, day, _, ok = s.numbers(event.OrderUnknown)
			return year, mon, day, ok
		}
		name = s.word()
	}
	s.skip(".")
	if mon = month(name); mon == 0 || s.skip(" -/") == 0 {
		return 0, 0, 0, false
	}
	s.blanks()
	day, n := s.digits(2)
	before := s.text
	if s.skip("-/, ") != 0 {
		s.blanks()
		if x, m := s.digits(4); m == 4 {
			return x, mon, day, n > 0
		}
	}
	s.text = before // as in Jan 31 12:00:00 2026
	return 0, mon, day, n > 0
}

// fullYear returns the year of two digits, between 1970 and 2069.
func fullYear(x, digits int) int {
	switch {
	case digits != 2:
		return x
	case x < 70:
		return 2000 + x
	}
	return 1900 + x
}

// clock reads the time of day after a date, with its zone. It reads a year that follows if *year is 0.
func (s *dateScan) clock(year *int, local *time.Location) (clock time.Duration, zone *time.Location, ok bool) {
	zone = local
	if len(s.text) == 0 {
		return 0, zone, *year > 0
	}
	if s.skip("Tt:") == 0 {
		if s.skip(" ,") == 0 {
			return 0, zone, false
		}
		s.blanks()
		if bytes.HasPrefix(s.text, []byte("at ")) {
			s.text = s.text[len("at "):]
		}
	}
	hour, n := s.digits(2)
	colon := s.skip(":") != 0
	minute, m := s.digits(2)
	second, nanos := 0, 0
	if colon && s.skip(":") != 0 || !colon && m == 2 {
		second, _ = s.digits(2)
		if mark := s.skip(".,"); mark != 0 {
			unit := int(1e8)
			for len(s.text) > 0 && s.text[0]-'0' <= 9 {
				nanos, unit = nanos+unit*int(s.text[0]-'0'), unit/10
				s.text = s.text[1:]
			}
		}
	}
	if n == 0 || colon && m != 2 || hour > 24 || minute > 59 || second > 60 {
		return 0, zone, false
	}
	s.blanks()
	before := s.text
	switch half := s.word(); {
	case len(half) == 2 && half[1]|0x20 == 'm' && (half[0]|0x20 == 'a' || half[0]|0x20 == 'p'):
		if hour %= 12; half[0]|0x20 == 'p' {
			hour += 12
		}
		s.blanks()
	default:
		s.text = before
	}
	zone, ok = s.zone(local)
	if s.blanks(); ok && *year == 0 {
		*year, n = s.digits(4)
		ok = n == 4
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + time.Duration(nanos), zone, ok
}

// zone reads a zone: Z, an offset such as +02:00, or a name. A name other than UTC and GMT means the configured zone.
func (s *dateScan) zone(local *time.Location) (zone *time.Location, ok bool) {
	name := s.word()
	zone = local
	switch n := strings.ToUpper(string(name)); {
	case n == "Z" || n == "UTC" || n == "GMT":
		zone = time.UTC
	case len(n) == 1 || len(n) > 5 || n != string(name):
		return zone, false
	}
	sign := s.skip("+-")
	if sign == 0 {
		return zone, true
	}
	hours, n := s.digits(2)
	s.skip(":")
	minutes, _ := s.digits(2)
	offset := 3600*hours + 60*minutes
	if sign == '-' {
		offset = -offset
	}
	if tail := s.text; len(tail) > 3 && tail[0] == ' ' && tail[1] == '(' && tail[len(tail)-1] == ')' || len(tail) > 2 && tail[0] == '[' && tail[len(tail)-1] == ']' {
		s.text = nil // the zone's name follows, as JavaScript and Java write it
	}
	return time.FixedZone("", offset), n > 0 && hours < 24 && minutes < 60
}

// times computes the time features of a record.
type times struct {
	zone     *time.Location
	features map[string]*timeFeatures // by field name
	inferred map[string]*timeFeatures // of other fields that are read as times
	met      []timeMet
	event    named // the field of record.time
}

// timeFeatures has the features of one time field.
type timeFeatures struct{ hour, weekday, age named }

type timeMet struct {
	features *timeFeatures
	ms       int64
}

// newTimes returns the times for a checked configuration.
func (d *core) newTimes(c Config) times {
	t := times{features: map[string]*timeFeatures{}}
	t.zone, _ = time.LoadLocation(c.Timezone) // "" means UTC
	t.event = d.named(c.Time)
	for _, name := range c.TimeFeatures {
		t.features[name] = &timeFeatures{d.named(name + ".hour"), d.named(name + ".weekday"), d.named(name + ".age")}
	}
	return t
}

// checkTimes returns the first error in the settings of times.
func (c Config) checkTimes() error {
	if _, err := time.LoadLocation(c.Timezone); err != nil {
		return event.KeyErrorf("timezone", "timezone %q: want a name of the IANA database, as in UTC or Europe/Oslo", c.Timezone)
	}
	for i, name := range c.TimeFeatures {
		if name == "" || slices.Contains(c.TimeFeatures[:i], name) || slices.Contains(c.Drop, name) || slices.Contains(c.Categorical, name) || slices.Contains(c.Text, name) ||
			name == c.Label || name == c.Weight || name == c.ID {
			return event.KeyErrorf("time_features", "time_features: field %q is empty, named twice, or also named as label, weight, id, drop, categorical or text", name)
		}
	}
	return nil
}

// timesOf returns the time features of a field that is not in record.time_features.
func (d *core) timesOf(name string) *timeFeatures {
	f := d.times.inferred[name]
	if f == nil {
		if d.times.inferred == nil {
			d.times.inferred = map[string]*timeFeatures{}
		}
		f = &timeFeatures{hour: d.named(name + ".hour"), weekday: d.named(name + ".weekday")}
		d.times.inferred[name] = f
	}
	return f
}

// takeTime uses the text of a field as a time, and reports whether it is a time. A number may have any unit since 1970.
func (d *core) takeTime(n *named, text []byte) bool {
	var ms int64
	x, next := number(text, 0, false)
	ok := next == len(text) && next > 0
	if !ok {
		ms, ok = d.orderedDate(n, text)
	} else if ms, ok = epoch(x, d.times.zone); !ok {
		ms, ok = int64(x), math.Abs(x) < 1<<62
	}
	if ok {
		d.times.met = append(d.times.met, timeMet{n.times, ms})
	}
	return ok
}

// orderedDate parses a date of a configured field. It stores the order of day and month that the dates show.
func (d *core) orderedDate(n *named, text []byte) (ms int64, ok bool) {
	n.reading = d.readings.byName[n.name]
	r := d.readingOf(n)
	at, ok := d.times.eventTime(text, r.Order)
	if ok && r.Order == event.OrderUnknown && at.shows != event.OrderUnknown && d.s.Closed == 0 && !d.c.Unlabeled {
		r.Order, r.As = at.shows, event.ReadTime
		d.setReading(n, r)
	}
	return at.ms, ok
}

// addTimes adds the time features of this record: the hour and the weekday in the configured time zone, and for fields
// of record.time_features the age. The age is the number of seconds until the record arrived, if the arrival is known.
func (d *core) addTimes() {
	for _, m := range d.times.met {
		at := time.UnixMilli(m.ms).In(d.times.zone)
		d.pair(&m.features.hour, event.Categorical, strconv.AppendInt(nil, int64(at.Hour()), 10), 1)
		d.pair(&m.features.weekday, event.Categorical, []byte(at.Weekday().String()), 1)
		if d.parts.time != 0 && m.features.age.name != "" && m.features != d.times.features[d.c.Time] {
			d.putNumber(&m.features.age, float64(d.parts.time-m.ms)/1000)
		}
	}
}
