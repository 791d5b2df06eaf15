package record

// This file implements the format Protobuf.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"blankout/internal/event"
	"blankout/stream/registry"
)

func newProtobuf(c core) (Decoder, error) {
	return newWire(c, "PROTOBUF", func(s *registry.Schema) (valueDecoder, error) {
		file, err := compileProtobuf(s)
		if err != nil {
			return nil, err
		}
		types := protoTypes{}
		var r protoReader
		return func(d *places, value []byte) bool {
			kind, body, ok := messageOf(file, value)
			if !ok {
				return d.fail(event.ReasonSyntax, "it does not begin with the number of a message of its schema")
			}
			r = protoReader{places: d, marks: r.marks[:0], copies: len(body)}
			ok = r.message(types.of(kind), body, d.root, 1)
			if cap(r.marks) > 1<<16 {
				r.marks = nil
			}
			return ok
		}, nil
	})
}

// mainFile is the name of the main schema among the files that it imports.
const mainFile = "registered.proto"

// compileProtobuf returns the file descriptor of a schema.
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

// messageOf returns the message type of a value, and the bytes after its message indices. A value begins with the
// number of message indices and the indices, from the outermost message to the innermost. A single 0 means the first
// message.
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

// protoType describes a message type. Types may refer to themselves.
type protoType struct {
	single   protoreflect.FullName // name of a message that means a single value, see within
	fields   []protoField          // in the order of declaration
	byNumber map[protowire.Number]int
}

type protoField struct {
	protoreflect.FieldDescriptor
	name     string
	kind     protoreflect.Kind
	wire     protowire.Type
	message  *protoType // type of a message, a group or a map entry
	presence bool       // whether absence is recorded
	others   []int      // other fields of its oneof
}

// protoTypes has the message types of a schema that the decoder has used.
type protoTypes map[protoreflect.FullName]*protoType

func (types protoTypes) of(m protoreflect.MessageDescriptor) *protoType {
	if t := types[m.FullName()]; t != nil {
		return t
	}
	fields := m.Fields()
	t := &protoType{fields: make([]protoField, fields.Len()), byNumber: map[protowire.Number]int{}}
	types[m.FullName()] = t
	for i := range t.fields {
		d := fields.Get(i)
		f := protoField{FieldDescriptor: d, name: string(d.Name()), kind: d.Kind(), wire: wireType(d.Kind()), presence: d.HasPresence()}
		if d.Message() != nil {
			f.message = types.of(d.Message())
		}
		if one := d.ContainingOneof(); one != nil {
			for j := range one.Fields().Len() {
				if other := one.Fields().Get(j).Index(); other != i {
					f.others = append(f.others, other)
				}
			}
		}
		t.fields[i], t.byNumber[d.Number()] = f, i
	}
	if standsForOne(m) {
		t.single = m.FullName()
	}
	return t
}

// standsForOne reports whether a message is one of Google's types that mean a single value. It checks the fields,
// because a schema may use these names for other messages.
func standsForOne(m protoreflect.MessageDescriptor) bool {
	f := m.Fields()
	scalar := func(i int) bool { return !f.Get(i).IsList() && f.Get(i).Message() == nil }
	switch m.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		return f.Len() == 2 && scalar(0) && scalar(1) && f.Get(0).Kind() == protoreflect.Int64Kind && f.Get(1).Kind() == protoreflect.Int32Kind
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue":
		return f.Len() == 1 && scalar(0)
	}
	return false
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}

// packs reports whether the elements of a list may be packed.
func (f *protoField) packs() bool {
	return f.IsList() && f.wire != protowire.BytesType && f.wire != protowire.StartGroupType
}

// isWord reports whether an element of a list is a word, rather than a number at its index.
func (f *protoField) isWord() bool {
	return f.kind == protoreflect.StringKind || f.kind == protoreflect.BytesKind || f.kind == protoreflect.EnumKind
}

// protoReader reads messages in place. A protoReader first marks the positions of the fields of a message. The marks
// take at most 8 bytes for two bytes of the record. Then it reads the fields in the order of their declaration. It
// skips dropped fields.
type protoReader struct {
	*places
	marks  []uint64 // marks of the current messages, the outermost message first
	copies int      // number of bytes that may still be copied to merge parts of a message
}

var errWire = errors.New("its bytes are not in the format of Protobuf")

