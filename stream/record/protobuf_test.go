package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/twmb/franz-go/pkg/sr"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/registry"
)

// wildProto is a schema that uses every feature of schemas.
const wildProto = `syntax = "proto2";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message E {
	enum Hue { RED = 3; BLUE = 1; }
	message In { optional int32 a = 1; repeated In in = 2; optional string s = 3; optional In one = 4; }
	optional string late = 20;
	optional double d = 1 [default = 2.5];
	optional float f = 2;
	optional sint32 s32 = 3;
	optional sint64 s64 = 4;
	optional fixed32 f32 = 5;
	optional sfixed64 sf64 = 6;
	repeated uint32 packed = 7 [packed = true];
	repeated bool loose = 8;
	map<string, In> named = 9;
	map<sint32, Hue> hues = 10;
	oneof either { In in = 11; string text = 12; bool flag = 13; }
	optional In merged = 14;
	repeated group Item = 15 { optional int64 n = 1; }
	optional google.protobuf.Timestamp at = 16;
	optional google.protobuf.Duration took = 17;
	optional google.protobuf.StringValue maybe = 18;
	repeated google.protobuf.Int32Value several = 19;
	repeated Hue many = 21;
	repeated bytes raw = 22;
	optional In debug = 23;
	optional int32 w = 24;
}`

// slowProtobuf returns a slow reference decoder, which reads the messages of the protobuf library.
func slowProtobuf(c core) (Decoder, error) {
	return newWire(c, "PROTOBUF", func(s *registry.Schema) (valueDecoder, error) {
		file, err := compileProtobuf(s)
		if err != nil {
			return nil, err
		}
		return func(d *places, value []byte) bool {
			kind, value, ok := messageOf(file, value)
			if !ok {
				return d.fail(event.ReasonSyntax, "it does not begin with the number of a message of its schema")
			}
			m := dynamicpb.NewMessage(kind)
			if err := unmarshal(value, m); err != nil {
				return d.fail(event.ReasonSyntax, "%v", err)
			}
			return (&slowReader{d}).message(m, d.root)
		}, nil
	})
}

// unmarshal decodes a message. It converts a panic of the library, for a map entry whose key repeats with another wire
// type, to an error.
func unmarshal(value []byte, m proto.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("proto: %v", r)
		}
	}()
	return proto.UnmarshalOptions{RecursionLimit: maxDepth}.Unmarshal(value, m)
}

type slowReader struct{ *places }

// message adds the fields of a message. An omitted field is missing if its presence is recorded. Otherwise it has its
// default value.
func (d *slowReader) message(m protoreflect.Message, p *place) bool {
	kind := m.Descriptor()
	fields := kind.Fields()
	known := d.fields(p, kind, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		at := known[i]
		if at == nil {
			if at = d.newField(p, known, i, string(f.Name())); at == nil {
				return false
			}
		}
		ok := true
		switch value := m.Get(f); {
		case f.IsMap():
			ok = d.several(at) && d.mapField(f, value.Map(), at)
		case f.IsList():
			ok = d.several(at) && d.list(f, value.List(), at)
		case f.HasPresence() && !m.Has(f):
			ok = d.null(at)
		default:
			ok = d.value(f, value, at, false)
		}
		if !ok {
			return false
		}
	}
	return !d.tooMany() || d.tooManyFeatures()
}

func (d *slowReader) list(f protoreflect.FieldDescriptor, list protoreflect.List, p *place) bool {
	word := f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind || f.Kind() == protoreflect.EnumKind
	for i := range list.Len() {
		at := p
		if !word {
			at = d.element(p, i)
		}
		if at == nil || !d.value(f, list.Get(i), at, word) {
			return false
		}
		if d.tooMany() {
			return d.tooManyFeatures()
		}
	}
	return true
}

func (d *slowReader) mapField(f protoreflect.FieldDescriptor, m protoreflect.Map, p *place) bool {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) }) // Range is unordered
	for _, k := range keys {
		at := d.key(p, []byte(k.String()))
		if at == nil || !d.value(f.MapValue(), m.Get(k), at, false) {
			return false
		}
		if d.tooMany() {
			return d.tooManyFeatures()
		}
	}
	return true
}

