package model

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestGrouping checks that a feature dies with its group, or without a group with its field. The product of two fields
// must die with the group of either factor. Groups are numbered in the order of requests. Fields that are added to the
// Schema later must be found too.
func TestGrouping(t *testing.T) {
	s := event.NewSchema(10, nil, 2)
	s.Crosses = [][2]string{{"speed", "city"}, {"speed", "heat"}}
	for _, f := range []event.Field{
		{Name: "speed", Kind: event.Numeric, Group: "engine"},
		{Name: "city", Kind: event.Categorical},
		{Name: "heat", Kind: event.Numeric, Group: "engine"},
		{Name: "speed^city", Kind: event.Cross},
		{Name: "speed^heat", Kind: event.Cross},
	} {
		s.AddField(f)
	}
	g := NewGrouping(s)
	name := func(field uint16, column uint32) string { return g.Name(g.Of(field, column)) }
	for field, want := range map[uint16]string{0: "", 1: "engine", 2: "city", 3: "engine", 4: "engine^city", 5: "engine"} {
		must.Equal(t, name(field, 7), want, "field", field)
	}
	pair := g.Of(4, 0)
	a, b, ok := g.Pair(pair)
	must.True(t, ok && g.Name(a) == "engine" && g.Name(b) == "city", "the product is of %d, %d, %v", a, b, ok)
	_, _, ok = g.Pair(g.Of(1, 0))
	must.True(t, !ok, "a group is a pair")
	s.AddField(event.Field{Name: "city", Kind: event.Words}) // another kind, but one field for the user
	s.AddField(event.Field{Name: "late", Kind: event.Numeric})
	must.True(t, name(6, 0) == "city" && name(7, 0) == "late" && g.Len() == 5, "later fields are in %q and %q of %d units", name(6, 0), name(7, 0), g.Len())

	// A field of a newer Schema is unknown until Follow is called.
	must.True(t, name(8, 0) == "" && name(9, 0) == "", "unknown fields are in %q and %q", name(8, 0), name(9, 0))
	s.AddField(event.Field{Name: "later", Kind: event.Numeric})
	must.True(t, name(8, 0) == "later" && name(9, 0) == "", "fields 8 and 9 are in %q and %q", name(8, 0), name(9, 0))

	s = event.NewSchema(10, nil, 2)
	s.ColumnGroups = &event.ColumnGroups{Every: 8, Named: []event.NamedColumns{{Name: "odd", Spans: []event.Span{{From: 0, To: 1}, {From: 16, To: 20}}}}}
	g = NewGrouping(s)
	for column, want := range map[uint32]string{0: "odd", 1: "1-8", 7: "1-8", 8: "9-16", 19: "odd", 20: "17-24"} {
		must.Equal(t, name(0, column), want, "column", column)
	}
	must.True(t, name(5, 8) == "9-16", "an unknown field's column 8 is in %q", name(5, 8))
	must.True(t, g.Of(0, 1) == g.Of(0, 7) && g.Of(0, 1) != g.Of(0, 8), "columns 1, 7 and 8 are not in two units")
	s.ColumnGroups, s.ZeroBased = &event.ColumnGroups{Named: s.ColumnGroups.Named}, true
	g = NewGrouping(s)
	must.True(t, name(0, 5) == "5" && g.Of(0, 5) != g.Of(0, 6), "columns of no group do not die alone")
	other := NewGrouping(s)
	other.Of(0, 9)
	must.True(t, other.Hash(other.Of(0, 5)) == g.Hash(g.Of(0, 5)), "the hash of a unit depends on more than its name")
}

// TestGroupingOfLargeColumns checks that the memory of a Grouping depends on the number of columns it has seen, not on
// the largest column.
func TestGroupingOfLargeColumns(t *testing.T) {
	s := event.NewSchema(10, nil, 2)
	s.ColumnGroups = &event.ColumnGroups{Named: []event.NamedColumns{{Name: "far", Spans: []event.Span{{From: 1 << 30, To: math.MaxUint32}}}}}
	g := NewGrouping(s)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, column := range []uint32{5, denseColumns, 1 << 25, 1 << 30, 1<<31 - 1, 1 << 31, 5} {
		want := must.Either(column >= 1<<30, "far", fmt.Sprint(column+1))
		for range 2 {
			must.Equal(t, g.Name(g.Of(0, column)), want, "column", column)
		}
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	must.True(t, took <= 1<<20, "six columns took %d bytes", took)
	must.True(t, g.Len() == 4, "%d units, want 4", g.Len())
}

func TestParseSpans(t *testing.T) {
	for _, c := range []struct {
		text      string
		zeroBased bool
		want      []event.Span
	}{
		{"1-8,12", false, []event.Span{{From: 0, To: 8}, {From: 11, To: 12}}},
		{"0", true, []event.Span{{From: 0, To: 1}}},
		{"0", false, nil}, {"8-1", false, nil}, {"speed", false, nil}, {"1-", false, nil}, {"", false, nil}, {"4294967295", true, nil},
	} {
		got, ok := event.ParseSpans(c.text, c.zeroBased)
		must.True(t, ok == (c.want != nil) && len(got) == len(c.want), "%q: %v, %v", c.text, got, ok)
		for i := range c.want {
			must.True(t, !ok || got[i] == c.want[i], "%q: %v, want %v", c.text, got, c.want)
		}
	}
}

// TestRates checks the rate of a group: the mean over its fields of the fraction of events in which the field is null
// or, for a usual field, omitted.
func TestRates(t *testing.T) {
	s := event.NewSchema(5, nil, 2)
	for _, f := range []event.Field{
		{Name: "a1", Kind: event.Numeric, Group: "a"}, {Name: "a2", Kind: event.Numeric, Group: "a"},
		{Name: "b", Kind: event.Numeric}, {Name: "b", Kind: event.Categorical}, // one field of two kinds
		{Name: "optional", Kind: event.Categorical}, {Name: "text", Kind: event.Words}, {Name: "whole", Kind: event.Boolean}, {Name: "dead", Kind: event.Numeric},
		{Name: "a1^b", Kind: event.Cross},
	} {
		s.AddField(f)
	}
	var use FieldUse
	for i := range 1000 {
		var present, null []uint16
		put := func(id uint16, here, isNull bool) {
			if here {
				present = append(present, id)
			} else if isNull {
				null = append(null, id)
			}
		}
		put(1, i >= 400, true)                // null in 400 events
		put(2, i >= 100, false)               // omitted in 100 events
		put(3+uint16(i%2), i < 950, i%2 == 0) // missing in 50 events, otherwise a number or a string
		put(5, i < 100, false)                // rarely present
		put(6, i < 700, i < 720)              // text: null in 20 events; otherwise without words
		put(7, true, false)
		put(8, i == 0, true)
		set := NewFieldSet(len(s.Fields))
		set.Add(present)
		use.Count(set, null, -1)
	}
	want := map[string]float64{"a": 0.25, "b": 0.05, "text": 0.02, "dead": 0.9}
	must.EqualMaps(t, use.Rates(s.Fields), want, "rates")
	err := s.CheckRates()
	must.True(t, err == nil, "%v", err)
	err = event.NewSchema(5, nil, 2).CheckRates()
	must.True(t, err == event.ErrNoRates, "a schema without fields: %v", err)
}