func (r *protoReader) syntax(err error) bool { return r.fail(event.ReasonSyntax, "%v", err) }

// mark returns marks for the fields of a message, in the order of their declaration. A mark is the index of the field
// times 2^32 plus the position of its tag. A field with the wrong wire type counts as unknown. Fields whose places in
// known are dropped are omitted.
func (r *protoReader) mark(t *protoType, body []byte, known []*place) (marks []uint64, ok bool) {
	first, sorted := len(r.marks), true
	for at := 0; at < len(body); {
		number, wire, n := protowire.ConsumeTag(body[at:])
		if n < 0 {
			return nil, r.syntax(errWire)
		}
		size := protowire.ConsumeFieldValue(number, wire, body[at+n:])
		if size < 0 {
			return nil, r.syntax(errWire)
		}
		if i, ok := t.byNumber[number]; ok && (known == nil || known[i] == nil || known[i].role != isDropped) {
			if f := &t.fields[i]; wire == f.wire || wire == protowire.BytesType && f.packs() {
				if len(r.marks)-first >= r.c.MaxFeatures+len(t.fields) {
					return nil, r.tooManyFeatures()
				}
				mark := uint64(i)<<32 | uint64(at)
				sorted = sorted && (len(r.marks) == first || r.marks[len(r.marks)-1] < mark)
				r.marks = append(r.marks, mark)
			}
		}
		at += n + size
	}
	marks = r.marks[first:]
	if !sorted {
		slices.Sort(marks)
	}
	return marks, true
}

// of returns the marks of field i. For a member of a oneof, it returns only marks after the last other member.
func (t *protoType) of(i int, marks []uint64) []uint64 {
	own := marksOf(i, marks)
	if len(own) == 0 {
		return nil
	}
	for _, j := range t.fields[i].others {
		if other := marksOf(j, marks); len(other) > 0 {
			last := uint64(i)<<32 | other[len(other)-1]&math.MaxUint32
			own = own[sort.Search(len(own), func(k int) bool { return own[k] > last }):]
		}
	}
	return own
}

func marksOf(i int, marks []uint64) []uint64 {
	from, _ := slices.BinarySearch(marks, uint64(i)<<32)
	to, _ := slices.BinarySearch(marks[from:], uint64(i+1)<<32)
	return marks[from : from+to]
}

// valueAt returns the number and wire type of the field at a mark, and the bytes after its tag.
func valueAt(body []byte, mark uint64) (number protowire.Number, wire protowire.Type, value []byte) {
	body = body[mark&math.MaxUint32:]
	number, wire, n := protowire.ConsumeTag(body)
	return number, wire, body[n:]
}

// bodyAt returns the bytes of the message, text or packed list at a mark.
func bodyAt(body []byte, mark uint64) []byte {
	number, wire, value := valueAt(body, mark)
	if wire == protowire.StartGroupType {
		value, _ = protowire.ConsumeGroup(number, value)
	} else {
		value, _ = protowire.ConsumeBytes(value)
	}
	return value
}

// message adds the fields of a message. An omitted field is missing if its presence is recorded. Otherwise it has its
// default value.
func (r *protoReader) message(t *protoType, body []byte, p *place, depth int) bool {
	if depth > maxDepth {
		return r.fail(event.ReasonSyntax, "nested deeper than %d", maxDepth)
	}
	if !r.spend(len(t.fields)) {
		return false
	}
	known := r.fields(p, t, len(t.fields))
	for i := range t.fields { // mark needs the places to skip dropped fields
		if known[i] == nil && p.kept && r.count < r.c.MaxFields && r.newField(p, known, i, t.fields[i].name) == nil {
			return false
		}
	}
	first := len(r.marks)
	marks, ok := r.mark(t, body, known)
	if !ok {
		return false
	}
	for i, at := range known {
		f := &t.fields[i]
		if at == nil {
			if at = r.newField(p, known, i, f.name); at == nil {
				return false
			}
		}
		if at.role == isDropped {
			continue
		}
		own := t.of(i, marks)
		switch {
		case f.IsMap():
			ok = r.several(at) && r.mapField(f, own, body, at, depth)
		case f.IsList():
			ok = r.several(at) && r.list(f, own, body, at, depth)
		case len(own) > 0:
			ok = r.single(f, own, body, at, depth)
		case f.Cardinality() == protoreflect.Required:
			ok = r.fail(event.ReasonSyntax, "the required field %.80q is absent", at.name)
		case f.presence:
			ok = r.null(at)
		default:
			ok = r.value(f, f.Default(), at, false)
		}
		if !ok {
			return false
		}
	}
	r.marks = r.marks[:first]
	return !r.tooMany() || r.tooManyFeatures()
}