func (d *slowReader) value(f protoreflect.FieldDescriptor, v protoreflect.Value, p *place, word bool) bool {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return d.boolean(p, v.Bool())
	case protoreflect.StringKind:
		return d.text(p, []byte(v.String()), word)
	case protoreflect.BytesKind:
		return d.text(p, v.Bytes(), word)
	case protoreflect.EnumKind:
		if symbol := f.Enum().Values().ByNumber(v.Enum()); symbol != nil {
			return d.text(p, []byte(symbol.Name()), word)
		}
		return d.text(p, strconv.AppendInt(nil, int64(v.Enum()), 10), word)
	case protoreflect.FloatKind:
		x := v.Float()
		return d.number(p, x, func(b []byte) []byte { return strconv.AppendFloat(b, x, 'g', -1, 32) })
	case protoreflect.DoubleKind:
		return d.float(p, v.Float())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		x := v.Uint()
		return d.number(p, float64(x), func(b []byte) []byte { return strconv.AppendUint(b, x, 10) })
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return d.wellKnown(v.Message(), p)
	}
	return d.integer(p, v.Int())
}

// wellKnown adds a nested message. A message that means a single value, such as Google's timestamps, durations and
// wrappers, becomes that value.
func (d *slowReader) wellKnown(m protoreflect.Message, p *place) bool {
	kind := m.Descriptor()
	number := func(i int) int64 { return m.Get(kind.Fields().Get(i)).Int() }
	switch kind.FullName() {
	case "google.protobuf.Timestamp":
		return d.integer(p, number(0)*1000+number(1)/int64(time.Millisecond))
	case "google.protobuf.Duration":
		return d.float(p, float64(number(0))+float64(number(1))/1e9)
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue":
		f := kind.Fields().Get(0)
		return d.value(f, m.Get(f), p, false)
	}
	return d.several(p) && d.message(m, p)
}

func protobufPair(t testing.TB, text string) (fast, slow Decoder) {
	c := wireConfig(t, "protobuf", sr.Schema{Schema: text, Type: sr.TypeProtobuf})
	schema := c.Schema() // shared by both decoders: a record that only one refuses would make separate Schemas differ
	fast = must.Get(NewDecoder(c, schema))(t)
	slow = must.Get(slowProtobuf(newCore(c, schema)))(t)
	return fast, slow
}

// FuzzProtobuf compares the decoder with the library. Only parts that the decoder does not read may be damaged: dropped
// fields and replaced members of a oneof.
func FuzzProtobuf(f *testing.F) {
	field := func(b []byte, n protowire.Number, value any) []byte {
		switch v := value.(type) {
		case int:
			return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case float64:
			return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v))
		case float32:
			return protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), math.Float32bits(v))
		}
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), []byte(fmt.Sprint(value)))
	}
	in := func(a int, s string) string { return string(field(field(nil, 1, a), 3, s)) }
	var all []byte
	for _, x := range []struct {
		n     protowire.Number
		value any
	}{{20, "late"}, {1, 1.5}, {1, 2.5}, {2, float32(0.1)}, {3, 7}, {4, 8}, {5, float32(1)}, {6, 3.0}, {7, "\x01\x02\x80\x01"}, {7, 9}, {8, 1}, {8, 0}, {8, "\x01\x00"},
		{9, string(field(field(nil, 1, "key"), 2, in(1, "one")))}, {9, string(field(field(nil, 2, in(3, "x")), 1, "a"))}, {9, string(field(nil, 1, "key"))}, {9, ""},
		{10, string(field(field(nil, 1, 3), 2, 1))}, {10, string(field(nil, 1, 4))}, {11, in(1, "a")}, {12, "text"}, {11, in(2, "")}, {11, in(3, "c")},
		{14, in(4, "m")}, {14, string(field(nil, 2, in(5, "n")))}, {14, in(6, "")}, {16, string(field(field(nil, 1, 1767225600), 2, 5000000))}, {17, string(field(field(nil, 2, 500000000), 1, 3))},
		{18, string(field(nil, 1, "a value"))}, {19, string(field(nil, 1, 3))}, {19, ""}, {21, 1}, {21, 3}, {21, 77}, {22, "raw"}, {24, 2}, {99, "unknown"}, {23, in(1, "dropped")}, {1, "of another type"}} {
		all = field(all, x.n, x.value)
		f.Add(field(nil, x.n, x.value))
		f.Add(slices.Clone(all))
	}
	group := protowire.AppendTag(field(protowire.AppendTag(nil, 15, protowire.StartGroupType), 1, 12), 15, protowire.EndGroupType)
	f.Add(slices.Concat(group, all, group, all))
	f.Add([]byte("\x5b\x5c\x0b"))
	fast, slow := protobufPair(f, wildProto)
	f.Fuzz(func(t *testing.T, value []byte) {
		r := Record{Value: append([]byte{0, 0, 0, 0, 1, 0}, value...)}
		var got, want event.Example
		for range 2 { // in the second round the fields are known
			got, want = event.Example{}, event.Example{}
			fast.Decode(t.Context(), r, &got)
			slow.Decode(t.Context(), r, &want)
		}
		if want.Refused != nil && (want.Refused.Reason == event.ReasonSyntax && strings.Contains(want.Refused.Detail, "proto:") || got.Refused != nil) {
			t.Skip() // parts that the decoder does not read may be damaged
		}
		must.Do(t, sameEvents(&got, &want), value)
	})
}

