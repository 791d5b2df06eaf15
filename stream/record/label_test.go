package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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