// single adds a field with one value: the last value, or the merged parts of a message. A message without any value is
// empty.
func (r *protoReader) single(f *protoField, own []uint64, body []byte, p *place, depth int) bool {
	switch {
	case f.message == nil && len(own) == 0:
		return r.value(f, f.Default(), p, false)
	case f.message == nil:
		_, _, value := valueAt(body, own[len(own)-1])
		_, ok := r.scalar(f, value, p, false)
		return ok
	case len(own) == 0:
		return r.within(f.message, nil, p, depth+1)
	case len(own) == 1:
		return r.within(f.message, bodyAt(body, own[0]), p, depth+1)
	}
	var whole []byte
	for _, mark := range own {
		piece := bodyAt(body, mark)
		if r.copies -= len(piece); r.copies < 0 {
			return r.fail(event.ReasonSyntax, "field %.80q: a message in too many pieces", p.name)
		}
		whole = append(whole, piece...)
	}
	return r.within(f.message, whole, p, depth+1)
}

func (r *protoReader) list(f *protoField, own []uint64, body []byte, p *place, depth int) bool {
	word, i := f.isWord(), 0
	element := func() *place {
		if i++; word {
			return p
		}
		return r.element(p, i-1)
	}
	for _, mark := range own {
		_, wire, rest := valueAt(body, mark)
		if wire != f.wire { // a packed list
			rest = bodyAt(body, mark)
		}
		for n, ok := 0, false; len(rest) > 0; rest = rest[n:] {
			at := element()
			if at == nil {
				return false
			}
			if f.message != nil {
				ok = r.within(f.message, bodyAt(body, mark), at, depth+1)
			} else {
				n, ok = r.scalar(f, rest, at, word)
			}
			if !ok {
				return false
			}
			if wire == f.wire {
				break
			}
		}
	}
	return true
}

func (r *protoReader) mapField(f *protoField, own []uint64, body []byte, p *place, depth int) bool {
	type entry struct {
		key   string
		body  []byte
		value []uint64
	}
	first := len(r.marks)
	entries := make([]entry, 0, len(own))
	for _, mark := range own {
		e := entry{body: bodyAt(body, mark)}
		marks, ok := r.mark(f.message, e.body, nil)
		if !ok {
			return false
		}
		e.value = marksOf(1, marks)
		key := f.MapKey().Default()
		if keys := marksOf(0, marks); len(keys) > 0 {
			_, _, value := valueAt(e.body, keys[len(keys)-1])
			if key, _, ok = r.read(&f.message.fields[0], value); !ok {
				return false
			}
		}
		e.key = key.MapKey().String()
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) // maps are unordered
	for i, e := range entries {
		if i+1 < len(entries) && entries[i+1].key == e.key {
			continue // the last value is used
		}
		at := r.key(p, []byte(e.key))
		if at == nil || !r.single(&f.message.fields[1], e.value, e.body, at, depth+1) {
			return false
		}
		if r.tooMany() {
			return r.tooManyFeatures()
		}
	}
	r.marks = r.marks[:first]
	return true
}

// scalar adds the value at the start of b and returns its length.
func (r *protoReader) scalar(f *protoField, b []byte, p *place, word bool) (n int, ok bool) {
	if f.wire == protowire.BytesType {
		text, n := protowire.ConsumeBytes(b)
		if f.kind == protoreflect.StringKind && f.Syntax() == protoreflect.Proto3 && !utf8.Valid(text) {
			return 0, r.fail(event.ReasonSyntax, "field %.80q is not UTF-8", p.name)
		}
		return n, r.text(p, text, word)
	}
	v, n, ok := r.read(f, b)
	if !ok || !r.value(f, v, p, word) {
		return 0, false
	}
	return n, !r.tooMany() || r.tooManyFeatures()
}

