package record

// This file holds the format Protobuf.

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"blankout"
	"blankout/registry"
)

func newProtobuf(c core) (Decoder, error) {
	return newWire(c, "PROTOBUF", func(s *registry.Schema) (valueDecoder, error) {
		file, err := compileProtobuf(s)
		if err != nil {
			return nil, err
		}
		return func(d *places, value []byte) bool {
			kind, value, ok := messageOf(file, value)
			if !ok {
				return d.fail(blankout.ReasonSyntax, "it does not begin with the number of a message of its schema")
			}
			m := dynamicpb.NewMessage(kind)
			if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(value, m); err != nil {
				return d.fail(blankout.ReasonSyntax, "%v", err)
			}
			return d.message(m, d.root)
		}, nil
	})
}

// mainFile is what the schema itself is called among the files that it imports.
const mainFile = "registered.proto"

// compileProtobuf returns the file that a schema is.
func compileProtobuf(s *registry.Schema) (protoreflect.FileDescriptor, error) {
	texts := map[string]string{mainFile: s.Text}
	for _, r := range s.References {
		texts[r.Name] = r.Text
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)})}
	files, err := c.Compile(context.Background(), mainFile)
	if err != nil {
		return nil, err
	}
	if files[0].Messages().Len() == 0 {
		return nil, fmt.Errorf("it has no message")
	}
	return files[0], nil
}

// messageOf reads which message of a file a value is: the numbers of the messages from the
// outermost to the one that is meant, behind how many there are; a single 0 stands for the
// first message.
func messageOf(file protoreflect.FileDescriptor, value []byte) (m protoreflect.MessageDescriptor, rest []byte, ok bool) {
	depth, n := binary.Varint(value)
	if n <= 0 || depth < 0 || depth > maxDepth {
		return nil, nil, false
	}
	value = value[n:]
	if depth == 0 {
		return file.Messages().Get(0), value, true
	}
	within := file.Messages()
	for range depth {
		i, n := binary.Varint(value)
		if n <= 0 || i < 0 || i >= int64(within.Len()) {
			return nil, nil, false
		}
		value, m = value[n:], within.Get(int(i))
		within = m.Messages()
	}
	return m, value, true
}

// message adds the fields of a message. A field that is left out is missing if its presence
// is recorded; any other has its default.
func (d *places) message(m protoreflect.Message, p *place) bool {
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

func (d *places) list(f protoreflect.FieldDescriptor, list protoreflect.List, p *place) bool {
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

func (d *places) mapField(f protoreflect.FieldDescriptor, m protoreflect.Map, p *place) bool {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) }) // Range has no order
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

func (d *places) value(f protoreflect.FieldDescriptor, v protoreflect.Value, p *place, word bool) bool {
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

// wellKnown adds a message within one. Those that stand for a single value, as Google's
// time stamps, durations and wrappers do, are that value.
func (d *places) wellKnown(m protoreflect.Message, p *place) bool {
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
