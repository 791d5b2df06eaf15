package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/sr"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"
)

// shown decodes a value with a configuration and returns the event as text.
func shown(t *testing.T, c Config, value string) string {
	t.Helper()
	s, d := newDecoder(t, c)
	var e event.Example
	must.Do(t, d.Decode(t.Context(), Record{Value: []byte(value)}, &e))
	return showOr(s, e)
}

// showOr returns an event as text, or the reason why its record was refused.
func showOr(s *event.Schema, e event.Example) string {
	if e.Refused != nil {
		return string(e.Refused.Reason)
	}
	return recordtest.Show(s, &e)
}

// TestNumbersAsText checks that with record.decimal or record.thousands a text in that notation is a number. This
// applies to every format with texts, and to the target and the weight, but not to a categorical field.
func TestNumbersAsText(t *testing.T) {
	base := DefaultConfig()
	base.Weight, base.Categorical, base.Text, base.Columns, base.Separator = "w", []string{"zip"}, []string{"body"}, []string{"label", "w", "a", "zip", "body", "s"}, ";"
	for _, test := range []struct {
		format, decimal, thousands, value, want string
	}{
		{"csv", ".", "", "y;1;0,5;1,5;1,5;x", "y a=0,5:1:c zip=1,5:1:c body=1:1:w body=5:1:w s=x:1:c"},
		{"csv", ",", "", "y;0,5;0,5;1,5;1,5;x", "y weight=0.5 a:0.5:n zip=1,5:1:c body=1:1:w body=5:1:w s=x:1:c"},
		{"csv", ",", "", "y;1;0.25;1,5;x;-3,5", "y a:0.25:n s:-3.5:n zip=1,5:1:c body=x:1:w"},
		{"csv", ",", ".", "y;1;1.234,5;1;x;€ 7", "y a:1234.5:n s:7:n zip=1:1:c body=x:1:w"},
		{"csv", ".", ",", "y;1;$-1,000.5;1;x;12 %", "y a:-1000.5:n s:12:n zip=1:1:c body=x:1:w"},
		{"json", ".", "", `{"label":"y","a":"0,5","zip":"1,5","s":"12"}`, "y s=12:1:c a=0,5:1:c zip=1,5:1:c"},
		{"json", ",", "", `{"label":"y","w":"0,5","a":"0,5","zip":"1,5","s":"12","body":"1,5","t":["1,5"],"n":0.5}`, "y weight=0.5"},
	} {
		c := base
		c.Format, c.Decimal, c.Thousands = test.format, test.decimal, test.thousands
		got := shown(t, c, test.value)
		for _, part := range strings.Fields(test.want) {
			must.Contains(t, " "+got+" ", " "+part+" ")
		}
		again, err := ParseSettings(c.Settings())
		must.True(t, err == nil && again.Notation() == c.Notation(), "%v is kept as %v: %v", c.Notation(), again.Notation(), err)
	}
	c := base
	c.Format, c.Decimal = "json", ","
	got, want := shown(t, c, `{"a":"0,5","zip":"1,5","s":"12","t":["1,5"],"n":0.5}`), "? a:0.5:n s:12:n n:0.5:n zip=1,5:1:c t=1,5:1:w"
	must.True(t, len(strings.Fields(got)) == 6 && sameWords(got, want), "%s, want %s", got, want)
	c.Target = loss.Real
	d := must.Get(NewDecoder(c, c.Schema()))(t)
	var e event.Example
	d.Decode(t.Context(), Record{Value: []byte(`{"label":"1,5","a":1}`)}, &e)
	must.True(t, e.Refused == nil && e.Target == 1.5, "target %v, %v", e.Target, e.Refused)
	refuses(t, d, `{"label":"1,5,5","a":1}`, event.ReasonLabel)
	wire := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: `{"type":"record","name":"E","fields":[{"name":"a","type":"string"},{"name":"zip","type":"string"}]}`})
	wire.ID, wire.Time, wire.Weight, wire.Text, wire.Ngrams, wire.Decimal = "", "", "", nil, 1, ","
	must.Equal(t, shown(t, wire, "\x00\x00\x00\x00\x01\x060,5\x061,5"), "? a:0.5:n zip=1,5:1:c", "avro")
}

func sameWords(a, b string) bool {
	for _, word := range strings.Fields(a) {
		if !strings.Contains(" "+b+" ", " "+word+" ") {
			return false
		}
	}
	return len(strings.Fields(a)) == len(strings.Fields(b))
}

