package record

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestColumnsStay checks that the columns of names never change, because every saved model depends on them. It tests
// short names, nested names, and names longer than the stored length. The stored names for reports must not change
// either.
func TestColumnsStay(t *testing.T) {
	long := func(n int) string { return strings.Repeat("name ", n/5+1)[:n] }
	for i, r := range []struct {
		format, record string
		sum            uint64 // hash of the columns, values, fields and the dictionary
	}{
		{"json", `{"a":1,"b":{"c":"x","d.e":[1,"w",{"f":true}]},"é":-2,"":3}`, 9338717469210176586},
		{"json", `{"` + long(254) + `":{"a":1,"ab":"x","é":["w",3,{"z":1}]}}`, 7452522225784648647},
		{"json", `{"` + long(256) + `":"x","` + long(257) + `":{"a":{"b":[0.5,"w",[2]]},"n":7},"` + long(1000) + `":true}`, 5637196720113250024},
		{"json", `{"` + long(90) + `":{"` + long(90) + `":{"` + long(90) + `":{"` + long(90) + `":1,"c":["` + long(300) + `"]}}}}`, 16383124039710159153},
		{"vw", `1 |words a b:2 |` + long(300) + ` x y |` + long(255) + ` x ` + long(400) + ` | plain 17`, 10769261782419317538},
		{"csv", `1,39,"x, y",` + long(300) + `,true`, 9299548978090746558},
	} {
		c := DefaultConfig()
		c.Format, c.Bits, c.Seed, c.Infer = r.format, 31, 7, false
		switch {
		case r.format == "csv":
			c.Columns = []string{"label", "age", "job", "text", long(300)}
		case i == 0:
			c.Crosses = [][2]string{{"a", "b.c"}}
		}
		s, d := newDecoder(t, c)
		for range 2 { // with new names, then with known names
			e := decoded(d, r.record)
			must.Require(t, e.Refused == nil, "%d: %v", i, e.Refused)
			h := xxhash.New()
			for _, part := range []any{e.Features.Index, e.Features.Value, e.Field, s.Names.Blocks()[0].Data} {
				binary.Write(h, binary.LittleEndian, part)
			}
			must.Equal(t, h.Sum64(), r.sum, "the sum of columns and names of", i, e.Features.Index)
		}
	}
}

// nested returns a JSON object around inner, with a key of the given number of bytes.
func nested(bytes int, inner string) string {
	return `{"` + strings.Repeat("k", bytes) + `":` + inner + `}`
}

// TestNamesTakeLittleMemory checks that the memory for a record with joined names is proportional to the size of the
// record, during and after decoding. Each of these records once took gigabytes.
func TestNamesTakeLittleMemory(t *testing.T) {
	longtest.NotRaced(t)
	var words, keys, objects, vw, nulls []byte
	for i := range 20_000 {
		words = fmt.Appendf(words, `"%d",`, i)
		keys = fmt.Appendf(keys, `"%d":1,`, i)
		objects = fmt.Appendf(objects, `"%d":{"a":1},`, i)
		vw = fmt.Appendf(vw, " w%d", i)
	}
	for i := range 200_000 {
		nulls = fmt.Appendf(nulls, `"%d":null,`, i)
	}
	list := func(b []byte) string { return string(b[:len(b)-1]) }
	for _, r := range []struct{ name, format, record, refused string }{
		{"words", "json", nested(4000, "["+list(words)+"]"), ""},
		{"keys", "json", nested(4000, "{"+list(keys)+"}"), ""},
		{"objects", "json", nested(4000, "{"+list(objects)+"}"), ""},
		{"nulls", "json", nested(4000, "{"+list(nulls)+"}"), "too-many"},
		{"many words", "json", `{"w":[` + strings.Repeat(`"a",`, 1<<20) + `"a"]}`, "too-many"},
		{"long key", "json", nested(200_000, "["+list(words)+"]"), "oversize"},
		{"long joined key", "json", nested(2500, nested(2500, "["+list(words)+"]")), "oversize"},
		{"long element", "json", nested(4094, "[[1]]"), "oversize"},
		{"vw", "vw", "1 |" + strings.Repeat("k", 4000) + string(vw), ""},
		{"vw, long", "vw", "1 |" + strings.Repeat("k", 200_000) + string(vw), "oversize"},
		{"vw, many", "vw", "1 |" + strings.Repeat(" w", 1<<20), "too-many"},
	} {
		d := benchDecoder(t, r.format)
		value := []byte(r.record)
		var e event.Example
		var before, after, left runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		d.Decode(context.Background(), Record{Value: value}, &e)
		runtime.ReadMemStats(&after)
		runtime.GC()
		runtime.ReadMemStats(&left)
		switch {
		case e.Refused != nil && string(e.Refused.Reason) != r.refused, e.Refused == nil && r.refused != "":
			t.Errorf("%s: %v, want %q", r.name, e.Refused, r.refused)
		case e.Refused != nil && len(e.Refused.Detail) > 300:
			t.Errorf("%s: a message of %d bytes", r.name, len(e.Refused.Detail))
		}
		// One entry with its name in the dictionary takes about 1,000 bytes.
		// about 40 MB, and half more with the race detector
		took := after.TotalAlloc - before.TotalAlloc
		must.True(t, took <= 96<<20, "%s: %d bytes took %d MB", r.name, len(value), took>>20)
		kept := int64(left.HeapAlloc) - int64(before.HeapAlloc)
		must.True(t, kept <= 16<<20, "%s: %d bytes left %d MB behind", r.name, len(value), kept>>20)
		runtime.KeepAlive(d)
	}
}