// TestWireBudget checks that the cost of a record is proportional to its size, whatever the record repeats, omits, or
// encodes in zero bytes.
func TestWireBudget(t *testing.T) {
	longtest.NotRaced(t)
	size := must.Either(longtest.Asked(), 4<<20, 2<<20)
	var wide strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&wide, " optional int32 f%d = %d;", i, i+1)
	}
	schema := `syntax = "proto3"; message Wide {` + wide.String() + `} message E { repeated Wide wide = 1; repeated bool bools = 2; repeated string words = 3; map<string, E> named = 4; E one = 5;
		map<string, int32> counts = 6; oneof either { string a = 7; string b = 8; E c = 9; } repeated E list = 10; }`
	avroSchema := `{"type":"record","name":"E","fields":[{"name":"nulls","type":{"type":"array","items":{"type":"array","items":"null"}}},
		{"name":"wide","type":{"type":"array","items":{"type":"record","name":"Wide","fields":[` + strings.TrimSuffix(strings.Repeat(`{"name":"X","type":"null"},`, 2000), ",") + `]}}}]}`
	for i := range 2000 {
		avroSchema = strings.Replace(avroSchema, `"X"`, fmt.Sprintf(`"f%d"`, i), 1)
	}
	nested := func(depth int) (b []byte) { // each message is split into two parts
		b = []byte(strings.Repeat("\x12\x01\x01", size/3))
		for range depth {
			half := 3 * (len(b) / 6)
			b = append(protowire.AppendBytes([]byte{5<<3 | 2}, b[:half]), protowire.AppendBytes([]byte{5<<3 | 2}, b[half:])...)
		}
		return b
	}
	const lets = " lets go of what it takes" // the decoder frees memory, so its total may exceed the limit
	for _, c := range []struct {
		name, format string
		value        []byte
		learned      bool
	}{
		{"empty messages", "protobuf", bytes.Repeat([]byte{1<<3 | 2, 0}, size/2), false},
		{"few empty messages of many fields" + lets, "protobuf", bytes.Repeat([]byte{1<<3 | 2, 0}, 99_000), false},
		{"packed bools", "protobuf", protowire.AppendBytes([]byte{2<<3 | 2}, make([]byte, size)), false},
		{"packed bools, one a run", "protobuf", bytes.Repeat([]byte{2<<3 | 2, 1, 0}, size/3), false},
		{"empty runs of bools", "protobuf", bytes.Repeat([]byte{2<<3 | 2, 0}, size/2), false},
		{"empty strings", "protobuf", bytes.Repeat([]byte{3<<3 | 2, 0}, size/2), false},
		{"empty entries of a map", "protobuf", bytes.Repeat([]byte{4<<3 | 2, 0}, size/2), false},
		{"numbers in a map", "protobuf", bytes.Repeat([]byte{6<<3 | 2, 2, 2 << 3, 1}, size/4), false},
		{"pieces of a message", "protobuf", bytes.Repeat([]byte{5<<3 | 2, 0}, size/2), false},
		{"pieces of pieces", "protobuf", nested(50), false},
		{"members of a oneof in turn", "protobuf", bytes.Repeat([]byte{7<<3 | 2, 0, 8<<3 | 2, 0, 9<<3 | 2, 0}, size/6), false},
		{"unknown fields", "protobuf", bytes.Repeat([]byte{15 << 3, 0}, size/2), true},
		{"lists in a list", "protobuf", bytes.Repeat([]byte{10<<3 | 2, 4, 10<<3 | 2, 0, 10<<3 | 2, 0}, size/6), false},
		{"nulls of no byte" + lets, "avro", bytes.Repeat([]byte{2, 0xa0, 0x8d, 6, 0}, size/5), false}, // blocks of an array with 50,000 nulls
		{"records of no byte" + lets, "avro", append(append([]byte{0}, binary.AppendVarint(nil, 99_000)...), 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := must.Either(c.format == "avro", 2, byte(1))
			config := wireConfig(t, c.format, sr.Schema{Schema: schema, Type: sr.TypeProtobuf}, sr.Schema{Schema: avroSchema, Type: sr.TypeAvro})
			d := must.Get(NewDecoder(config, config.Schema()))(t)
			header := []byte{0, 0, 0, 0, id}
			if c.format == "protobuf" {
				header = append(header, 2, 2) // message index 1
			}
			record := Record{Value: append(header, c.value...)}
			var e event.Example
			d.Decode(t.Context(), Record{Value: header}, &e) // compile the schema first
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d.Decode(t.Context(), record, &e)
			runtime.ReadMemStats(&after)
			took, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+8*len(record.Value))
			must.True(t, took <= most || strings.HasSuffix(c.name, lets), "a record of %d bytes took %d, want %d at most", len(record.Value), took, most)
			refused := e.Refused != nil
			must.True(t, refused != c.learned, "%v", e.Refused)
		})
	}
}