// read returns the value at the start of b and its length.
func (r *protoReader) read(f *protoField, b []byte) (v protoreflect.Value, n int, ok bool) {
	var x uint64
	switch f.wire {
	case protowire.BytesType: // the key of a map
		text, n := protowire.ConsumeString(b)
		if f.Syntax() == protoreflect.Proto3 && !utf8.ValidString(text) {
			return v, 0, r.fail(event.ReasonSyntax, "a key is not UTF-8")
		}
		return protoreflect.ValueOfString(text), n, true
	case protowire.Fixed32Type:
		narrow, size := protowire.ConsumeFixed32(b)
		x, n = uint64(narrow), size
	case protowire.Fixed64Type:
		x, n = protowire.ConsumeFixed64(b)
	default:
		x, n = protowire.ConsumeVarint(b)
	}
	switch f.kind {
	case protoreflect.FloatKind:
		v = protoreflect.ValueOfFloat32(math.Float32frombits(uint32(x)))
	case protoreflect.DoubleKind:
		v = protoreflect.ValueOfFloat64(math.Float64frombits(x))
	case protoreflect.BoolKind:
		v = protoreflect.ValueOfBool(protowire.DecodeBool(x))
	case protoreflect.EnumKind:
		v = protoreflect.ValueOfEnum(protoreflect.EnumNumber(x))
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		v = protoreflect.ValueOfInt32(int32(x))
	case protoreflect.Sint32Kind:
		v = protoreflect.ValueOfInt32(int32(protowire.DecodeZigZag(x & math.MaxUint32)))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		v = protoreflect.ValueOfUint32(uint32(x))
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		v = protoreflect.ValueOfInt64(int64(x))
	case protoreflect.Sint64Kind:
		v = protoreflect.ValueOfInt64(protowire.DecodeZigZag(x))
	default:
		v = protoreflect.ValueOfUint64(x)
	}
	return v, n, n > 0 || r.syntax(errWire)
}

// value adds a decoded value as a feature of p.
func (r *protoReader) value(f *protoField, v protoreflect.Value, p *place, word bool) bool {
	switch f.kind {
	case protoreflect.BoolKind:
		return r.boolean(p, v.Bool())
	case protoreflect.StringKind:
		return r.text(p, []byte(v.String()), word)
	case protoreflect.BytesKind:
		return r.text(p, v.Bytes(), word)
	case protoreflect.EnumKind:
		if symbol := f.Enum().Values().ByNumber(v.Enum()); symbol != nil {
			return r.text(p, []byte(symbol.Name()), word)
		}
		return r.text(p, strconv.AppendInt(nil, int64(v.Enum()), 10), word)
	case protoreflect.FloatKind:
		x := v.Float()
		return r.number(p, x, func(b []byte) []byte { return strconv.AppendFloat(b, x, 'g', -1, 32) })
	case protoreflect.DoubleKind:
		return r.float(p, v.Float())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		x := v.Uint()
		return r.number(p, float64(x), func(b []byte) []byte { return strconv.AppendUint(b, x, 10) })
	}
	return r.integer(p, v.Int())
}

// within adds a nested message. A message that means a single value, such as Google's timestamps, durations and
// wrappers, becomes that value.
func (r *protoReader) within(t *protoType, body []byte, p *place, depth int) bool {
	switch t.single {
	case "":
		return r.several(p) && r.message(t, body, p, depth)
	case "google.protobuf.Timestamp":
		whole, nanos, ok := r.seconds(t, body)
		return ok && r.integer(p, whole*1000+nanos/int64(time.Millisecond))
	case "google.protobuf.Duration":
		whole, nanos, ok := r.seconds(t, body)
		return ok && r.float(p, float64(whole)+float64(nanos)/1e9)
	}
	first := len(r.marks)
	marks, ok := r.mark(t, body, nil)
	ok = ok && r.single(&t.fields[0], marks, body, p, depth)
	r.marks = r.marks[:first]
	return ok
}

// seconds reads a message of whole seconds and nanoseconds.
func (r *protoReader) seconds(t *protoType, body []byte) (whole, nanos int64, ok bool) {
	first := len(r.marks)
	marks, ok := r.mark(t, body, nil)
	for _, mark := range marks {
		_, _, value := valueAt(body, mark)
		v, _, good := r.read(&t.fields[mark>>32], value)
		if ok = ok && good; !ok {
			break
		}
		if mark>>32 == 0 {
			whole = v.Int()
		} else {
			nanos = v.Int()
		}
	}
	r.marks = r.marks[:first]
	return whole, nanos, ok
}