// TestCategoriesAsNumbers checks that a numeric category has the same spelling in all formats. A text keeps its
// spelling, with an exception in CSV, where numbers are texts: the zero fraction that pandas adds to whole numbers is
// removed.
func TestCategoriesAsNumbers(t *testing.T) {
	base := DefaultConfig()
	base.Categorical, base.Columns, base.Label, base.Unlabeled = []string{"zip"}, []string{"zip"}, "", true
	for format, values := range map[string]map[string]string{
		"json": {"20095": "20095", "20095.0": "20095", "2.0095e4": "20095", "1234567.0": "1234567", "-0.50": "-0.5", "1e2": "100",
			`"00123"`: "00123", `"20095.0"`: "20095.0", "12345678901234567890": "12345678901234567890"},
		"csv": {"20095": "20095", "20095.0": "20095", "20095.000": "20095", "00123": "00123", "00123.0": "00123.0", "1.10": "1.10", "1.0": "1", "-7.0": "-7",
			"0.0": "0", "100": "100", "100.": "100.", ".0": ".0", "a.0": "a.0", "1.2.0": "1.2.0", `"20095.0"`: "20095"},
	} {
		for value, want := range values {
			c := base
			if c.Format = format; format == "json" {
				value = `{"zip":` + value + `}`
			}
			must.Equal(t, shown(t, c, value), "? zip="+want+":1:c", format, value, want)
		}
	}
	for kind, value := range map[string]string{
		"double": string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1234567))), "float": string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1234567))), "int": string(binary.AppendVarint(nil, 1234567)),
	} {
		c := wireConfig(t, "avro", sr.Schema{Type: sr.TypeAvro, Schema: fmt.Sprintf(`{"type":"record","name":"E","fields":[{"name":"zip","type":%q}]}`, kind)})
		c.ID, c.Time, c.Weight, c.Text, c.Ngrams = "", "", "", nil, 1
		must.Equal(t, shown(t, c, "\x00\x00\x00\x00\x01"+value), "? zip=1234567:1:c", "avro", kind)
	}
}

// TestAbsentZero checks that under AbsentZero an event that omits zeros equals the event with the zeros, once the
// fields exist. The test covers every format that can omit a number. null and a value of another kind must not count as
// zero.
func TestAbsentZero(t *testing.T) {
	for _, change := range []func(*Config){nil, func(c *Config) { c.Crosses = [][2]string{{"f0", "g"}} }} {
		c := DefaultConfig()
		if c.Absent = event.AbsentZero; change != nil {
			change(&c)
		}
		whole, sparse := c.Schema(), c.Schema()
		dw := must.Get(NewDecoder(c, whole))(t)
		ds := must.Get(NewDecoder(c, sparse))(t)
		random := rand.New(rand.NewPCG(1, 2))
		var ew, es event.Example
		for n := range 500 {
			var all, some []string
			for i := range 8 {
				name := must.Either(i > 5, fmt.Sprintf("o.f%d", i), fmt.Sprintf("f%d", i))
				x := random.IntN(3)
				if all = append(all, fmt.Sprintf("%q:%d", name, x)); x > 0 || n == 0 {
					some = append(some, all[len(all)-1])
				}
			}
			rest := []string{`"g":"a"`, `"g":null`, `"g":true`}[random.IntN(3)]
			if n == 0 {
				rest = `"g":"a"`
			}
			all, some = append(all, rest), append(some, rest)
			random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			if n == 0 {
				some = slices.Clone(all)
			}
			for _, d := range []struct {
				Decoder
				e    *event.Example
				text []string
			}{{dw, &ew, all}, {ds, &es, some}} {
				err := d.Decode(t.Context(), Record{Value: []byte("{" + strings.Join(d.text, ",") + "}")}, d.e)
				must.Require(t, err == nil && d.e.Refused == nil, "%v %v", err, d.e.Refused)
			}
			got, want := recordtest.Show(sparse, &es), recordtest.Show(whole, &ew)
			must.Require(t, got == want, "event %d, %s:\n got %s\nwant %s", n, some, got, want)
			if n%100 == 99 { // continue as after a restart
				sparse = sparse.Clone()
				ds = must.Get(NewDecoder(c, sparse))(t)
			}
		}
	}
	c := DefaultConfig()
	c.Absent = event.AbsentZero
	s, d := newDecoder(t, c)
	for _, line := range []struct{ in, want string }{
		{`{"a":1,"b":"x","o":{"c":2}}`, "? a:1:n b=x:1:c o.c:2:n"},
		{`{}`, "? a:0:n o.c:0:n"},
		{`{"a":null,"o":null}`, "? -a -o.c"},
		{`{"a":"none"}`, "? a=none:1:c o.c:0:n"},
		{`{"a":1,"a":2,"new":3}`, "duplicate-field"},
		{`{"a":5}`, "? a:5:n o.c:0:n"},
		{`{"later":5}`, "? later:5:n a:0:n o.c:0:n"},
		{`{}`, "? a:0:n later:0:n o.c:0:n"},
	} {
		got := showOr(s, decoded(d, line.in))
		must.True(t, sameWords(got, line.want), "%s: %s, want %s", line.in, got, line.want)
	}
	// A field whose first kind is not numeric, and a field of a refused record.
	c.Classes = []string{"no", "yes"}
	s, d = newDecoder(t, c)
	for _, line := range []struct{ in, want string }{
		{`{"k":"x","a":1}`, "? k=x:1:c a:1:n"}, {`{"k":2,"a":1}`, "? k:2:n a:1:n"}, {`{"k":"x","a":1}`, "? k=x:1:c a:1:n"}, {`{"a":1}`, "? k:0:n a:1:n"},
		{`{"label":"perhaps","a":1,"new":3}`, "label"}, {`{"a":1,"other":"x"}`, "? k:0:n a:1:n other=x:1:c"}, {`{"label":"no"}`, "no k:0:n a:0:n"},
	} {
		got := showOr(s, decoded(d, line.in))
		must.True(t, sameWords(got, line.want), "%s: %s, want %s", line.in, got, line.want)
	}
	c.TimeFeatures, c.Time = []string{"born"}, "at"
	s, d = newDecoder(t, c)
	var e event.Example
	for _, value := range []string{`{"at":1000,"born":0,"x":1}`, `{"at":1000}`} {
		d.Decode(t.Context(), Record{Value: []byte(value)}, &e)
	}
	got := recordtest.Show(s, &e)
	must.True(t, sameWords(got, "? time=1000 x:0:n"), "an age that is left out: %s", got)
}

