package validate

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestReservoirKeepsTheSmallestHashes offers events in any order, with any number of restarts. The reservoir must hold
// the events with the smallest hashes.
func TestReservoirKeepsTheSmallestHashes(t *testing.T) {
	const n, size = 5000, 200
	event := func(offset int) *event.Example {
		return &event.Example{Label: offset % 2, Weight: 1, Offset: int64(offset),
			Features: event.Vec{Index: []uint32{uint32(offset % 7)}, Value: []float64{float64(offset)}}}
	}
	// A reservoir that is large enough for every event has every hash.
	all := newReservoir(t, n)
	for i := range n {
		all.Offer("t", 0, event(i))
	}
	slices.SortFunc(all.events, func(a, b keptEvent) int { return cmp.Compare(a.hash, b.hash) })
	want := &Reservoir{size: size, events: all.events[:size], met: n, below: all.events[size].hash}

	forwards, backwards := make([]int, n), make([]int, n)
	for i := range n {
		forwards[i], backwards[i] = i, n-1-i
	}
	for name, order := range map[string][]int{
		"forwards": forwards, "backwards": backwards, "shuffled": rand.New(rand.NewPCG(1, 2)).Perm(n),
	} {
		r := must.Get(NewReservoir(size, nil))(t)
		for i, offset := range order {
			if i == size/2 || i == size || i == n/2 {
				met := r.met
				if r = must.Get(NewReservoir(size, r.Encode()))(t); r.met != met {
					t.Fatalf("restored after %d events it has met %d", i, r.met)
				}
			}
			r.Offer("t", 0, event(offset))
		}
		if !bytes.Equal(r.Encode(), want.Encode()) {
			t.Errorf("%s: other events than the %d with the smallest hashes", name, size)
		}
	}
	// The hash does not depend on an event's time, so the sample is spread evenly over time. The mean offset of its
	// events has a standard deviation of n/sqrt(12 size), which is 102.
	mean := 0.0
	for _, k := range want.events {
		mean += float64(k.Offset) / size
	}
	if mean < n/2-410 || mean > n/2+410 {
		t.Errorf("the mean offset of the sample is %v of %d", mean, n)
	}
}

func newReservoir(t *testing.T, size int) *Reservoir {
	t.Helper()
	return must.Get(NewReservoir(size, nil))(t)
}

// TestReservoirOpenedAsLarger opens a full reservoir with a larger size. The reservoir must keep only events whose
// hashes are below the smallest hash that it has dropped. Otherwise the sample would not be uniform.
func TestReservoirOpenedAsLarger(t *testing.T) {
	event := func(offset int) *event.Example {
		return &event.Example{Weight: 1, Offset: int64(offset)}
	}
	const small, large, n = 20, 60, 500
	for _, at := range []int{small - 1, small, small + 1, n / 2} {
		r := newReservoir(t, small)
		for i := range at {
			r.Offer("t", 0, event(i))
		}
		r = must.Get(NewReservoir(large, r.Encode()))(t)
		below := r.below
		if lost := at > small; lost != (below != math.MaxUint64) {
			t.Errorf("after %d events the smallest hash let go is %d", at, below)
		}
		for i := at; i < n; i++ {
			r.Offer("t", 0, event(i))
		}
		want := 0
		for i := range n {
			if placeHash("t", 0, int64(i)) < below {
				want++
			}
		}
		if len(r.events) != min(want, large) {
			t.Errorf("opened as a larger one after %d events: it keeps %d, want %d of %d", at, len(r.events), large, want)
		}
	}
}

// TestReservoirOfLargeEvents checks that the total bytes of large events are limited. The reservoir must keep the
// events with the smallest hashes that fit, in any order and across restarts. A few much larger events must not
// displace the other events.
func TestReservoirOfLargeEvents(t *testing.T) {
	const n, limit = 400, 64 << 10
	event := func(offset int) *event.Example {
		size := 20 + 80*(offset%3)
		if offset%50 == 0 {
			size = 1000
		}
		return &event.Example{Weight: 1, Offset: int64(offset), Features: event.Vec{Index: make([]uint32, size), Value: make([]float64, size)}}
	}
	var want []byte
	for seed := range uint64(5) {
		r := newReservoir(t, n)
		r.limit = limit
		for i, offset := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
			if i%150 == 100 {
				again := must.Get(NewReservoir(n, r.Encode()))(t)
				again.limit = limit
				r = again
			}
			if r.Offer("t", 0, event(offset)); r.bytes > limit {
				t.Fatalf("%d bytes", r.bytes)
			}
		}
		if want == nil {
			want = r.Encode()
		}
		if !bytes.Equal(r.Encode(), want) || len(r.events) < 30 || len(r.events) > 100 {
			t.Errorf("order %d: %d events of %d bytes", seed, len(r.events), r.bytes)
		}
	}
}

// TestReservoirOfRegression checks that a reservoir keeps regression targets, and that truncated data of a reservoir are
// rejected.
func TestReservoirOfRegression(t *testing.T) {
	r := must.Get(NewReservoir(5, nil))(t)
	for i := range int64(20) {
		r.Offer("x", 0, &event.Example{Offset: i, Weight: 1, Target: 0.5 + float64(i), Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}})
	}
	data := r.Encode()
	again := must.Get(NewReservoir(5, data))(t)
	if string(again.Encode()) != string(data) {
		t.Error("what was read is not what was written")
	}
	if events := again.Events(); len(events) != 5 || events[0].Target != 0.5+float64(events[0].Offset) {
		t.Errorf("read %+v", events)
	}
	for cut := range data {
		if _, err := NewReservoir(5, data[:cut]); err == nil {
			t.Fatalf("cut to %d of %d bytes and read", cut, len(data))
		}
	}
}
