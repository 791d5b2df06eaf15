package readings

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/mixture"
)

// TestUsualFields checks that a field counts as usual as long as most events have it.
func TestUsualFields(t *testing.T) {
	schema := eventtest.Schema(10, "", "no", "yes")
	f, r, number := New(model.DefaultMissingPolicies(), "", false), rand.New(rand.NewPCG(1, 2)), uint64(0)
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
	m := f.Missing
	must.Require(t, len(m.Usual) == 10 && len(m.NullIsValue) == 0, "%+v", m)
	// Field 3 is missing from now on. After some time that is usual.
	dead := func(n int, null, tells bool) {
		for range n {
			e := next()
			if e.Label = r.IntN(2); tells {
				e.Label = 0
			}
			if null && r.IntN(10) == 0 {
				take(e)
				continue
			}
			if tells {
				e.Label = 1
			}
			if i := slices.Index(e.Field, 3); i >= 0 {
				e.Features.Index, e.Features.Value, e.Field = slices.Delete(e.Features.Index, i, i+1), slices.Delete(e.Features.Value, i, i+1), slices.Delete(e.Field, i, i+1)
			}
			if null {
				e.Missing = []uint16{3}
			}
			take(e)
		}
	}
	dead(1000, false, false)
	m = f.Missing
	must.True(t, slices.Contains(m.Usual, 3), "after 1,000 events: %+v", m)
	dead(20_000, false, false)
	m = f.Missing
	must.True(t, !slices.Contains(m.Usual, 3) && len(m.Usual) == 9, "after 21,000 events: %+v", m)
	dead(20_000, true, false)
	m = f.Missing
	must.True(t, !slices.Contains(m.NullIsValue, 3) && slices.Contains(m.Usual, 3), "null for 20,000 events, whatever their class: %+v", m)
	dead(20_000, true, true)
	m = f.Missing
	must.True(t, slices.Equal(m.NullIsValue, []uint16{3}) && !slices.Contains(m.Usual, 3), "null for 20,000 events, most of one class: %+v", m)
	rate := f.Rates(schema.Fields)["a"]
	must.True(t, rate >= 0.25 && rate <= 0.35, "rate %v", rate)
	rate = f.Rates(schema.Fields)["c"]
	must.True(t, rate >= 0.7, "rate %v", rate)
	var a, b coder.Coder
	f.State(&a)
	again := New(model.DefaultMissingPolicies(), "", false)
	c := coder.Read(a.Out)
	again.State(c)
	same := slices.Equal(again.usual.Null, f.usual.Null) && slices.Equal(again.usual.Present, f.usual.Present) && slices.Equal(again.Kinds.Present, f.Kinds.Present)
	again.State(&b)
	must.True(t, c.Done() && same && !again.Misfit() && bytes.Equal(a.Out, b.Out), "the state does not come back")
}

// TestAnswers checks that losses decide how a lack of a field is read, whatever most events suggest.
func TestAnswers(t *testing.T) {
	schema := eventtest.Schema(2, "", "no", "yes")
	f := New(model.DefaultMissingPolicies(), "", false)
	number, asked := uint64(0), 0
	feed := func(n int, gain float64) {
		for range n {
			number++
			e := &event.Example{Label: int(number / 3 % 2)}
			if eventtest.Put(e, 1, 5, 1); number%3 == 0 {
				eventtest.Put(e, 2, 5, 2)
			} else {
				e.Missing = []uint16{2}
			}
			if id, asks := f.Ask(e, schema.Fields, number); asks {
				asked++
				must.Require(t, id == 2 && len(e.Missing) != 0, "event %d is asked about field %d", number, id)
				loss := []float64{0.5, 0.5 - gain} // as a value, as a loss
				if slices.Contains(f.Missing.Usual, 2) {
					slices.Reverse(loss)
				}
				f.Answer(id, loss[0], loss[1])
			}
			f.Take(e, schema.Fields)
			f.Count(e, e, schema.Fields, number)
			f.Review(schema.Fields)
		}
	}
	feed(1024, 0)
	must.Require(t, asked <= 0 && slices.Contains(f.Missing.Usual, 2), "asked %d times, %+v", asked, f.Missing)
	feed(10_000, -0.1)
	must.True(t, asked >= 100 && slices.Equal(f.Missing.NullIsValue, []uint16{2}) && !slices.Contains(f.Missing.Usual, 2), "better as a value, asked %d times: %+v", asked, f.Missing)
	feed(200_000, 0.1)
	must.True(t, slices.Contains(f.Missing.Usual, 2) && len(f.Missing.NullIsValue) <= 0, "better as a loss: %+v", f.Missing)
}
