package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// checkFresh decodes the events with one decoder, and each event with a new decoder. A decoder's caches must change no
// Example, no refusal and no Schema.
func checkFresh(t *testing.T, c Config, events [][]byte) {
	t.Helper()
	s, fresh := c.Schema(), c.Schema()
	d := must.Get(NewDecoder(c, s))(t)
	var got event.Example
	for i, ev := range events {
		once := must.Get(NewDecoder(c, fresh))(t)
		var want event.Example
		once.Decode(t.Context(), Record{Value: ev, Offset: int64(i)}, &want)
		d.Decode(t.Context(), Record{Value: ev, Offset: int64(i)}, &got)
		for _, e := range []*event.Example{&got, &want} { // treat nil as empty
			e.Field, e.Missing = append([]uint16{}, e.Field...), append([]uint16{}, e.Missing...)
			e.Features.Index, e.Features.Value = append([]uint32{}, e.Features.Index...), append([]float64{}, e.Features.Value...)
		}
		must.Require(t, reflect.DeepEqual(got, want), "bits %d, event %d of %d, %q:\n got %+v, %v\nwant %+v, %v", c.Bits, i, len(events), ev, got, got.Refused, want, want.Refused)
	}
	gotText, _ := json.Marshal(s)
	wantText, _ := json.Marshal(fresh)
	must.Require(t, bytes.Equal(gotText, wantText) && reflect.DeepEqual(s.Names.Blocks(), fresh.Names.Blocks()), "bits %d: the Schema is\n%s\nwant\n%s", c.Bits, gotText, wantText)
}

// freshConfig returns settings of several kinds: so few columns that numbers and names compete for columns, a
// dictionary that is soon full, or crosses.
func freshConfig(kind int) Config {
	c := DefaultConfig()
	c.Text, c.Drop, c.Categorical = []string{"text"}, []string{"dropped"}, []string{"postcode"}
	c.ID, c.Weight, c.Time = "id", "w", "at"
	switch kind % 4 {
	case 1:
		c.Bits = 6
	case 2:
		c.MaxNames, c.MaxFields = 3, 5
	case 3:
		c.Crosses = [][2]string{{"country", "k"}, {"a", "b"}}
	}
	return c
}

func TestJSONAsFresh(t *testing.T) {
	longtest.NotRaced(t)
	r := rand.New(rand.NewPCG(5, 6))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	space := func() string { return pick("", "", "", "", " ", "\t\n ") }
	shapes := [][]string{
		{"label", "age", "country", "k", "long_name_of_a_field", "eightlet", "w", "id"},
		{"a", "b", "country", "seven_l", "label", "dropped", "at"},
		{"text", "postcode", "sixteen_letters_", "fifteen_letters", `esc\"aped`, `\u0061`, "nest"},
	}
	var value func(key string, depth int) string
	value = func(key string, depth int) string {
		switch n := r.IntN(24); {
		case n == 0:
			return "null"
		case n == 1:
			return pick("true", "false", "NaN", "tru", "-", "01", "1.", "1e400")
		case n == 2 && depth < 3:
			return "{" + space() + `"x":` + value("x", depth+1) + `,"y":` + value("y", depth+1) + "}"
		case n == 3 && depth < 3:
			return "[" + value("", depth+1) + space() + "," + value("", depth+1) + "]"
		case n == 4:
			return `"` + pick("é", `\n`, `\"`, `\u00e9`, "\x01", "\xff", `\q`, "a\\", "") + pick("", "x", "1234567890") + `"`
		case n == 5:
			return `"` + strings.Repeat("v", r.IntN(20)) + pick("", "", " ", "\\", "é") + `"`
		case key == "label":
			return pick("1", "0", `"yes"`, `"no"`)
		case n < 14 || key == "at" || key == "w":
			return pick("1", "1.5", "-0.25", "12345678.125", "1e-3", "0")
		}
		return `"` + pick("no", "it", "norway", "seventh", "eightlet", "fifteen_letters", "sixteen_letters_", fmt.Sprint("n", r.IntN(50))) + `"`
	}
	var events [][]byte
	n := must.Either(longtest.Asked(), 4000, 1500)
	for range n {
		keys := slices.Clone(shapes[r.IntN(len(shapes))])
		switch r.IntN(8) {
		case 0:
			r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		case 1:
			keys = slices.Insert(keys, r.IntN(len(keys)), keys[r.IntN(len(keys))]) // a key may occur twice
		case 2:
			keys[r.IntN(len(keys))] = pick(fmt.Sprint("new", r.IntN(40)), "long_namf_of_a_field")
		case 3:
			keys = keys[r.IntN(len(keys)):]
		}
		event := space() + "{" + space()
		for i, key := range keys {
			if i > 0 {
				event += "," + space()
			}
			event += `"` + key + `"` + space() + ":" + space() + value(key, 0) + space()
		}
		event += "}" + space()
		switch r.IntN(20) {
		case 0:
			event = event[:r.IntN(len(event)+1)]
		case 1:
			b := []byte(event)
			b[r.IntN(len(b))] = byte(r.IntN(256))
			event = string(b)
		}
		events = append(events, []byte(event))
	}
	refused := 0
	s := freshConfig(0).Schema()
	d, _ := NewDecoder(freshConfig(0), s)
	var e event.Example
	for _, event := range events {
		if d.Decode(t.Context(), Record{Value: event}, &e); e.Refused != nil {
			refused++
		}
	}
	must.Require(t, refused >= 400 && refused <= 3000, "%d of %d events are refused: a test of few", refused, len(events))
	for kind := range 4 {
		checkFresh(t, freshConfig(kind), events)
	}
}