// TestProtobufOfStrangers checks that malicious records and schemas are refused or read, including records with which
// the library panics.
func TestProtobufOfStrangers(t *testing.T) {
	for _, c := range []struct{ schema, value, refused string }{
		{`syntax = "proto2"; message E { required int32 a = 1; }`, "", "the required field"},
		{`syntax = "proto2"; message E { required int32 a = 1; }`, "\x08\x01", ""},
		{`syntax = "proto3"; message E { map<string, string> m = 1; }`, "\x0a\x05\x0a\x01k\x08\x01", ""}, // the key is first a string, then a number
		{`syntax = "proto3"; message E { string s = 1; }`, "\x0a\x01\xff", "not UTF-8"},
		{`syntax = "proto3"; package google.protobuf; message E { Timestamp t = 1; StringValue v = 2; Duration d = 3; }
			message Timestamp { string seconds = 1; } message StringValue {} message Duration { repeated int64 a = 1; E b = 2; }`, "\x0a\x03\x0a\x01a\x12\x00\x1a\x02\x08\x01", ""},
		{`syntax = "proto3"; message E { E e = 1; }`, "", ""},
	} {
		fast, _ := protobufPair(t, c.schema)
		e := decoded(fast, "\x00\x00\x00\x00\x01\x00"+c.value)
		must.True(t, (e.Refused != nil) == (c.refused != "") && (e.Refused == nil || strings.Contains(e.Refused.Detail, c.refused)), "%s: %q: %v, want %q", c.schema, c.value, e.Refused, c.refused)
	}
	deep := []byte{}
	for range maxDepth + 1 {
		deep = protowire.AppendBytes([]byte{1<<3 | 2}, deep)
	}
	fast, _ := protobufPair(t, `syntax = "proto3"; message E { E e = 1; }`)
	var e event.Example
	fast.Decode(t.Context(), Record{Value: append([]byte{0, 0, 0, 0, 1, 0}, deep...)}, &e)
	must.True(t, e.Refused != nil, "a record that nests too deep was read")
}
