package record

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestLabelText checks that a text label keeps its text in every format. A numeric label with an integer value must
// become a class named by the integer.
func TestLabelText(t *testing.T) {
	for _, c := range []struct{ format, record, want string }{
		{"json", `{"x":1,"label":1234567}`, "1234567"},
		{"json", `{"x":1,"label":20260101}`, "20260101"},
		{"json", `{"x":1,"label":9007199254740993}`, "9007199254740993"},
		{"json", `{"x":1,"label":123456789012345678901234567890}`, "123456789012345678901234567890"},
		{"json", `{"x":1,"label":2.0}`, "2"},
		{"json", `{"x":1,"label":1.234567e6}`, "1234567"},
		{"json", `{"x":1,"label":-0.0}`, "0"},
		{"json", `{"x":1,"label":-7}`, "-7"},
		{"json", `{"x":1,"label":2.50}`, "2.5"},
		{"json", `{"x":1,"label":"2.0"}`, "2.0"},
		{"json", `{"x":1,"label":"00123"}`, "00123"},
		{"json", `{"x":1,"label":"1e2"}`, "1e2"},
		{"json", `{"x":1,"label":"Infinity"}`, "Infinity"},
		{"json", `{"x":1,"label":true}`, "true"},
		{"csv", "1,1234567", "1234567"},
		{"csv", "1,00123", "00123"},
		{"csv", "1,2.0", "2.0"},
		{"csv", "1,1e2", "1e2"},
		{"csv", "1,nan", "nan"},
		{"svmlight", "1234567 1:1", "1234567"},
		{"svmlight", "00123 1:1", "00123"},
		{"svmlight", "2.0 1:1", "2.0"},
		{"svmlight", "+1 1:1", "+1"},
		{"vw", "1234567 | a", "1234567"},
		{"vw", "2.0 | a", "2.0"},
		{"vw", "00123 | a", "00123"},
	} {
		config := DefaultConfig()
		config.Format, config.Columns = c.format, []string{"x", "label"}
		s, d := newDecoder(t, config)
		for range 2 { // first as a new label, then as a known label
			e := decoded(d, c.record)
			must.True(t, e.Refused == nil && e.Label >= 0 && s.Classes[e.Label] == c.want, "%s %s: class %d of %q (%v), want %q", c.format, c.record, e.Label, s.Classes, e.Refused, c.want)
		}
		must.Equal(t, len(strings.Join(s.Classes, "")), len(c.want), c.format, c.record, "classes", s.Classes)
	}
}

// TestLabelTextOfTypes checks that the formats with schemas treat typed labels as JSON does.
func TestLabelTextOfTypes(t *testing.T) {
	for kind, values := range map[string]map[any]string{
		"long":   {int64(1234567): "1234567", int64(9007199254740993): "9007199254740993", int64(-7): "-7"},
		"int":    {int32(20260101): "20260101"},
		"double": {float64(1234567): "1234567", float64(2): "2", float64(2.5): "2.5", float64(1e-7): "0.0000001"},
		"float":  {float32(1234567): "1234567", float32(0.1): "0.1"},
		"string": {"00123": "00123", "2.0": "2.0", "1e2": "1e2"},
	} {
		schema := `{"type":"record","name":"E","fields":[{"name":"x","type":"double"},{"name":"label","type":"` + kind + `"}]}`
		s, d, _ := decoders(t, wireConfig(t, "avro", sr.Schema{Schema: schema, Type: sr.TypeAvro}))
		checkLabels(t, "avro "+kind, s, d, values, func(v any) ([]byte, error) {
			return avro.MustParse(schema).AppendEncode([]byte{0, 0, 0, 0, 1}, map[string]any{"x": 1.0, "label": v})
		})
	}
	for kind, values := range map[string]map[any]string{
		"int64":  {"1234567": "1234567", `"9007199254740993"`: "9007199254740993"},
		"double": {"1234567": "1234567", "2.0": "2", "1e15": "1000000000000000"},
		"float":  {"1234567": "1234567", "0.1": "0.1"},
		"string": {`"00123"`: "00123", `"1e2"`: "1e2"},
	} {
		schema := `syntax = "proto3"; message E { double x = 1; ` + kind + ` label = 2; }`
		s, d, _ := decoders(t, wireConfig(t, "protobuf", sr.Schema{Schema: schema, Type: sr.TypeProtobuf}))
		encoder := must.Get(NewEncoder("event.proto", schema))(t)
		checkLabels(t, "protobuf "+kind, s, d, values, func(v any) ([]byte, error) { return encoder.Encode(1, []byte(`{"x":1,"label":`+v.(string)+`}`)) })
	}
}