// TestRejectedRecordAddsNothing checks that a refused record leaves nothing in the decoder. Later records must be
// decoded as fast as without the refused record, even if the limit of fields is small.
func TestRejectedRecordAddsNothing(t *testing.T) {
	for _, format := range []string{"json", "vw"} {
		c := DefaultConfig()
		c.Format, c.MaxFields = format, 100
		s := c.Schema()
		decoder := must.Get(NewDecoder(c, s))(t)
		known := []byte(`{"label":1,"a":{"b":2,"c":[1,"w"]},"d":"x"}`)
		later := []byte(`{"label":1,"d":"x","a":{"c":[1,"w",3],"b":2,"e":3},"f\u0020":{"g":1}}`)
		bad := func(i int) (b []byte) {
			b = fmt.Appendf(nil, `{"d":"y","n%d":{"m":{"o":1}},"a":{"c":[1,2,3,{"x":1}],"n":5,"b":2`, i)
			for k := range 200 {
				b = fmt.Appendf(b, `,"%d.%d":{"x":1}`, i, k)
			}
			return append(b, `},"f ":{"g":1},"label":oops}`...)
		}
		if format == "vw" {
			known, later = []byte("1 |a b:2 c |d x"), []byte("1 |d x |a c b:2 e |f g")
			bad = func(i int) (b []byte) {
				b = fmt.Appendf(nil, "1 |d y |n%d a", i)
				for k := range 200 {
					b = fmt.Appendf(b, " |%d.%d x", i, k)
				}
				return append(b, " |f g |d x:oops"...)
			}
		}
		var e event.Example
		decode := func(value []byte, want bool) {
			t.Helper()
			if decoder.Decode(context.Background(), Record{Value: value}, &e); (e.Refused == nil) != want {
				t.Fatal(e.Refused) // not must.Require, whose arguments are allocated
			}
		}
		decode(known, true)
		for i := range 50 {
			decode(bad(i), false)
			decode(known, true)
		}
		decode(later, true)
		decode(known, true)
		decode(later, true)
		n := testing.AllocsPerRun(10, func() { decode(later, true) })
		must.True(t, n <= 0, "%s: %v allocations for a record of known names", format, n)
		var parents int
		switch d := decoder.(type) {
		case *jsonDecoder:
			parents = len(d.under)
			must.True(t, len(d.root.children) == 4 && d.nodes == 11, "%d nodes, %d of them keys of the record, want 11 and 4", d.nodes, len(d.root.children))
			// A key of a temporary node must not count as both new and known.
			decode([]byte(`{"a":{"n":5},"a":{"n":5}}`), false)
			decode([]byte(`{"a":{"n":5,"n":5}}`), false)
		case *vwDecoder:
			parents = len(d.under)
			must.Equal(t, len(d.namespaces), 3, "namespaces")
		}
		must.True(t, parents <= 5, "%s: %d names are remembered to be parents of fields", format, parents)
	}
}

