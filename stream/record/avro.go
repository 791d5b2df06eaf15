package record

// This file implements the format Avro.

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/avro"

	"blankout/internal/event"
	"blankout/stream/registry"
)

// avroType is a type of a schema. Types may refer to themselves.
type avroType struct {
	decode   func(d *avroReader, t *avroType, p *place, depth int) bool
	name     string      // name, for messages
	names    []string    // field names of a record
	types    []*avroType // types of the fields, of a union's branches, or of items or values
	symbols  [][]byte    // symbols of an enum
	size     int         // size of a fixed
	word     bool        // if set, the values are words when they are in an array
	perMilli float64     // units of a timestamp per millisecond
	scale    int
}

// avroReader reads a value of binary Avro.
type avroReader struct {
	*places
	data []byte
	pos  int
	word bool // the current value is an element of an array
}

func newAvro(c core) (Decoder, error) {
	return newWire(c, "AVRO", func(s *registry.Schema) (valueDecoder, error) {
		root, err := compileAvro(s)
		if err != nil {
			return nil, err
		}
		var r avroReader
		return func(d *places, value []byte) bool {
			r = avroReader{places: d, data: value}
			if !root.decode(&r, root, d.root, 1) {
				return false
			}
			return r.pos == len(value) || r.syntax("%d bytes follow the record", len(value)-r.pos)
		}, nil
	})
}

// compileAvro returns the type of a schema, which must be a record. The avro package checks the schema and resolves
// names.
func compileAvro(s *registry.Schema) (*avroType, error) {
	var cache avro.SchemaCache
	for _, r := range s.References {
		if _, err := cache.Parse(r.Text); err != nil {
			return nil, fmt.Errorf("%s, which it refers to: %w", r.Name, err)
		}
	}
	schema, err := cache.Parse(s.Text)
	if err != nil {
		return nil, err
	}
	c := avroCompiler{named: map[string]*avroType{}}
	root, err := c.compile(schema.Root())
	if err == nil && root.names == nil {
		err = fmt.Errorf("it is %s, and an event is a record", root.name)
	}
	return root, err
}

type avroCompiler struct{ named map[string]*avroType }

func (c *avroCompiler) compile(n *avro.SchemaNode) (*avroType, error) {
	t := &avroType{name: n.Type}
	switch n.Type {
	case "record", "error", "enum", "fixed":
		full := n.Name
		if n.Namespace != "" && !strings.Contains(full, ".") {
			full = n.Namespace + "." + full
		}
		c.named[full] = t
	}
	switch n.Type {
	case "null":
		t.decode = (*avroReader).avroNull
	case "boolean":
		t.decode = (*avroReader).avroBoolean
	case "int", "long":
		t.decode, t.perMilli = (*avroReader).avroLong, perMilli(n.LogicalType)
	case "float":
		t.decode = (*avroReader).avroFloat
	case "double":
		t.decode = (*avroReader).avroDouble
	case "string", "bytes", "fixed":
		t.size, t.word = -1, true
		if n.Type == "fixed" {
			t.size = n.Size
		}
		t.decode = (*avroReader).avroBytes
		if n.Type != "string" && n.LogicalType == "decimal" {
			t.decode, t.word, t.scale = (*avroReader).avroDecimal, false, n.Scale
		}
	case "enum":
		t.decode, t.word = (*avroReader).avroEnum, true
		for _, s := range n.Symbols {
			t.symbols = append(t.symbols, []byte(s))
		}
	case "array":
		t.decode = (*avroReader).avroArray
		return t, c.children(t, n.Items)
	case "map":
		t.decode = (*avroReader).avroMap
		return t, c.children(t, n.Values)
	case "union":
		t.decode = (*avroReader).avroUnion
		for i := range n.Branches {
			if err := c.children(t, &n.Branches[i]); err != nil {
				return nil, err
			}
		}
	case "record", "error":
		t.decode, t.names = (*avroReader).avroRecord, []string{}
		seen := map[string]bool{}
		for i := range n.Fields {
			f := &n.Fields[i]
			if seen[f.Name] {
				return nil, fmt.Errorf("field %q twice", f.Name)
			}
			seen[f.Name] = true
			t.names = append(t.names, f.Name)
			if err := c.children(t, &f.Type); err != nil {
				return nil, err
			}
		}
	default:
		return c.reference(n)
	}
	return t, nil
}