// checkLabels decodes events with the given labels, and compares the names of their classes.
func checkLabels(t *testing.T, name string, s *event.Schema, d Decoder, values map[any]string, encode func(any) ([]byte, error)) {
	for v, want := range values {
		value := must.Get(encode(v))(t, name)
		var e event.Example
		must.Do(t, d.Decode(t.Context(), Record{Value: value}, &e))
		classes := s.Classes
		must.True(t, e.Refused == nil && e.Label >= 0 && classes[e.Label] == want, "%s %v: class %d of %q (%v), want %q", name, v, e.Label, classes, e.Refused, want)
	}
}

// TestSeenLabels checks that a known label is recognized in any spelling, at any position of the record.
func TestSeenLabels(t *testing.T) {
	config := DefaultConfig()
	config.Format, config.MaxClasses = "json", 20
	s, d := newDecoder(t, config)
	values := []struct{ written, want string }{
		{"1", "1"}, {"1.0", "1"}, {"10", "10"}, {"-1", "-1"}, {`"1"`, "1"}, {`"a"`, "a"}, {`"ab"`, "ab"}, {`"\u0061"`, "a"},
		{`"abcde"`, "abcde"}, {`"abcdef"`, "abcdef"}, {`"abcdefg"`, "abcdefg"}, {"true", "true"}, {"null", ""}, {"1e1", "10"}, {`"a,"`, "a,"}, {`"a}"`, "a}"},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		v := values[r.IntN(min(len(values), 2+i/100))]
		text := fmt.Sprintf([]string{`{"x":1,"label":%s}`, `{"label":%s,"x":1}`, `{"label":%s ,"x":1}`, `{"label": %s}`, `{"label":%s,"y":2,"x":1}`}[r.IntN(5)], v.written)
		e := decoded(d, text)
		got := ""
		if e.Label >= 0 {
			got = s.Classes[e.Label]
		}
		must.Require(t, e.Refused == nil && got == v.want, "record %d, %s: class %q (%v), want %q", i, text, got, e.Refused, v.want)
	}
}

// TestSeparateLabel checks that a label outside of a record is used unchanged, whatever the earlier labels were.
func TestSeparateLabel(t *testing.T) {
	config := DefaultConfig()
	s, d := newDecoder(t, config)
	for _, c := range []struct{ value, label, want string }{
		{`{"x":1,"label":"a"}`, "", "a"}, {`{"x":1,"label":"a"}`, "", "a"}, {`{"x":1}`, "b", "b"}, {`{"x":1}`, "a", "a"}, {`{"x":1}`, "", ""},
	} {
		r := Record{Value: []byte(c.value)}
		if c.label != "" {
			r.Label = []byte(c.label)
		}
		var e event.Example
		got := ""
		if d.Decode(context.Background(), r, &e); e.Label >= 0 {
			got = s.Classes[e.Label]
		}
		must.True(t, e.Refused == nil && got == c.want, "%s and the label %q: class %q (%v), want %q", c.value, c.label, got, e.Refused, c.want)
	}
}

// TestSeenLabelTwice checks a record with two labels: the last label is used, whether its class is known or new.
func TestSeenLabelTwice(t *testing.T) {
	config := DefaultConfig()
	config.Format, config.Label = "json", "a.b"
	s, d := newDecoder(t, config)
	for _, text := range []string{`{"a.b":"u","x":1}`, `{"a.b":"v","x":1}`, `{"a.b":"u","a":{"b":"v"}}`, `{"a.b":"u","a":{"b":"v" }}`, `{"a.b":"u" ,"a":{"b":"v"}}`} {
		var e event.Example
		d.Decode(context.Background(), Record{Value: []byte(text)}, &e)
		must.True(t, e.Refused == nil && (s.Classes[e.Label] == "v") == strings.Contains(text, `"v"`), "%s: class %d of %q (%v)", text, e.Label, s.Classes, e.Refused)
	}
}

