package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

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
		list := eventtest.List(n, func(int) string { return fmt.Sprintf("%q", fmt.Sprintf("w%d", r.IntN(1e6))) })
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
		for _, column := range first {
			if slices.Contains(own, column) {
				shared++
			}
		}
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
