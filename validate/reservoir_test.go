package validate

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
)

// The reservoir holds the events with the smallest hashes, whatever order they
// come in and wherever it is saved and restored on the way.
func TestReservoirKeepsTheSmallestHashes(t *testing.T) {
	const n, size = 5000, 200
	event := func(offset int) *blankout.Example {
		return &blankout.Example{Label: offset % 2, Weight: 1, Offset: int64(offset),
			Features: blankout.Vec{Index: []uint32{uint32(offset % 7)}, Value: []float64{float64(offset)}}}
	}
	// One that has room for every event knows every hash.
	all := &Reservoir{size: n}
	for i := range n {
		all.Offer("t", 0, event(i))
	}
	slices.SortFunc(all.events, func(a, b keptEvent) int { return cmp.Compare(a.hash, b.hash) })
	want := &Reservoir{size: size, events: all.events[:size], met: n}

	forwards, backwards := make([]int, n), make([]int, n)
	for i := range n {
		forwards[i], backwards[i] = i, n-1-i
	}
	for name, order := range map[string][]int{
		"forwards": forwards, "backwards": backwards, "shuffled": rand.New(rand.NewPCG(1, 2)).Perm(n),
	} {
		r, err := NewReservoir(size, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, offset := range order {
			if i == size/2 || i == size || i == n/2 {
				met := r.met
				if r, err = NewReservoir(size, r.Encode()); err != nil || r.met != met {
					t.Fatalf("restored after %d events: %v", i, err)
				}
			}
			r.Offer("t", 0, event(offset))
		}
		if !bytes.Equal(r.Encode(), want.Encode()) {
			t.Errorf("%s: other events than the %d with the smallest hashes", name, size)
		}
	}
	// The hash knows nothing of an event's place, so the sample is spread evenly:
	// its mean offset has a deviation of n/sqrt(12 size), which is 102.
	mean := 0.0
	for _, k := range want.events {
		mean += float64(k.Offset) / size
	}
	if mean < n/2-410 || mean > n/2+410 {
		t.Errorf("the mean offset of the sample is %v of %d", mean, n)
	}
}

// A reservoir that is full keeps its size when it is opened as a larger one: events that it
// has let go cannot come back, and without them the sample would not be even.
func TestReservoirThatIsFullDoesNotGrow(t *testing.T) {
	event := func(offset int) *blankout.Example {
		return &blankout.Example{Weight: 1, Offset: int64(offset)}
	}
	const small, large, n = 20, 60, 500
	want := &Reservoir{size: small}
	for i := range n {
		want.Offer("t", 0, event(i))
	}
	for _, at := range []int{small - 1, small, small + 1, n / 2} {
		r := &Reservoir{size: small}
		for i := range at {
			r.Offer("t", 0, event(i))
		}
		r, err := NewReservoir(large, r.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for i := at; i < n; i++ {
			r.Offer("t", 0, event(i))
		}
		if full := at > small; full != bytes.Equal(r.Encode(), want.Encode()) || len(r.events) != map[bool]int{true: small, false: large}[full] {
			t.Errorf("opened as a larger one after %d events: it keeps %d", at, len(r.events))
		}
	}
}
