package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/registry"
)

const shopSchema = `{"type":"record","name":"Event","namespace":"shop","fields":[
	{"name":"label","type":{"type":"enum","name":"Verdict","symbols":["ham","spam"]}},
	{"name":"amount","type":"double"},
	{"name":"count","type":["null","long"],"default":null},
	{"name":"zip","type":"int"},
	{"name":"country","type":"string"},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"verdicts","type":{"type":"array","items":["null","Verdict"]}},
	{"name":"scores","type":{"type":"array","items":["null","float"]}},
	{"name":"attrs","type":{"type":"map","values":["double","string","boolean","null"]}},
	{"name":"user","type":["null",{"type":"record","name":"User","fields":[
		{"name":"age","type":"int"},{"name":"vip","type":"boolean"},{"name":"friend","type":["null","User"]}]}]},
	{"name":"either","type":["User","Verdict","double"]},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"code","type":{"type":"fixed","name":"Code","size":3}},
	{"name":"body","type":"string"},
	{"name":"debug","type":{"type":"record","name":"Debug","fields":[{"name":"label","type":"string"}]}},
	{"name":"w","type":"float"},
	{"name":"id","type":["string","long"]}]}`

// wireConfig returns settings for a format, with a registry that has the given schemas.
func wireConfig(t testing.TB, format string, schemas ...sr.Schema) Config {
	fake := srfake.New()
	t.Cleanup(fake.Close)
	for i, s := range schemas {
		fake.SeedSchema("events-value", i+1, i+1, s)
	}
	client := must.Get(registry.New(registry.Config{URL: event.Address(fake.URL())}, nil))(t)
	c := DefaultConfig()
	c.Format, c.Registry = format, client
	c.Time, c.Weight, c.ID, c.Drop, c.Text, c.Ngrams, c.Categorical = "at", "w", "id", []string{"debug"}, []string{"body"}, 2, []string{"zip"}
	return c
}

// decoders returns a decoder for the wire format, and a JSON decoder that uses the same Schema.
func decoders(t *testing.T, c Config) (s *event.Schema, wire, plain Decoder) {
	s = c.Schema()
	wire = must.Get(NewDecoder(c, s))(t)
	c.Format = "json"
	plain = must.Get(NewDecoder(c, s))(t)
	return s, wire, plain
}

// sameEvents returns an error that describes the differences between two decodings with one Schema.
func sameEvents(a, b *event.Example) error {
	switch {
	case a.Refused != nil || b.Refused != nil:
		return fmt.Errorf("refused: %v, %v", a.Refused, b.Refused)
	case !slices.Equal(a.Features.Index, b.Features.Index) || !slices.Equal(a.Features.Value, b.Features.Value) || !slices.Equal(a.Field, b.Field):
		return fmt.Errorf("features %v %v, want %v %v", a.Features, a.Field, b.Features, b.Field)
	case !slices.Equal(a.Missing, b.Missing):
		return fmt.Errorf("missing %v, want %v", a.Missing, b.Missing)
	case a.Label != b.Label || a.Weight != b.Weight || a.Time != b.Time || string(a.Key) != string(b.Key):
		return fmt.Errorf("label %d, weight %v, time %d, key %q; want %d %v %d %q", a.Label, a.Weight, a.Time, a.Key, b.Label, b.Weight, b.Time, b.Key)
	}
	return nil
}

