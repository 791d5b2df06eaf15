package record

// This file parses times and computes their features.

import (
	"math"
	"slices"
	"strconv"
	"time"

	"blankout/internal/event"
)

// wantTime describes valid times, for error messages.
const wantTime = "want milliseconds since 1970, or a time as 2026-01-31T12:00:00Z or 2026-01-31 12:00:00 (record.timezone)"

// zoned and local are the layouts of times besides RFC 3339. Seconds may have a fraction.
var (
	zoned = []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 Z0700", "2006-01-02 15:04:05Z07", "2006-01-02T15:04Z07:00"}
	local = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}
)

// eventTime parses milliseconds since the Unix epoch, or a time in RFC 3339 or a similar layout. zone is used for a
// time without a time zone.
func eventTime(text []byte, zone *time.Location) (ms int64, ok bool) {
	if x, next := number(text, 0, false); next == len(text) && next > 0 {
		return int64(x), math.Abs(x) < 1<<62
	}
	var t time.Time
	if err := t.UnmarshalText(text); err == nil {
		return t.UnixMilli(), true
	}
	if len(text) < len("2006-01-02") || len(text) > 40 {
		return 0, false
	}
	s := string(text)
	for _, layout := range local {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t.UnixMilli(), true
		}
	}
	for _, layout := range zoned {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// times computes the time features of a record.
type times struct {
	zone     *time.Location
	features map[string]*timeFeatures // by field name
	met      []timeMet
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

// takeTime uses the text of a field as a time, and reports whether it is a time.
func (t *times) takeTime(f *timeFeatures, text []byte) bool {
	ms, ok := eventTime(text, t.zone)
	if ok {
		t.met = append(t.met, timeMet{f, ms})
	}
	return ok
}

// addTimes adds the time features of this record: the hour and the weekday in the configured time zone, and the age.
// The age is the number of seconds until the record arrived, if the arrival is known.
func (d *core) addTimes() {
	for _, m := range d.times.met {
		at := time.UnixMilli(m.ms).In(d.times.zone)
		d.pair(&m.features.hour, event.Categorical, strconv.AppendInt(nil, int64(at.Hour()), 10), 1)
		d.pair(&m.features.weekday, event.Categorical, []byte(at.Weekday().String()), 1)
		if d.parts.time != 0 && m.features != d.times.features[d.c.Time] {
			d.addNumber(&m.features.age, float64(d.parts.time-m.ms)/1000)
		}
	}
}