// TestRefusedNamesAreForgotten checks that the names of a refused record are not in the dictionary. The next record
// must not add these names either, whether the refused record had a new field or only a new value.
func TestRefusedNamesAreForgotten(t *testing.T) {
	for format, records := range map[string][3]string{
		"json": {`{"label":1,"color":"red","x":1}`, `{"color":"blue","x":oops}`, `{"color":"green","new":1,"x":oops}`},
		"vw":   {"1 |color red |x y:1", "1 |color blue |x y:oops", "1 |new a |color green |x y:oops"},
	} {
		names := func(records ...string) (names []string) {
			config := DefaultConfig()
			config.Format = format
			schema := config.Schema()
			d := must.Get(NewDecoder(config, schema))(t)
			var e event.Example
			for _, r := range records {
				d.Decode(context.Background(), Record{Value: []byte(r)}, &e)
				must.Require(t, (e.Refused != nil) == strings.Contains(r, "oops"), "%s: %v", r, e.Refused)
			}
			for i := range schema.Names.Len() {
				_, name := schema.Names.At(i)
				names = append(names, name)
			}
			return names
		}
		want := names(records[0], records[0])
		for _, bad := range records[1:] {
			must.EqualSlices(t, names(records[0], bad, records[0]), want, "names after", bad)
		}
	}
}

// TestMissingInManyPlaces checks a record that nulls the same fields at many positions. A name with dots also means
// nesting, so there is one position for each spelling of the parent's name. The record must take no more memory than
// the fields.
func TestMissingInManyPlaces(t *testing.T) {
	config := DefaultConfig()
	config.Format = "json"
	schema := config.Schema()
	d := must.Get(NewDecoder(config, schema))(t)
	var e event.Example
	decode := func(record string) {
		t.Helper()
		d.Decode(context.Background(), Record{Value: []byte(record)}, &e)
		must.Require(t, e.Refused == nil, "%v", e.Refused)
	}
	const depth, fields = 9, 2000
	parent := strings.Repeat("a.", depth-1) + "a"
	var learned strings.Builder
	for i := range fields {
		fmt.Fprintf(&learned, `,"%s.f%d":1`, parent, i)
	}
	decode(`{"label":"1"` + learned.String() + "}")
	var nulls func(depth int) string // returns the content of an object with depth levels below it
	nulls = func(depth int) string {
		var members []string
		for k := 1; k < depth; k++ {
			members = append(members, fmt.Sprintf(`"%sa":{%s}`, strings.Repeat("a.", k-1), nulls(depth-k)))
		}
		return strings.Join(append(members, fmt.Sprintf(`"%sa":null`, strings.Repeat("a.", depth-1))), ",")
	}
	for range 2 { // the second record must be marked like the first
		record := `{"label":"1",` + nulls(depth) + "}"
		n := strings.Count(record, "null")
		must.Require(t, n == 1<<(depth-1), "%d nulls", n)
		decode(record)
		must.True(t, len(e.Missing) == fields && slices.IsSorted(e.Missing), "%d fields missing, want %d in order", len(e.Missing), fields)
		c := cap(e.Missing)
		must.True(t, c <= 4*fields, "room for %d fields", c)
	}
}

// decodeAll decodes JSON records and returns the columns of each.
func decodeAll(t *testing.T, s *event.Schema, records ...string) (columns [][]uint32) {
	t.Helper()
	c := DefaultConfig()
	c.Unlabeled = true
	d := must.Get(NewDecoder(c, s))(t)
	for _, r := range records {
		var e event.Example
		err := d.Decode(t.Context(), Record{Value: []byte(r)}, &e)
		must.Require(t, err == nil && e.Refused == nil, "%v %v %v", r, err, e.Refused)
		columns = append(columns, slices.Clone(e.Features.Index))
	}
	return columns
}