// TestAvroIsAsJSON checks that an event that another library has encoded as Avro equals the same object in JSON.
func TestAvroIsAsJSON(t *testing.T) {
	c := wireConfig(t, "avro", sr.Schema{Schema: shopSchema, Type: sr.TypeAvro})
	s, d, j := decoders(t, c)
	schema := avro.MustParse(shopSchema)
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string { return []string{"a", "été", "x y", "", "null", "Long word"}[rng.IntN(6)] }
	maybe := func(x any) any {
		if rng.IntN(3) == 0 {
			return nil
		}
		return x
	}
	user := func(friend any) map[string]any {
		return map[string]any{"age": rng.IntN(99), "vip": rng.IntN(2) == 0, "friend": friend}
	}
	for round := range 500 {
		in := map[string]any{
			"label": []string{"ham", "spam"}[rng.IntN(2)], "amount": rng.NormFloat64() * math.Pow(10, float64(rng.IntN(20)-10)), "count": maybe(rng.Int64() - rng.Int64()),
			"zip": rng.IntN(99999), "country": word(), "tags": []any{}, "verdicts": []any{}, "scores": []any{}, "attrs": map[string]any{}, "user": nil, "either": 2.5,
			"price": float64(rng.IntN(100000)-50000) / 100, "at": 1767225600000 + int64(round), "code": []string{"abc", "XYZ"}[rng.IntN(2)], "body": word() + " " + word() + ", " + word(),
			"debug": map[string]any{"label": "no label"}, "w": float64(rng.IntN(8)) / 4, "id": any("k" + word()),
		}
		for range rng.IntN(4) {
			in["tags"] = append(in["tags"].([]any), word())
			in["verdicts"] = append(in["verdicts"].([]any), maybe("spam"))
			in["scores"] = append(in["scores"].([]any), maybe(float64(float32(rng.NormFloat64()))))
			in["attrs"].(map[string]any)[word()+fmt.Sprint(rng.IntN(3))] = []any{1.5, word(), true, nil}[rng.IntN(4)]
		}
		if rng.IntN(2) == 0 {
			in["user"] = user(maybe(user(nil)))
		}
		switch rng.IntN(3) {
		case 0:
			in["either"] = user(nil)
		case 1:
			in["either"] = "ham"
		}
		if rng.IntN(2) == 0 {
			in["id"] = any(int64(rng.IntN(1000)))
		}
		object := must.Get(json.Marshal(in))(t)
		in["at"] = in["at"].(int64) * 1000
		in["price"] = json.Number(fmt.Sprintf("%.2f", in["price"]))
		in["code"] = []byte(in["code"].(string))
		value := must.Get(schema.AppendEncode([]byte{0, 0, 0, 0, 1}, in))(t)
		var got, want event.Example
		// Decode the JSON first to add its fields, because Avro and JSON order a map's keys differently.
		j.Decode(t.Context(), Record{Value: object}, &want)
		for range 2 {
			must.Do(t, d.Decode(t.Context(), Record{Value: value, Offset: int64(round)}, &got))
			want = event.Example{}
			j.Decode(t.Context(), Record{Value: object, Offset: int64(round)}, &want)
		}
		must.Do(t, sameEvents(&got, &want), object)
		// Damaged bytes must be refused or read, and must leave nothing behind.
		fields := len(s.Fields)
		damaged := slices.Clone(value)
		if rng.IntN(2) == 0 {
			damaged = damaged[:5+rng.IntN(len(damaged)-5)]
		} else {
			damaged[5+rng.IntN(len(damaged)-5)] ^= 1 << rng.IntN(8)
		}
		e := decoded(d, damaged)
		err := e.Features.Check()
		must.Require(t, err == nil && (e.Refused == nil || len(s.Fields) == fields && e.Features.Len() <= 0), "%v, %d fields, %d before", err, len(s.Fields), fields)
		d.Decode(t.Context(), Record{Value: value, Offset: int64(round)}, &got)
		must.Do(t, sameEvents(&got, &want), "after a damaged record")
	}
}

func total(e *event.Example) float64 { return must.Sum(e.Features.Value) }

