package record

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"blankout/internal/must"
)

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
		var objects []any
		for range 1 + random.IntN(4) {
			objects = append(objects, map[string]any{"x": value(0), "y": value(0)})
		}
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