// TestShortValuesMakeRoom checks that a number that takes the column of a value moves the value to another column. A
// refused number must release the column.
func TestShortValuesMakeRoom(t *testing.T) {
	c := DefaultConfig()
	c.MaxNames, c.Weight = 0, "w"
	mask := uint64(1<<c.Bits - 1)
	number, column := "", event.Mix(fieldHash("k", c.Seed)+xxhash.Sum64String("v"))&mask
	for i := 0; number == ""; i++ {
		if name := fmt.Sprint("f", i); fieldHash(name, c.Seed)&mask == column {
			number = name
		}
	}
	var events [][]byte
	for _, event := range []string{`{"k":"v"}`, `{"k":"v"}`, `{"f":1,"k":"v","w":-1}`, `{"k":"v"}`, `{"k":"v","f":1}`, `{"k":"v"}`, `{"k":"v","f":2}`} {
		events = append(events, []byte(strings.Replace(event, `"f"`, strconv.Quote(number), 1)))
	}
	checkFresh(t, c, events)
}

// TestShortValuesAreDistinguished checks that values are distinguished by all of their bytes, although many share a slot.
func TestShortValuesAreDistinguished(t *testing.T) {
	c := DefaultConfig()
	c.MaxNames = 0
	s := c.Schema()
	d, _ := NewDecoder(c, s)
	r := rand.New(rand.NewPCG(9, 10))
	var e event.Example
	for range 200_000 {
		value := strings.Repeat("p", 8*r.IntN(2)) + fmt.Sprintf("%04d", r.IntN(2500)) + strings.Repeat("s", r.IntN(2)*4)
		d.Decode(t.Context(), Record{Value: fmt.Appendf(nil, `{"k":%q,"label":1}`, value)}, &e)
		want := event.Mix(fieldHash("k", c.Seed)+xxhash.Sum64String(value)) & (1<<c.Bits - 1)
		must.Require(t, e.Refused == nil && uint64(e.Features.Index[0]) == want, "%q: columns %d, want %d; refused %v", value, e.Features.Index, want, e.Refused)
	}
}

// FuzzJSONAsFresh decodes the lines of a text as events with checkFresh.
func FuzzJSONAsFresh(f *testing.F) {
	f.Add(byte(0), []byte(`{"a":"x","label":1}`+"\n"+`{"a":"x","label":1}`+"\n"+`{"label":1,"a":"y\u0041"}`))
	f.Add(byte(1), []byte("{\"a\\\"b\":1}\n{\"\x00\":1}\n{\"a\\\"b\":\"x\"}"))
	f.Fuzz(func(t *testing.T, kind byte, text []byte) {
		if lines := bytes.Split(text, []byte("\n")); len(lines) < 50 {
			checkFresh(t, freshConfig(int(kind)), lines)
		}
	})
}

// TestEscapedKeyIsNoOther checks that a key with escapes is identified by its decoded text. Such a key must not be
// confused with a key that has another byte in place of the escaped character.
func TestEscapedKeyIsNoOther(t *testing.T) {
	c := DefaultConfig()
	d, _ := NewDecoder(c, c.Schema())
	var e event.Example
	for _, x := range []struct {
		event string
		ok    bool
	}{{`{"a\"b":1,"label":1}`, true}, {"{\"\x00\":1,\"label\":1}", false}, {`{"":1,"label":1}`, true}, {`{""":1,"label":1}`, false}, {`{"a\"b":2}`, true}, {`{"":1}`, true}} {
		d.Decode(t.Context(), Record{Value: []byte(x.event)}, &e)
		must.True(t, (e.Refused == nil) == x.ok, "%q: refused %v", x.event, e.Refused)
	}
}

func TestSortShort(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 17 {
		for range 200 {
			s := must.List(n, func(i int) uint64 { return uint64(r.IntN(1+r.IntN(20)))<<32 | uint64(i) })
			want := slices.Sorted(slices.Values(s))
			must.Require(t, slices.Equal(sortShort(nil, s), want), "%x", s)
		}
	}
}
