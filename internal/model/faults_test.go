package model

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// TestDeclare compares Declare with a loop over the readings, for random faults and events. Declare must not change the
// event, and a second call must change nothing.
func TestDeclare(t *testing.T) {
	schema := event.NewSchema(8, []string{"a", "b"}, 2)
	schema.Crosses = [][2]string{{"x", "y"}, {"y", "z"}}
	for _, f := range []event.Field{{Name: "x", Kind: event.Categorical}, {Name: "x", Kind: event.Numeric}, {Name: "y", Kind: event.Numeric}, {Name: "z", Kind: event.Numeric}, {Name: "w", Kind: event.Categorical},
		{Name: "x^y", Kind: event.Cross}, {Name: "y^z", Kind: event.Cross}} {
		schema.AddField(f)
	}
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, 1, -3, 250}
	var room event.Example
	changed := 0
	for range 5000 {
		var stuck []StuckField
		var placeholders []StuckField
		for id := uint16(2); id <= 4; id++ {
			if r.IntN(3) == 0 {
				stuck = append(stuck, StuckField{id, values[r.IntN(4)]})
			}
			if r.IntN(3) == 0 {
				placeholders = append(placeholders, StuckField{id, values[r.IntN(4)]})
			}
		}
		h := Head{Schema: schema, Faults: NewFaults(stuck, placeholders)}
		e := &event.Example{Key: []byte("k"), Weight: 2, Label: 1}
		for id := uint16(1); id < 8; id++ {
			if r.IntN(4) > 0 {
				eventtest.Put(e, uint32(10*id), values[r.IntN(4)], id)
			} else if id > 1 && r.IntN(2) == 0 {
				e.Missing = append(e.Missing, id)
			}
		}
		wantMissing, dead := slices.Clone(e.Missing), map[string]bool{}
		var wantStuck []string
		faulty := func(id uint16, x float64) bool {
			return slices.Contains(stuck, StuckField{id, x}) || slices.Contains(placeholders, StuckField{id, x})
		}
		for i, id := range e.Field {
			if faulty(id, e.Features.Value[i]) {
				dead[schema.Fields[id].Name] = true
				if wantMissing = append(wantMissing, id); id == 2 {
					wantMissing[len(wantMissing)-1] = 1 // the first field with that name
				}
			}
			if slices.Contains(stuck, StuckField{id, e.Features.Value[i]}) {
				wantStuck = append(wantStuck, schema.Fields[id].Name)
			}
		}
		var want []uint16
		for i, id := range e.Field {
			if faulty(id, e.Features.Value[i]) || id == 6 && (dead["x"] || dead["y"]) || id == 7 && (dead["y"] || dead["z"]) {
				continue
			}
			want = append(want, id)
		}
		slices.Sort(wantMissing)
		wantMissing = slices.Compact(wantMissing)
		before := *e
		before.Features, before.Field, before.Missing = e.Features.Clone(), slices.Clone(e.Field), slices.Clone(e.Missing)
		got := h.Declare(e, &room)
		must.Require(t, slices.Equal(got.Field, want) && slices.Equal(got.Missing, wantMissing) && got.Features.Check() == nil && got.Features.Len() == len(want),
			"faults %+v of %+v: fields %v missing %v, want %v and %v", h.Faults, e, got.Field, got.Missing, want, wantMissing)
		for i, id := range got.Field {
			at := slices.Index(e.Field, id)
			must.Require(t, got.Features.Value[i] == e.Features.Value[at] && got.Features.Index[i] == e.Features.Index[at], "field %d: %v", id, got.Features)
		}
		must.Require(t, (got == e) == (len(dead) == 0) && got.Declared == (len(dead) > 0) && string(got.Key) == "k" && got.Weight == 2 && got.Label == 1, "%+v", got)
		must.Require(t, slices.Equal(e.Field, before.Field) && slices.Equal(e.Missing, before.Missing) && slices.Equal(e.Features.Value, before.Features.Value) && !e.Declared, "the event has changed: %+v", e)
		must.Require(t, slices.Equal(h.StuckFields(e), wantStuck), "stuck %v, want %v", h.StuckFields(e), wantStuck)
		if len(dead) > 0 {
			changed++
			must.Require(t, h.Declare(got, &event.Example{}) == got, "what has been declared is declared again")
			names := h.MissingFields(e)
			must.Require(t, slices.Equal(names, h.MissingFields(got)), "missing %v and %v", names, h.MissingFields(got))
		}
	}
	must.True(t, changed >= 1000, "%d events of 5,000 have a fault", changed)
}

// TestFaultsJSON checks that a Faults round-trips through JSON, and that an inconsistent Faults is an error.
func TestFaultsJSON(t *testing.T) {
	f := NewFaults([]StuckField{{2, 0.1}, {9, math.Copysign(0, -1)}}, []StuckField{{1, -999}, {2, 0}})
	data := must.Get(json.Marshal(f))(t)
	var again Faults
	if err := json.Unmarshal(data, &again); err != nil || !slices.Equal(again.Stuck, f.Stuck) || !slices.Equal(again.Placeholders, f.Placeholders) || !again.at(2, 0.1) || !again.at(2, 0) || !again.at(9, 0) || !again.at(1, -999) || again.at(1, 0.1) || again.at(3, 0) {
		t.Errorf("%s: %+v, %v", data, again, err)
	}
	must.True(t, NewFaults(nil, nil) == nil, "no fault is not nil")
	for _, text := range []string{`{"stuck":[{"field":2},{"field":2}]}`, `{"stuck":[{"field":2},{"field":1}]}`, `{"placeholders":[{"field":3},{"field":1}]}`} {
		must.Fails(t, json.Unmarshal([]byte(text), &Faults{}), text, "is taken")
	}
}
