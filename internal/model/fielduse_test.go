package model

import (
	"maps"
	"testing"

	"blankout/internal/event"
)

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
	if got := use.Rates(s.Fields); !maps.Equal(got, want) {
		t.Errorf("rates %v, want %v", got, want)
	}
	if err := s.CheckRates(); err != nil {
		t.Error(err)
	}
	if err := event.NewSchema(5, nil, 2).CheckRates(); err != event.ErrNoRates {
		t.Errorf("a schema without fields: %v", err)
	}
}