// TestObjects checks that an array of objects, objects over several lines, and several objects in one line are read
// object by object. A damaged object must affect only itself and the text before the next object.
func TestObjects(t *testing.T) {
	c := DefaultConfig()
	c.Format = "json"
	for text, want := range map[string]string{
		`[{"a":1},{"a":2}]`: `0:{"a":1}|1:{"a":2}`,
		" [\n  {\n    \"a\": 1\n  },\n  {\"a\": [{\"b\":2}, {}]}\n]\n": "0:{\n    \"a\": 1\n  }|1:{\"a\": [{\"b\":2}, {}]}",
		"{\n\"a\": {\n\"b\": 1}\n}\n{\n}\n":                            "0:{\n\"a\": {\n\"b\": 1}\n}|1:{\n}",
		`{"a":1}{"a":2} {"a":3}`:                                       `0:{"a":1}|1:{"a":2}|2:{"a":3}`,
		"{\"a\":1},\n{\"a\":2},\n":                                     `0:{"a":1}|1:{"a":2}`,
		"\x1e{\"a\":1}\n\x1e{\"a\":2}\n":                               `0:{"a":1}|1:{"a":2}`,
		"[{\"a\":\"}]{\\\"\"},{\"a\":2}]":                              `0:{"a":"}]{\""}|1:{"a":2}`,
		"[]":                                                           "",
		"[1,2,{\"a\":3}]":                                              `0:1,2,|1:{"a":3}`,
		"[[1,2],\n[3,4]]\n":                                            "0:1,2],|1:3,4]]",
		"[{\"a\":1,\n{\"a\":2}]":                                       "0:{\"a\":1,|1:{\"a\":2}",
		"[{\"a\":[1,2},{\"a\":2}]":                                     `0:{"a":[1,2}|1:{"a":2}`,
		"[{\"a\":\"x\n},{\"a\":2}]":                                    "0:{\"a\":\"x\n}|1:{\"a\":2}",
		"[{\"a\":[1,2 {\"b\":2}]":                                      `0:{"a":[1,2|1:{"b":2}`,
		"[{\"a\":1},{\"a\":2":                                          `0:{"a":1}|1:{"a":2`,
		`[{"a":"` + long200 + `"},{"a":2}]`:                            `0:{"a":"` + long200[:95] + `|1:{"a":2}`,
		// JSON lines; in the second text the first line is damaged.
		"{\"a\":1}\n{\"a\":2}\n":        `0:{"a":1}|1:{"a":2}`,
		"{\"a\":1,\n{\"a\":2}\n":        `0:{"a":1,|1:{"a":2}`,
		"{\"a\":\"x\n{\"a\":2}\n":       `0:{"a":"x|1:{"a":2}`,
		"{\"a\":1}x\n\n{\"a\":2}\n":     `0:{"a":1}x|2:{"a":2}`,
		"\n{\"a\":1}\r\n{\"a\":2}":      `1:{"a":1}|2:{"a":2}`,
		"{" + long200 + "\n{\"a\":2}\n": "0:{" + long200[:100] + `|1:{"a":2}`,
		"\n \n":                         "",
	} {
		c := c
		c.MaxBytes = 100
		for name, in := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "with EOF": iotest.DataErrReader} {
			must.Equal(t, strings.Join(linesOf(t, text, c, in), "|"), want, name, text)
		}
	}
}