// TestEventTime checks that a time without a time zone is in the configured zone, and that other texts are not times.
func TestEventTime(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Skip(err) // there is no time zone database
	}
	in := times{zone: oslo}
	at := func(text string) int64 {
		at := must.Get(time.Parse(time.RFC3339Nano, text))(t)
		return at.UnixMilli()
	}
	for text, want := range map[string]string{
		"2026-03-29T06:20:00Z": "2026-03-29T06:20:00Z", "2026-03-29T06:20:00.5+02:00": "2026-03-29T04:20:00.5Z",
		"2026-03-29 06:20:00": "2026-03-29T04:20:00Z", "2026-03-29T06:20:00": "2026-03-29T04:20:00Z", "2026-01-29 06:20:00.25": "2026-01-29T05:20:00.25Z",
		"2026-01-29 06:20": "2026-01-29T05:20:00Z", "2026-01-29": "2026-01-28T23:00:00Z", "2026-03-29 06:20:00+00:00": "2026-03-29T06:20:00Z",
		"2026-03-29 06:20:00 +0100": "2026-03-29T05:20:00Z", "2026-03-29 06:20:00Z": "2026-03-29T06:20:00Z", "2026-03-29T06:20:00+0100": "2026-03-29T05:20:00Z",
		"2026-03-29 06:20:00+00": "2026-03-29T06:20:00Z", "1500": "1970-01-01T00:00:01.5Z",
		// Other usual forms. January has UTC+1.
		"1/31/2026 6:20": "2026-01-31T05:20:00Z", "1/31/26 06:20": "2026-01-31T05:20:00Z", "31/1/2026 06:20:05": "2026-01-31T05:20:05Z", "31.01.2026 06:20": "2026-01-31T05:20:00Z",
		"2.1.2026": "2026-01-01T23:00:00Z", "2/1/2026": "2026-01-31T23:00:00Z", "02-01-2026": "2026-01-01T23:00:00Z", "2026/01/31 06:20": "2026-01-31T05:20:00Z",
		"1/31/2026, 6:20:05 PM": "2026-01-31T17:20:05Z", "2026-01-31 12:05 am": "2026-01-30T23:05:00Z",
		"Jan 31, 2026": "2026-01-30T23:00:00Z", "January 31, 2026 at 06:20": "2026-01-31T05:20:00Z", "31 Jan 2026": "2026-01-30T23:00:00Z", "31-Jan-26 06:20": "2026-01-31T05:20:00Z",
		"Sat, 31 Jan 2026 06:20:05 GMT": "2026-01-31T06:20:05Z", "Sat Jan 31 06:20:05 2026": "2026-01-31T05:20:05Z", "Sat Jan 31 06:20:05 +0000 2026": "2026-01-31T06:20:05Z",
		"Sat Jan 31 06:20:05 CET 2026": "2026-01-31T05:20:05Z", "31/Jan/2026:06:20:05 -0200": "2026-01-31T08:20:05Z", "20260131T062005Z": "2026-01-31T06:20:05Z", "20260131 0620": "2026-01-31T05:20:00Z",
		"2026-01-31T06:20:05,25Z": "2026-01-31T06:20:05.25Z", "2026-01-31 06:20:05 UTC": "2026-01-31T06:20:05Z", "2026-01-31T06:20:05+01:00[Europe/Oslo]": "2026-01-31T05:20:05Z",
		"2026-01-31T06": "2026-01-31T05:00:00Z", " 2026-01-31 ": "2026-01-30T23:00:00Z", "31 January 2026, 06:20": "2026-01-31T05:20:00Z", "2026-Jan-31": "2026-01-30T23:00:00Z",
	} {
		d, ok := in.eventTime([]byte(text), event.OrderUnknown)
		must.True(t, ok && d.ms == at(want), "%q: %s, %t, want %s", text, time.UnixMilli(d.ms).UTC(), ok, want)
	}
	for _, text := range []string{"", "x", "2026", "2026-13-01", "2026-01-29 25:00:00", "2026-01-29 06:20:00 Oslo", "2026-01-29 06:20:00x", "192.168.1.1", "1.2.3", "12-34-5678", "30/2/2026", "32.1.2026", "555-123-4567", "May be 5 of 2026", "Sat 5", "2026-01", "10/2026", "3/4 cup of 2026"} {
		d, ok := in.eventTime([]byte(text), event.OrderUnknown)
		must.True(t, !ok || text == "2026", "%q: %s", text, time.UnixMilli(d.ms).UTC())
	}
}

