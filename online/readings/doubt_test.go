package readings

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// TestMixed compares the loss of a mixture with that of mixed probabilities, also of probabilities 0.
func TestMixed(t *testing.T) {
	for _, c := range []struct{ weight, p, q float64 }{{0.3, 0.9, 0.2}, {0.95, 0.01, 0.99}, {0, 0.4, 0}, {0.5, 0, 0.4}, {0.5, 0.4, 0}, {0, 0, 0.4}} {
		got, want := mixed(c.weight, -math.Log(c.p), -math.Log(c.q)), -math.Log(c.p+c.weight*(c.q-c.p))
		if got != want && !(math.Abs(got-want) < 1e-12) {
			t.Errorf("weight %v of %v and %v: loss %v, want %v", c.weight, c.p, c.q, got, want)
		}
	}
	if got := mixed(0.5, 1e4, 1e4+1); !(math.Abs(got-1e4+math.Log(0.5+0.5/math.E)) < 1e-9) {
		t.Errorf("losses whose probabilities underflow: %v", got)
	}
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
	if got := gained(math.NaN()); got != none {
		t.Errorf("a gain that is no number: %v", got)
	}
	if got := gained(math.Inf(1)); got != gained(30) {
		t.Errorf("an infinite gain: %v", got)
	}
	lost := gained(math.Inf(-1))
	for i, w := range candidates {
		if want := math.Log(1 - w); lost.sums[i] != want {
			t.Errorf("an infinite loss with the weight %v: %v, want %v", w, lost.sums[i], want)
		}
	}
	for range 40 {
		lost.add(1)
	}
	l := &Doubter{}
	l.real[0][1] = lost
	if w := l.weight(0, 1); w < 0.8 {
		t.Errorf("the weight after an infinite loss and 40 gains is %v", w)
	}
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
	if r := got.Rest; r[1] < 0.8 || r[2] > 0.05 || r[0] != 0 || r[3] != 0 {
		t.Errorf("weights %v", r)
	}
	if w := got.Weights; w[0][1] != w[0][2] || w[1][1] != 0 || w[2][1] != 0 {
		t.Errorf("weights of corrected predictions %v", w)
	}
	if got := d.Published(true); got.Corrects() || got.Rest != [len(got.Rest)]float64{} {
		t.Errorf("readings that are only reported: %v", got.Rest)
	}
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
		if events[of] = true; int(x)%columns != i || of > number {
			t.Fatalf("column %d reads %v", i, x)
		}
	}
	if len(events) < 4 || !events[number] {
		t.Errorf("readings of the events %v", events)
	}
}

// TestPooledMasks checks that masked copies in one range of the evidence give others a weight, until there are enough
// events of the stream.
func TestPooledMasks(t *testing.T) {
	l := &Doubter{}
	for range 3 * gainsLeast {
		l.mask[model.DoubtsOther][4].add(2)
	}
	if far, near := l.weight(model.DoubtsOther, 0), l.weight(model.DoubtsOther, 4); !(far > 0.5 && far < near) {
		t.Errorf("the weights %v and, where the copies are, %v", far, near)
	}
	for range realEnough + 1 {
		l.real[model.DoubtsOther][0].add(-1)
	}
	if w := l.weight(model.DoubtsOther, 0); w > 0.1 {
		t.Errorf("the weight %v where events have lost", w)
	}
}

// TestRing compares the quantiles of a ring with those of sorted values, after many values, after equal and infinite ones,
// and after its state was read.
func TestRing(t *testing.T) {
	r, all, x := ring{}, []float64(nil), rand.New(rand.NewPCG(4, 5))
	if got := r.quantile(0.5, 7); got != 7 {
		t.Errorf("the quantile of nothing is %v", got)
	}
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
			if r.state(coder.Read(w.Out)); len(r.values) != min(n+1, ringSize) {
				t.Fatalf("the state has %d values", len(r.values))
			}
		}
		kept := slices.Sorted(slices.Values(all[max(0, len(all)-ringSize):]))
		for _, q := range []float64{0, 0.5, 0.9, 0.999} {
			want := 7.0
			if len(kept) >= ringLeast {
				want = kept[int(q*float64(len(kept)))]
			}
			if got := r.quantile(q, 7); got != want {
				t.Fatalf("after %d values the quantile %v is %v, want %v", n+1, q, got, want)
			}
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
		if got := d.Earns(); got != c.want {
			t.Errorf("%+v: earns is %v", c, got)
		}
	}
	if (&Doubter{}).Earns() {
		t.Error("a new Doubter has earned something")
	}
}