func apartSchema(bits uint) *event.Schema {
	c := DefaultConfig()
	c.Bits = bits
	return c.Schema()
}

// TestNumbersHaveColumnsOfTheirOwn checks that a numeric field shares its column with no other name, earlier or later.
// The same must hold for a decoder that continues with the Schema. Without Schema.Apart, some names must share columns.
func TestNumbersHaveColumnsOfTheirOwn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	words := func(n int) string {
		list := must.List(n, func(int) string { return fmt.Sprintf("%q", fmt.Sprintf("w%d", r.IntN(1e6))) })
		return `{"text":[` + strings.Join(list, ",") + `]}`
	}
	numbers := `{"n0":1,"n1":1,"n2":1,"n3":1,"n4":1,"n5":1,"n6":1,"n7":1,"n8":1,"n9":1,"n10":1,"n11":1,"n12":1,"n13":1,"n14":1,"n15":1}`
	shared := 0
	for _, apart := range []bool{true, false} {
		s := apartSchema(8)
		s.Apart = apart
		own := decodeAll(t, s, numbers)[0]
		must.True(t, !apart || len(own) == 16, "16 numbers have %d columns", len(own))
		text := words(400)
		first := decodeAll(t, s, text)[0]
		shared += must.Count(len(first), func(i int) bool { return slices.Contains(own, first[i]) })
		must.True(t, !apart || shared <= 0, "%d words have the column of a number", shared)
		again := decodeAll(t, s.Clone(), text, numbers)
		must.True(t, slices.Equal(again[0], first) && slices.Equal(again[1], own), "another decoder has other columns")
	}
	must.True(t, shared != 0, "the words of the test meet no number")
}

// TestColumnsOfAModelStay checks that in a model that no longer learns, the columns of names do not change, whatever
// numbers arrive. A refused record must not use columns.
func TestColumnsOfAModelStay(t *testing.T) {
	s := apartSchema(4)
	before := decodeAll(t, s, `{"x":1}`, `{"text":["a","b","c","d","e","f"]}`)
	read := s.Clone()
	read.Closed = len(read.Fields)
	many := `{"n0":1,"n1":1,"n2":1,"n3":1,"n4":1,"n5":1,"n6":1,"n7":1,"n8":1,"n9":1}`
	after := decodeAll(t, read, many, `{"x":1}`, `{"text":["a","b","c","d","e","f"]}`)
	must.True(t, slices.Equal(after[1], before[0]) && slices.Equal(after[2], before[1]), "columns %v, before the numbers came %v", after[1:], before)
	c := DefaultConfig()
	c.Unlabeled = true
	d := must.Get(NewDecoder(c, s))(t)
	var e event.Example
	for _, value := range []string{many[:len(many)-1] + `,"bad":}`, `{"text":["a","b","c","d","e","f"]}`} {
		must.Do(t, d.Decode(t.Context(), Record{Value: []byte(value)}, &e))
	}
	must.EqualSlices(t, e.Features.Index, before[1], "columns after a rejected record")
}

// TestNamesOfColumnsApart checks that each column has the name of the field that owns it.
func TestNamesOfColumnsApart(t *testing.T) {
	s := apartSchema(5)
	s.Names = event.NewNames(100)
	columns := decodeAll(t, s, `{"x":1,"y":1,"z":1}`, `{"text":["a"]}`, `{"text":["b"]}`, `{"text":["c"]}`, `{"text":["d"]}`, `{"text":["e"]}`, `{"text":["f"]}`, `{"text":["g"]}`)
	name := s.Namer()
	for i, words := range columns[1:] {
		got := name(words[0])
		must.True(t, strings.Contains(got, "text="+string(rune('a'+i))), "column %d is %q", words[0], got)
	}
	for _, column := range columns[0] {
		got := name(column)
		must.True(t, slices.Contains([]string{"x", "y", "z"}, got), "the column of a number is %q", got)
	}
}