// TestObjectBehindCutOne checks that Unscan works for a record that follows a cut record.
func TestObjectBehindCutOne(t *testing.T) {
	c := DefaultConfig()
	c.Format, c.MaxBytes = "json", 50
	text := `[{"a":"` + long200 + `","b":{"c":1}},{"a":2}]`
	s := must.Get(NewScanner("x.json", io.MultiReader(strings.NewReader(text[:150]), strings.NewReader(text[150:])), c))(t)
	var r Record
	next := func() {
		for !s.Scan(&r) {
			must.Do(t, s.Refill())
		}
	}
	next()
	must.Require(t, r.Cut, "%q is not cut", r.Value)
	for range 3 {
		next()
		must.Require(t, string(r.Value) == `{"a":2}` && r.Offset == 1, "%d: %q", r.Offset, r.Value)
		s.Unscan()
	}
}

// TestObjectsArranged checks that valid objects are the records in any arrangement, and that reading can continue at
// each of them. For damaged texts, reading in pieces must return the same as reading the whole.
func TestObjectsArranged(t *testing.T) {
	c := DefaultConfig()
	c.Format = "json"
	random := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch k := random.IntN(6); {
		case k == 0 && depth < 5:
			return map[string]any{"a": value(depth + 1), "{": value(depth + 1)}
		case k == 1 && depth < 5:
			return []any{value(depth + 1), value(depth + 1)}
		case k == 2:
			return []string{"", "{", "}", "\"", "\\", "[\n{", "é"}[random.IntN(7)]
		case k == 3:
			return map[string]any{}
		}
		return random.IntN(100)
	}
	for range 2000 {
		objects := must.List(1+random.IntN(4), func(int) any { return map[string]any{"x": value(0), "y": value(0)} })
		var text strings.Builder
		e := json.NewEncoder(&text)
		if random.IntN(2) == 0 {
			e.SetIndent("", strings.Repeat(" ", random.IntN(3)))
		}
		var err error
		if random.IntN(2) == 0 {
			err = e.Encode(objects)
		} else {
			for _, o := range objects {
				err = e.Encode(o)
			}
		}
		must.Do(t, err)
		records := linesOf(t, text.String(), c, iotest.HalfReader)
		must.Require(t, len(records) == len(objects), "%q: %q", text.String(), records)
		for i, record := range records {
			offset, value, _ := strings.Cut(record, ":")
			want, _ := json.Marshal(objects[i])
			var got any
			err := json.Unmarshal([]byte(value), &got)
			must.Require(t, err == nil && offset == fmt.Sprint(i), "%q: %q: %v", text.String(), record, err)
			again, _ := json.Marshal(got)
			must.Require(t, string(again) == string(want), "%q: %q, want %q", text.String(), record, want)
			s := must.Get(NewScanner("x.json", strings.NewReader(text.String()), c))(t)
			var r Record
			_, _, err = s.Skip(0, int64(i))
			must.Require(t, err == nil && s.Next(&r) == nil && string(r.Value) == value, "%q from %d: %q, %v", text.String(), i, r.Value, err)
			s.Unscan()
			err = s.Next(&r)
			must.Require(t, err == nil && string(r.Value) == value, "%q taken back at %d: %q, %v", text.String(), i, r.Value, err)
		}
		damaged := []byte(text.String())
		for range 3 {
			damaged[random.IntN(len(damaged))] = "{}[],:\"\n a"[random.IntN(10)]
		}
		c := c
		c.MaxBytes = 10 + random.IntN(200)
		whole, pieces := linesOf(t, string(damaged), c, func(r io.Reader) io.Reader { return r }), linesOf(t, string(damaged), c, iotest.OneByteReader)
		must.Require(t, slices.Equal(whole, pieces), "%q: whole %q, in bytes %q", damaged, whole, pieces)
	}
}
