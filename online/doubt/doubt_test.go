package doubt

import (
	"math"
	"testing"
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
	if w := weight(0, lost, none); w < 0.8 {
		t.Errorf("the weight after an infinite loss and 40 gains is %v", w)
	}
}

// TestRestWeight checks that the prediction without fill values has a weight only where it has gained.
func TestRestWeight(t *testing.T) {
	d := &Doubter{}
	d.Readings.Follow([]uint32{1, 2, 3})
	for i := range d.tails {
		rest := &d.tails[i].real[restRow]
		for range 2 * gainsLeast {
			rest[1].add(1)
			rest[2].add(-1)
		}
		rest[3].add(1)
	}
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