// TestEpoch checks which numbers are times: epochs in four units, and the digits of dates in five forms.
func TestEpoch(t *testing.T) {
	for x, want := range map[float64]string{
		893286638: "1998-04-22T23:10:38Z", 1704134640000: "2024-01-01T18:44:00Z", 1704134640000000: "2024-01-01T18:44:00Z", 1.70413464e18: "2024-01-01T18:44:00Z",
		20240229: "2024-02-29T00:00:00Z", 20240101184407: "2024-01-01T18:44:07Z", 202401011844: "2024-01-01T18:44:00Z", 2024010118: "2024-01-01T18:00:00Z", 2401011844: "2024-01-01T18:44:00Z",
		1899999999: "2030-03-17T17:46:39Z", 893286638000: "1998-04-22T23:10:38Z",
		2024130118: "2034-02-21T10:21:58Z", 202402301844: "1976-05-31T14:51:41.844Z", // no date, so an epoch
		20240230: "", 20240101250000: "", 12345: "", 7.5: "", -1704134640: "", 5e9: "", 1e30: "",
	} {
		ms, ok := epoch(x, time.UTC)
		got := time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
		must.True(t, ok == (want != "") && (!ok || got == want), "%.0f: %s %v, want %q", x, got, ok, want)
	}
}

// TestTimeFeatures checks that the hour and the weekday of a time, and its age at record.time, are features in every
// format with fields.
func TestTimeFeatures(t *testing.T) {
	base := DefaultConfig()
	base.Label, base.Unlabeled, base.Time, base.TimeFeatures, base.Columns = "", true, "at", []string{"at", "user.born"}, []string{"user.born", "at", "x"}
	const want = "? time=1774765200000 user.born.age:86400:n x:1:n at.hour=6:1:c at.weekday=Sunday:1:c user.born.hour=6:1:c user.born.weekday=Saturday:1:c"
	for format, values := range map[string][]string{
		"json": {
			`{"user":{"born":"2026-03-28 06:20:00"},"at":"2026-03-29T06:20:00Z","x":1}`,
			`{"at":"2026-03-29T06:20:00Z","user.born":"2026-03-28T06:20:00Z","x":1}`,
			`{"at":1774765200000,"x":1,"user":{"born":1774678800000}}`,
		},
		"csv": {"2026-03-28 06:20:00,2026-03-29T06:20:00Z,1", "1774678800000,1774765200000,1"},
	} {
		for _, value := range values {
			c := base
			c.Format = format
			got := shown(t, c, value)
			must.True(t, sameWords(got, want), "%s %s:\n got %s\nwant %s", format, value, got, want)
		}
	}
	wire := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[{"name":"born","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"made","type":"string"}]}`})
	wire.ID, wire.Time, wire.Weight, wire.Text, wire.Ngrams, wire.TimeFeatures = "", "", "", nil, 1, []string{"born", "made"}
	value := append([]byte("\x00\x00\x00\x00\x01"), binary.AppendVarint(nil, 1774678800000000)...)
	got := shown(t, wire, string(append(value, "\x262026-03-29 07:20:00"...)))
	must.True(t, sameWords(got, "? born.hour=6:1:c born.weekday=Saturday:1:c made.hour=7:1:c made.weekday=Sunday:1:c"), "avro: %s", got)

	c := base
	c.Format, c.Timezone = "json", "America/New_York"
	got = shown(t, c, `{"at":"2026-03-29 20:00:00","user":{"born":null},"x":"a"}`)
	must.True(t, sameWords(got, "? time=1774828800000 x=a:1:c at.hour=20:1:c at.weekday=Sunday:1:c"), "New York: %s", got)
	must.Equal(t, shown(t, c, `{"at":1,"user":{"born":"x"}}`), "syntax", "no time")
	// A null time is missing once the features exist. A record without record.time has no age.
	_, d := newDecoder(t, c)
	var e event.Example
	for _, value := range []string{`{"at":"2026-03-29 20:00:00","user":{"born":"2026-03-29"}}`, `{"at":"2026-03-29 20:00:00","user":{"born":null}}`} {
		d.Decode(t.Context(), Record{Value: []byte(value)}, &e)
	}
	must.Equal(t, len(e.Missing), 3, "missing fields of a null time: hour, weekday and age", e.Missing)
	again, err := ParseSettings(c.Settings())
	must.True(t, err == nil && again.Timezone == c.Timezone && len(again.TimeFeatures) == 2, "%+v, %v", again, err)
	for key, change := range map[string]func(*Config){
		"timezone":      func(c *Config) { c.Timezone = "Mars/Olympus" },
		"time_features": func(c *Config) { c.Drop = []string{"user.born"} },
	} {
		c := base
		change(&c)
		var e *event.KeyError
		err := c.Check()
		must.True(t, errors.As(err, &e) && e.Key == key, "%s: %v", key, err)
	}
}
