package fields

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/online/mixture"
)

// TestUsualFields checks that a field counts as usual as long as most events have it.
func TestUsualFields(t *testing.T) {
	schema := eventtest.Schema(10, "", "no", "yes")
	f, r, number := New(model.DefaultMissingPolicies(), ""), rand.New(rand.NewPCG(1, 2)), uint64(0)
	next := func() *event.Example {
		e := &event.Example{}
		for id := uint16(1); id <= 10; id++ {
			if r.Float64() > 0.3 {
				eventtest.Put(e, uint32(id), 5, id)
			}
		}
		return e
	}
	take := func(e *event.Example) {
		number++
		f.Take(e, schema.Fields)
		if missing := 10 - len(e.Field); number > 1024 && len(f.Missing.Usual) == 10 && (f.Missed.Some() != (missing > 0) || missing > 0 && f.Range != mixture.Range(f.Missed) || !f.Named) {
			t.Fatalf("an event of %v lacks %+v", e.Field, f.Current)
		}
		f.Count(e, e, schema.Fields, number)
		f.Review(schema.Fields)
	}
	for range 2000 {
		take(next())
	}
	if m := f.Missing; len(m.Usual) != 10 || len(m.UsuallyNull) != 0 {
		t.Fatalf("%+v", m)
	}
	// Field 3 is missing from now on. After some time that is usual.
	dead := func(n int, null bool) {
		for range n {
			e := next()
			if i := slices.Index(e.Field, 3); i >= 0 {
				e.Features.Index, e.Features.Value, e.Field = slices.Delete(e.Features.Index, i, i+1), slices.Delete(e.Features.Value, i, i+1), slices.Delete(e.Field, i, i+1)
			}
			if null {
				e.Missing = []uint16{3}
			}
			take(e)
		}
	}
	dead(1000, false)
	if m := f.Missing; !slices.Contains(m.Usual, 3) {
		t.Errorf("after 1,000 events: %+v", m)
	}
	dead(20_000, false)
	if m := f.Missing; slices.Contains(m.Usual, 3) || len(m.Usual) != 9 {
		t.Errorf("after 21,000 events: %+v", m)
	}
	dead(20_000, true)
	if m := f.Missing; !slices.Equal(m.UsuallyNull, []uint16{3}) || slices.Contains(m.Usual, 3) {
		t.Errorf("null for 20,000 events: %+v", m)
	}
	if rate := f.Rates(schema.Fields)["a"]; rate < 0.25 || rate > 0.35 {
		t.Errorf("rate %v", rate)
	}
	if rate := f.Rates(schema.Fields)["c"]; rate < 0.7 {
		t.Errorf("rate %v", rate)
	}
	var a, b coder.Coder
	f.State(&a)
	again := New(model.DefaultMissingPolicies(), "")
	c := coder.Read(a.Out)
	again.State(c)
	same := slices.Equal(again.usual.Null, f.usual.Null) && slices.Equal(again.usual.Present, f.usual.Present) && slices.Equal(again.Kinds.Present, f.Kinds.Present)
	if again.State(&b); !c.Done() || !same || again.Misfit() || !bytes.Equal(a.Out, b.Out) {
		t.Error("the state does not come back")
	}
}
