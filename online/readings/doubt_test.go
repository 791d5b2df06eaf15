package readings

import (
	"bytes"
	"math"
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

// TestMixed compares the loss of a mixture with that of mixed probabilities, also of probabilities 0.
func TestMixed(t *testing.T) {
	for _, c := range []struct{ weight, p, q float64 }{{0.3, 0.9, 0.2}, {0.95, 0.01, 0.99}, {0, 0.4, 0}, {0.5, 0, 0.4}, {0.5, 0.4, 0}, {0, 0, 0.4}} {
		got, want := mixed(c.weight, -math.Log(c.p), -math.Log(c.q)), -math.Log(c.p+c.weight*(c.q-c.p))
		must.True(t, got == want || math.Abs(got-want) < 1e-12, "weight %v of %v and %v: loss %v, want %v", c.weight, c.p, c.q, got, want)
	}
	got := mixed(0.5, 1e4, 1e4+1)
	must.True(t, math.Abs(got-1e4+math.Log(0.5+0.5/math.E)) < 1e-9, "losses whose probabilities underflow: %v", got)
}

// TestInfiniteGains checks that one event with an infinite loss decides no weight, and that a gain that is no number is
// ignored.
func TestInfiniteGains(t *testing.T) {
	var none gains
	gained := func(all ...float64) (g gains) {
		for _, gain := range all {
			g.add(gain)
		}
		return g
	}
	must.Equal(t, gained(math.NaN()), none, "a gain that is no number")
	must.Equal(t, gained(math.Inf(1)), gained(30), "an infinite gain")
	lost := gained(math.Inf(-1))
	for i, w := range candidates {
		want := math.Log(1 - w)
		must.True(t, lost.sums[i] == want, "an infinite loss with the weight %v: %v, want %v", w, lost.sums[i], want)
	}
	for range 40 {
		lost.add(1)
	}
	l := &Doubter{}
	l.real[0][1] = lost
	w := l.weight(0, 1)
	must.True(t, w >= 0.8, "the weight after an infinite loss and 40 gains is %v", w)
}

// TestRestWeight checks that the prediction without fill values has a weight only where it has gained.
func TestRestWeight(t *testing.T) {
	d := &Doubter{}
	d.Readings.Follow([]uint32{1, 2, 3})
	rest := &d.real[restRow]
	for range 2 * gainsLeast {
		rest[1].add(1)
		rest[2].add(-1)
	}
	rest[3].add(1)
	got := d.Published(false)
	r := got.Rest
	must.True(t, r[1] >= 0.8 && r[2] <= 0.05 && r[0] == 0 && r[3] == 0, "weights %v", r)
	w := got.Weights
	must.True(t, w[0][1] == w[0][2] && w[1][1] == 0 && w[2][1] == 0, "weights of corrected predictions %v", w)
	got = d.Published(true)
	must.True(t, !got.Corrects() && got.Rest == [len(got.Rest)]float64{}, "readings that are only reported: %v", got.Rest)
}

// TestStaleCopies checks that stale readings of a copy are of many earlier events, and no reading is of none.
func TestStaleCopies(t *testing.T) {
	const columns = 40
	d, index := &Doubter{}, make([]uint32, columns)
	for i := range index {
		index[i] = uint32(i)
	}
	d.Readings.Follow(index)
	read := func(number int) *event.Example {
		e := &event.Example{Features: event.Vec{Index: index, Value: make([]float64, columns)}}
		for i := range e.Features.Value {
			e.Features.Value[i] = float64(number*columns + i)
		}
		return e
	}
	number := 0
	for ; !d.Readings.Due() || number == 0; number++ {
		d.Readings.Note(read(number))
	}
	d.Readings.Learn()
	events := map[int]bool{}
	out := d.stale(&Event{Example: read(number), Number: 7})
	for i, x := range out.Features.Value {
		of := int(x) / columns
		events[of] = true
		must.Require(t, int(x)%columns == i && of <= number, "column %d reads %v", i, x)
	}
	must.True(t, len(events) >= 4 && events[number], "readings of the events %v", events)
}

// TestPooledMasks checks that masked copies in one range of the evidence give others a weight, until there are enough
// events of the stream.
func TestPooledMasks(t *testing.T) {
	l := &Doubter{}
	for range 3 * gainsLeast {
		l.mask[model.DoubtsOther][4].add(2)
	}
	far, near := l.weight(model.DoubtsOther, 0), l.weight(model.DoubtsOther, 4)
	must.True(t, far > 0.5 && far < near, "the weights %v and, where the copies are, %v", far, near)
	for range realEnough + 1 {
		l.real[model.DoubtsOther][0].add(-1)
	}
	w := l.weight(model.DoubtsOther, 0)
	must.True(t, w <= 0.1, "the weight %v where events have lost", w)
}

// TestRing compares the quantiles of a ring with those of sorted values, after many values, after equal and infinite ones,
// and after its state was read.
func TestRing(t *testing.T) {
	r, all, x := ring{}, []float64(nil), rand.New(rand.NewPCG(4, 5))
	must.Equal(t, r.quantile(0.5, 7), 7, "the quantile of nothing")
	for n := range 3*ringSize + 40 {
		value := math.Round(8 * x.NormFloat64())
		if n%50 == 3 {
			value = math.Inf(1)
		}
		r.push(value)
		all = append(all, min(value, unbounded))
		if n%97 == 5 {
			var w coder.Coder
			r.state(&w)
			r = ring{}
			r.state(coder.Read(w.Out))
			must.Require(t, len(r.values) == min(n+1, ringSize), "the state has %d values", len(r.values))
		}
		kept := slices.Sorted(slices.Values(all[max(0, len(all)-ringSize):]))
		for _, q := range []float64{0, 0.5, 0.9, 0.999} {
			want := 7.0
			if len(kept) >= ringLeast {
				want = kept[int(q*float64(len(kept)))]
			}
			got := r.quantile(q, 7)
			must.Require(t, got == want, "after %d values the quantile %v is %v, want %v", n+1, q, got, want)
		}
	}
}

// TestEarns checks what counts as worthwhile: gains of doubted numbers that contradict others, in the stream or in copies, but
// not gains of fill values.
func TestEarns(t *testing.T) {
	for _, c := range []struct {
		kind   int
		gain   float64
		copies bool
		want   bool
	}{
		{model.DoubtsFill, 2, false, false}, {restRow, 2, false, false}, {model.DoubtsZero, 2, false, true}, {model.DoubtsOther, 2, true, true}, {model.DoubtsOther, -2, false, false},
	} {
		d := &Doubter{}
		of := must.Either(c.copies, &d.mask, &d.real)
		for range 3 {
			of[c.kind][2].add(c.gain)
		}
		must.Equal(t, d.Earns(), c.want, c, "earns")
	}
	must.True(t, !(&Doubter{}).Earns(), "a new Doubter has earned something")
}

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