// TestAvroEvolves checks schemas that refer to other schemas, and later versions that add and remove fields. A field
// that a version does not have must be missing, like an omitted field.
func TestAvroEvolves(t *testing.T) {
	place := sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"geo.Place","fields":[{"name":"lat","type":"double"}]}`}
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("place", 1, 10, place)
	for i, fields := range []string{`{"name":"at","type":"geo.Place"}`, `{"name":"at","type":"geo.Place"},{"name":"new","type":"double","default":1}`, `{"name":"new","type":["double","null"]}`} {
		fake.SeedSchema("events-value", i+1, i+1, sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[` + fields + `]}`,
			References: []sr.SchemaReference{{Name: "geo.Place", Subject: "place", Version: 1}}})
	}
	fake.SeedSchema("events-value", 4, 4, sr.Schema{Type: sr.TypeAvro, Schema: `"string"`})
	client := must.Get(registry.New(registry.Config{URL: event.Address(fake.URL())}, nil))(t)
	c := DefaultConfig()
	c.Format, c.Registry = "avro", client
	s, d := newDecoder(t, c)
	double := func(x float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)) }
	var e event.Example
	for i, value := range [][]byte{double(1), append(double(1), double(7)...), append([]byte{0}, double(8)...)} {
		err := d.Decode(t.Context(), Record{Value: append([]byte{0, 0, 0, 0, byte(i + 1)}, value...)}, &e)
		must.Require(t, err == nil && e.Refused == nil, "%v %v", err, e.Refused)
		must.Equal(t, total(&e), []float64{1, 8, 8}[i], "the sum of the features of version", i+1)
	}
	must.True(t, len(s.Fields) == 3 && s.Fields[1].Name == "at.lat" && s.Fields[2].Name == "new", "%+v", s.Fields)
	// Decode the older version again, after the newer version with its default of 1 has been decoded.
	if d.Decode(t.Context(), Record{Value: append([]byte{0, 0, 0, 0, 1}, double(5)...)}, &e); e.Refused != nil || total(&e) != 5 || slices.Contains(e.Field, 2) {
		t.Errorf("a record of version 1 has features of sum %v of the fields %v: the default of a later version is no reading", total(&e), e.Field)
	}
	d.Decode(t.Context(), Record{Value: []byte{0, 0, 0, 0, 3, 2}}, &e)
	must.True(t, e.Refused == nil && slices.Equal(e.Missing, []uint16{2}), "null: %v, %v", e.Missing, e.Refused)
	for value, want := range map[string]event.Reason{
		"": event.ReasonSyntax, "{}": event.ReasonSchemaFormat, "\x00\x00\x00": event.ReasonSchemaFormat,
		"\x00\x00\x00\x00\x04\x02a": event.ReasonSchema, "\x00\x00\x00\x00\x01": event.ReasonSyntax, "\x00\x00\x00\x00\x01123456789": event.ReasonSyntax,
	} {
		refuses(t, d, value, want)
	}
	d.Decode(t.Context(), Record{Value: []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xf0\x7f")}, &e)
	must.True(t, e.Refused == nil && e.NotFinite == 1 && e.Features.Len() <= 0, "an infinity: %+v, %v", e, e.Refused)
	d.Decode(t.Context(), Record{}, &e)
	must.True(t, e.Refused != nil && e.Refused.Reason == event.ReasonTombstone, "no value: %v", e.Refused)
}

const shopProto = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Other { double x = 1; }
message Event {
	enum Verdict { HAM = 0; SPAM = 1; }
	message User { int32 age = 1; User friend = 2; }
	Verdict label = 1;
	double amount = 2;
	optional int64 count = 3;
	uint32 zip = 4;
	repeated string tags = 5;
	repeated float scores = 6;
	map<string, double> attrs = 7;
	User user = 8;
	google.protobuf.Timestamp at = 9;
	google.protobuf.DoubleValue maybe = 10;
	bytes code = 11;
	string body = 12;
	oneof either { string text = 13; bool flag = 14; }
	float w = 15;
	string id = 16;
	User debug = 17;
}`

// TestProtobufIsAsJSON checks that an event encoded as Protobuf equals the object in JSON. Fields without presence have
// their defaults.
func TestProtobufIsAsJSON(t *testing.T) {
	c := wireConfig(t, "protobuf", sr.Schema{Schema: shopProto, Type: sr.TypeProtobuf})
	_, d, j := decoders(t, c)
	// The encoder uses the first message of the schema, but the events are the second message.
	second := strings.Replace(shopProto, "message Other { double x = 1; }", "", 1) + "\nmessage Other { double x = 1; }"
	encoder := must.Get(NewEncoder("event.proto", second))(t)
	for i, c := range []struct{ object, same string }{
		{`{"label":"SPAM","amount":2.5,"count":"-7","zip":80331,"tags":["a","b","a"],"scores":[0.5,-1],"attrs":{"z":1,"a":2},"user":{"age":40,"friend":{"age":3}},
			"at":"2026-01-01T00:00:00.250Z","maybe":4,"code":"YWJj","body":"Two WORDS two","flag":true,"w":0.5,"id":"k1","debug":{"age":7}}`,
			`{"label":"SPAM","amount":2.5,"count":-7,"zip":80331,"tags":["a","b","a"],"scores":[0.5,-1],"attrs":{"a":2,"z":1},"user":{"age":40,"friend":{"age":3,"friend":null}},
			"at":1767225600250,"maybe":4,"code":"abc","body":"Two WORDS two","text":null,"flag":true,"w":0.5,"id":"k1"}`},
		{`{"w":1}`, `{"label":"HAM","amount":0,"count":null,"zip":0,"tags":[],"user":null,"maybe":null,"code":"","body":"","text":null,"flag":null,"w":1,"id":""}`},
		{`{"w":1,"text":"t","attrs":{"b":0},"user":{}}`, `{"label":"HAM","amount":0,"count":null,"zip":0,"attrs":{"b":0},"user":{"age":0,"friend":null},"maybe":null,"code":"","body":"","text":"t","flag":null,"w":1,"id":""}`},
	} {
		value := must.Get(encoder.Encode(1, []byte(c.object)))(t)
		value = slices.Concat(value[:5], []byte{2, 2}, value[6:]) // one message index, which is 1
		var got, want event.Example
		for range 2 {
			must.Do(t, d.Decode(t.Context(), Record{Value: value}, &got))
			want = event.Example{}
			j.Decode(t.Context(), Record{Value: []byte(c.same)}, &want)
		}
		must.Do(t, sameEvents(&got, &want), "event", i)
	}
	for value, want := range map[string]event.Reason{
		"\x02": event.ReasonSyntax, "\x02\x04": event.ReasonSyntax, "\x01\x02": event.ReasonSyntax, "\x02\x02\xff": event.ReasonSyntax,
	} {
		refuses(t, d, "\x00\x00\x00\x00\x01"+value, want)
	}
}

// TestJSONSchema checks that JSON after the header of a schema is decoded as JSON.
func TestJSONSchema(t *testing.T) {
	c := DefaultConfig()
	c.Format = "json-schema"
	_, d := newDecoder(t, c)
	e := decoded(d, "\x00\x00\x00\x00\x09{\"x\":2,\"label\":\"a\"}")
	must.True(t, e.Refused == nil && total(&e) == 2 && e.Label == 0, "%+v", e)
	whole := []byte("\x00\x00\x00\x00\x09{\"x\":")
	d.Decode(t.Context(), Record{Value: whole}, &e)
	must.True(t, e.Refused != nil && bytes.Equal(e.Refused.Value, whole), "%+v", e.Refused)
	refuses(t, d, `{"x":2}`, event.ReasonSchemaFormat)
}

// TestWireWithoutRegistry checks that schemas are requested from the configured registry. A decoder without a registry
// must report the setting to change. If its context ends, the record must be returned again.
func TestWireWithoutRegistry(t *testing.T) {
	c := DefaultConfig()
	for _, c.Format = range []string{"avro", "protobuf"} {
		var key *event.KeyError
		_, err := NewDecoder(c, c.Schema())
		must.True(t, errors.As(err, &key) && strings.Contains(err.Error(), "[registry]"), "%s: %v", c.Format, err)
	}
	client := must.Get(registry.New(registry.Config{URL: "http://127.0.0.1:1"}, nil))(t)
	c.Registry = client
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e event.Example
	err := d.Decode(ctx, Record{Value: []byte("\x00\x00\x00\x00\x01a")}, &e)
	must.True(t, errors.Is(err, context.Canceled) && e.Refused == nil, "%v, %v", err, e.Refused)
}

// TestWireDenied checks that records whose schemas the registry denies are refused at once. The registry's status must
// report this until a record can be read.
func TestWireDenied(t *testing.T) {
	c := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[]}`}, sr.Schema{Type: sr.TypeAvro, Schema: `"string"`})
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	var e event.Example
	for id := range byte(20) {
		d.Decode(t.Context(), Record{Value: []byte{0, 0, 0, 0, 2 + id}}, &e)
		must.True(t, e.Refused != nil && e.Refused.Reason == event.ReasonSchema, "schema %d: %v", 2+id, e.Refused)
	}
	why := c.Registry.Status().Refused
	must.True(t, strings.Contains(why, "the last 20 records were refused for their schemas, the latest: schema 21: "), "%q", why)
	d.Decode(t.Context(), Record{Value: []byte{0, 0, 0, 0, 1}}, &e)
	why = c.Registry.Status().Refused
	must.True(t, e.Refused == nil && why == "", "%v, %q", e.Refused, why)
}