// reference returns the type with a given name.
func (c *avroCompiler) reference(n *avro.SchemaNode) (*avroType, error) {
	if t := c.named[n.Type]; t != nil {
		return t, nil
	}
	s, err := n.Schema()
	if err != nil {
		return nil, err
	}
	root := s.Root()
	if root.Type == n.Type {
		return nil, fmt.Errorf("type %q is not defined", n.Type)
	}
	return c.compile(root)
}

func (c *avroCompiler) children(t *avroType, n *avro.SchemaNode) error {
	child, err := c.compile(n)
	t.types = append(t.types, child)
	return err
}

// perMilli returns the units per millisecond of a logical type, or 0 if it is not a timestamp.
func perMilli(logical string) float64 {
	switch strings.TrimPrefix(logical, "local-") {
	case "timestamp-millis":
		return 1
	case "timestamp-micros":
		return 1e3
	case "timestamp-nanos":
		return 1e6
	case "date":
		return 1.0 / (24 * 60 * 60 * 1000)
	}
	return 0
}

func (d *avroReader) syntax(format string, args ...any) bool {
	return d.fail(event.ReasonSyntax, "byte %d: %s", d.pos+1+5, fmt.Sprintf(format, args...))
}

func (d *avroReader) varint() (x int64, ok bool) {
	x, n := binary.Varint(d.data[d.pos:])
	if n <= 0 {
		return 0, d.syntax("the record ends within a number, or it is longer than 64 bits")
	}
	d.pos += n
	return x, true
}

// bytes returns the next n bytes. If n is negative, it first reads the length.
func (d *avroReader) bytes(n int) (b []byte, ok bool) {
	size := int64(n)
	if n < 0 {
		if size, ok = d.varint(); !ok {
			return nil, false
		}
	}
	if size < 0 || size > int64(len(d.data)-d.pos) {
		return nil, d.syntax("%d bytes where %d are left", size, len(d.data)-d.pos)
	}
	b = d.data[d.pos : d.pos+int(size)]
	d.pos += int(size)
	return b, true
}

func (d *avroReader) avroNull(_ *avroType, p *place, _ int) bool { return d.null(p) }

func (d *avroReader) avroBoolean(_ *avroType, p *place, _ int) bool {
	b, ok := d.bytes(1)
	if !ok || b[0] > 1 {
		return d.syntax("no boolean")
	}
	return d.boolean(p, b[0] == 1)
}

func (d *avroReader) avroLong(t *avroType, p *place, _ int) bool {
	x, ok := d.varint()
	if !ok {
		return false
	}
	if (p.role == isTime || p.times != nil) && t.perMilli > 0 {
		x = int64(math.Floor(float64(x) / t.perMilli))
	}
	return d.integer(p, x)
}

func (d *avroReader) avroFloat(_ *avroType, p *place, _ int) bool {
	b, ok := d.bytes(4)
	if !ok {
		return false
	}
	x := math.Float32frombits(binary.LittleEndian.Uint32(b))
	return d.number(p, float64(x), func(b []byte) []byte { return strconv.AppendFloat(b, float64(x), 'g', -1, 32) })
}

func (d *avroReader) avroDouble(_ *avroType, p *place, _ int) bool {
	b, ok := d.bytes(8)
	return ok && d.float(p, math.Float64frombits(binary.LittleEndian.Uint64(b)))
}

func (d *avroReader) avroBytes(t *avroType, p *place, _ int) bool {
	b, ok := d.bytes(t.size)
	if ok && t.name == "string" && !utf8.Valid(b) {
		return d.syntax("field %.80q is not UTF-8", p.name)
	}
	return ok && d.text(p, b, d.word)
}

