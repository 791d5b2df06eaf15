package readings

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
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
		of := &d.real
		if c.copies {
			of = &d.mask
		}
		for range 3 {
			of[c.kind][2].add(c.gain)
		}
		must.Equal(t, d.Earns(), c.want, c, "earns")
	}
	must.True(t, !(&Doubter{}).Earns(), "a new Doubter has earned something")
}