// TestAvroLargeSchemas checks that the time to compile a schema with many fields is proportional to their number.
// Otherwise this test would take minutes.
func TestAvroLargeSchemas(t *testing.T) {
	longtest.NotRaced(t)
	var fields strings.Builder
	n := must.Either(longtest.Asked(), 150_000, 50_000)
	for i := range n {
		fmt.Fprintf(&fields, `{"name":"f%d","type":"int"},`, i)
	}
	text := `{"type":"record","name":"E","fields":[` + fields.String() + `{"name":"last","type":"int"}]}`
	must.Equal(t, len(must.Get(compileAvro(&registry.Schema{Text: text}))(t).names), n+1)
	twice := `{"type":"record","name":"E","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`
	must.Fails(t, must.Err(compileAvro(&registry.Schema{Text: twice})), "a record has two fields of one name")
}

// TestWireNames checks that names joined by nesting take no more memory than their limits, and that no name of a
// refused record remains.
func TestWireNames(t *testing.T) {
	c := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[{"name":"m","type":{"type":"map","values":"double"}},{"name":"last","type":"boolean"}]}`})
	c.MaxFields, c.MaxFeatures = 50, 2000
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	record := func(keys int, size int, last byte) []byte {
		value := []byte{0, 0, 0, 0, 1}
		value = binary.AppendVarint(value, int64(keys))
		for i := range keys {
			key := fmt.Sprintf("%0*d", size, i)
			value = binary.AppendVarint(value, int64(len(key)))
			value = append(value, key...)
			value = binary.LittleEndian.AppendUint64(value, math.Float64bits(1))
		}
		return append(value, 0, last)
	}
	var e event.Example
	for i, c := range []struct {
		value []byte
		want  event.Reason
	}{
		{record(1000, 5, 9), event.ReasonSyntax}, {record(1000, 5, 1), ""}, {record(3000, 5, 1), event.ReasonTooMany},
		{record(1, 5000, 1), event.ReasonOversize}, {record(3, 2000, 1), ""},
	} {
		d.Decode(t.Context(), Record{Value: c.value}, &e)
		must.True(t, (e.Refused != nil) == (c.want != "") && (e.Refused == nil || e.Refused.Reason == c.want), "%d bytes: %v, want %q", len(c.value), e.Refused, c.want)
		places := &d.(*wire).places
		must.True(t, places.count <= 50 && len(places.grown) == 0, "%d places are kept", places.count)
		must.True(t, i != 0 || places.count == 0 && places.root.fields[0] == nil, "%d places are kept of the first record, which was refused", places.count)
	}
}

func FuzzAvro(f *testing.F) {
	s := must.Get(compileAvro(&registry.Schema{Type: "AVRO", Text: shopSchema}))(f)
	schema := avro.MustParse(shopSchema)
	c := DefaultConfig()
	c.MaxFeatures = 1000
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		d := newPlaces(newCore(c, c.Schema()))
		r := avroReader{places: &d, data: value}
		ok := s.decode(&r, s, d.root, 1) && r.pos == len(value)
		var any any
		rest, err := schema.Decode(value, &any)
		must.Require(t, !ok || d.failure != "" || err == nil && len(rest) <= 0, "it was read, but the library says: %v", err)
	})
}