// avroDecimal reads an integer in units of 10^-scale, in two's complement with the most significant byte first.
func (d *avroReader) avroDecimal(t *avroType, p *place, _ int) bool {
	b, ok := d.bytes(t.size)
	if !ok {
		return false
	}
	if len(b) > 64 {
		return d.fail(event.ReasonOutOfRange, "field %.80q is a decimal of %d bytes, the limit is 1e30", p.name, len(b))
	}
	whole := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		whole.Sub(whole, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	ratio := new(big.Rat).SetFrac(whole, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.scale)), nil))
	x, _ := ratio.Float64()
	return d.number(p, x, func(to []byte) []byte { return append(to, ratio.FloatString(t.scale)...) })
}

func (d *avroReader) avroEnum(t *avroType, p *place, _ int) bool {
	i, ok := d.varint()
	if !ok || i < 0 || i >= int64(len(t.symbols)) {
		return d.syntax("symbol %d of an enum of %d", i, len(t.symbols))
	}
	return d.text(p, t.symbols[i], d.word)
}

func (d *avroReader) avroUnion(t *avroType, p *place, depth int) bool {
	branch := d.branch(t)
	return branch != nil && branch.decode(d, branch, p, depth)
}

// branch reads the type of a value of a union. It returns nil after a failure.
func (d *avroReader) branch(t *avroType) *avroType {
	i, ok := d.varint()
	if !ok || i < 0 || i >= int64(len(t.types)) {
		d.syntax("branch %d of a union of %d", i, len(t.types))
		return nil
	}
	return t.types[i]
}

func (d *avroReader) avroRecord(t *avroType, p *place, depth int) bool {
	if depth > maxDepth {
		return d.syntax("nested deeper than %d", maxDepth)
	}
	if depth > 1 && !d.several(p) || !d.spend(len(t.types)) {
		return false
	}
	d.word = false
	fields := d.fields(p, t, len(t.types))
	for i, child := range t.types {
		f := fields[i]
		if f == nil {
			if f = d.newField(p, fields, i, t.names[i]); f == nil {
				return false
			}
		}
		if !child.decode(d, child, f, depth+1) {
			return false
		}
	}
	return !d.tooMany() || d.tooManyFeatures()
}

// blocks calls f for every item of an array or a map, which is encoded in blocks.
func (d *avroReader) blocks(p *place, depth int, f func(i int) bool) bool {
	if depth > maxDepth {
		return d.syntax("nested deeper than %d", maxDepth)
	}
	if !d.several(p) {
		return false
	}
	for i := 0; ; {
		n, ok := d.varint()
		if !ok {
			return false
		}
		if n < 0 { // the size of the block in bytes follows
			if _, ok = d.varint(); !ok || n == math.MinInt64 {
				return d.syntax("%d items", n)
			}
			n = -n
		}
		if n == 0 {
			return true
		}
		// An item, such as null, may take no bytes. So the size of the record and the allowed number of features limit
		// the number of items.
		for ; n > 0; n-- {
			if i > d.c.MaxFeatures || d.tooMany() {
				return d.tooManyFeatures()
			}
			if !d.spend(1) || !f(i) {
				return false
			}
			i++
		}
	}
}

func (d *avroReader) avroArray(t *avroType, p *place, depth int) bool {
	items := t.types[0]
	return d.blocks(p, depth, func(i int) bool {
		item, at := items, p
		if item.name == "union" {
			if item = d.branch(item); item == nil {
				return false
			}
		}
		if d.word = item.word; !item.word {
			if at = d.element(p, i); at == nil {
				return false
			}
		}
		ok := item.decode(d, item, at, depth+1)
		d.word = false
		return ok
	})
}

func (d *avroReader) avroMap(t *avroType, p *place, depth int) bool {
	values := t.types[0]
	d.word = false
	return d.blocks(p, depth, func(int) bool {
		key, ok := d.bytes(-1)
		if !ok {
			return false
		}
		at := d.key(p, key)
		return at != nil && values.decode(d, values, at, depth+1)
	})
}
