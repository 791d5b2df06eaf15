package validate

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
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
				r = must.Get(NewReservoir(size, r.Encode()))(t)
				must.Require(t, r.met == met, "restored after %d events it has met %d", i, r.met)
			}
			r.Offer("t", 0, event(offset))
		}
		must.True(t, bytes.Equal(r.Encode(), want.Encode()), "%s: other events than the %d with the smallest hashes", name, size)
	}
	// The hash does not depend on an event's time, so the sample is spread evenly over time. The mean offset of its
	// events has a standard deviation of n/sqrt(12 size), which is 102.
	mean := 0.0
	for _, k := range want.events {
		mean += float64(k.Offset) / size
	}
	must.True(t, mean >= n/2-410 && mean <= n/2+410, "the mean offset of the sample is %v of %d", mean, n)
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
		must.Equal(t, below != math.MaxUint64, at > small, "after", at, "events the smallest hash let go is", below, "and whether one was let go")
		for i := at; i < n; i++ {
			r.Offer("t", 0, event(i))
		}
		want := 0
		for i := range n {
			if placeHash("t", 0, int64(i)) < below {
				want++
			}
		}
		must.True(t, len(r.events) == min(want, large), "opened as a larger one after %d events: it keeps %d, want %d of %d", at, len(r.events), large, want)
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
			r.Offer("t", 0, event(offset))
			must.Require(t, r.bytes <= limit, "%d bytes", r.bytes)
		}
		if want == nil {
			want = r.Encode()
		}
		must.True(t, bytes.Equal(r.Encode(), want) && len(r.events) >= 30 && len(r.events) <= 100, "order %d: %d events of %d bytes", seed, len(r.events), r.bytes)
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
	must.True(t, string(again.Encode()) == string(data), "what was read is not what was written")
	events := again.Events()
	must.True(t, len(events) == 5 && events[0].Target == 0.5+float64(events[0].Offset), "read %+v", events)
	for cut := range data {
		_, err := NewReservoir(5, data[:cut])
		must.Require(t, err != nil, "cut to %d of %d bytes and read", cut, len(data))
	}
}

func sampled(r *rand.Rand, offset int) *event.Example {
	e := &event.Example{Label: offset % 3, Target: r.NormFloat64(), Weight: 1 + r.Float64(), Time: int64(offset) * 10, Offset: int64(offset)}
	for i := range r.IntN(40) {
		eventtest.Put(e, uint32(3*i), r.NormFloat64())
	}
	if offset%2 == 0 {
		for i := range e.Features.Len() {
			e.Field = append(e.Field, uint16(i))
		}
		e.Missing = []uint16{70, 71}
	} else {
		e.MissingColumns = []uint32{1 << 20}
	}
	return e
}

// TestSampleIsBoundedAndUniform checks that a Sample stays within its byte limit and returns its events unchanged. It
// must be uniform over partitions, time and event sizes.
func TestSampleIsBoundedAndUniform(t *testing.T) {
	const n, limit = 60_000, 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	s := NewSample(limit)
	all := make([]*event.Example, n)
	var early *Sample
	var before [][]byte
	for i := range n {
		all[i] = sampled(r, i)
		s.Offer("t", int32(i%4), all[i])
		total := 0
		for _, chunk := range s.chunks {
			total += cap(chunk)
		}
		must.Require(t, total <= limit && total == s.bytes, "after %d events it takes up %d bytes, and counts %d", i, total, s.bytes)
		if i == 5000 {
			early = s.Freeze()
			for _, packed := range early.draw(n) {
				before = append(before, slices.Clone(packed))
			}
		}
	}
	must.Require(t, s.threshold != math.MaxUint64/4 && s.Len() >= 1000 && s.Len() <= n/8, "it keeps %d of %d, below %d: this tests nothing", s.Len(), n, s.threshold)
	mean, size := 0.0, 0.0
	for _, packed := range s.draw(n) {
		var e event.Example
		unpack(packed, &e)
		want := *all[e.Offset]
		partition, offset := packedPlace(packed)
		if len(want.Features.Index) == 0 {
			want.Features, e.Features, want.Field, e.Field = event.Vec{}, event.Vec{}, nil, nil
		}
		must.Require(t, partition == int32(e.Offset%4) && offset == e.Offset && reflect.DeepEqual(clean(e), clean(want)), "kept %+v\nwant %+v", e, want)
		mean += float64(e.Offset) / float64(s.Len())
		size += float64(e.Features.Len()) / float64(s.Len())
	}
	// The standard deviations of the two means are n/sqrt(12 k) and 11.5/sqrt(k), where the sample size k is about
	// 2,000.
	must.True(t, mean >= n/2-5*400 && mean <= n/2+5*400 && size >= 19.5-5*.26 && size <= 19.5+5*.26, "mean offset %v of %d, mean length %v", mean, n, size)
	few := s.draw(500)
	must.True(t, len(few) >= 400 && len(few) <= 600, "draws %d for 500", len(few))
	for i, packed := range early.draw(n) {
		must.Require(t, slices.Equal(packed, before[i]), "what was frozen has changed")
	}
	s = NewSample(1000)
	s.Offer("t", 0, &event.Example{Weight: 1, Features: event.Vec{Index: make([]uint32, 100), Value: make([]float64, 100)}})
	must.True(t, s.bytes <= 1000, "one event alone takes up more than there is")
}

// TestSampleStandsForTheStream checks that each half of a sample represents all learned events. An event must count by
// its own weight times the weight of its class.
func TestSampleStandsForTheStream(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	live := model.NewLinear(schema, "logistic", "none", [][]float64{make([]float64, 256)}, []float64{0})
	const n = 6000
	live.Events = n
	s := NewSample(SampleBytes)
	for i := range n {
		e := event.Example{Label: i / 3 % 2, Weight: float64(1 + i%2), Offset: int64(i), Features: event.Vec{Index: []uint32{3}, Value: []float64{1}}}
		s.Offer("t", 0, &e)
	}
	v := &Validator{Config: Config{Holdout: 4}}
	v.Learner.ClassWeight = map[string]float64{"yes": 3}
	got := must.Get(v.gatherSample(t.Context(), Request{Live: live, Sample: s, Most: n}, schema, &throttle{fraction: 1}))(t)
	d := got.evidence.LearnedData()
	// There are four kinds of events: event weight 1 or 2, and class weight 1 or 3. Compare their weights with the
	// number of events of each kind.
	sum, lightest := 0.0, math.Inf(1)
	for i := range d.Rows() {
		sum, lightest = sum+d.Weight(i), min(lightest, d.Weight(i))
	}
	must.True(t, d.Rows() >= 300 && d.Rows() <= s.Len()*45/100, "%d of %d events are solved for, want some 35 in 100", d.Rows(), s.Len())
	each := n / float64(d.Rows())
	must.True(t, math.Abs(lightest-each) <= 1e-9*each, "an event stands for %v, want %v", lightest, each)
	want := 3.0 * n
	must.True(t, math.Abs(sum-want) <= 0.1*want, "all of them stand for %v, want %v", sum, want)
}

// clean returns e with empty slices replaced by nil.
func clean(e event.Example) event.Example {
	for _, list := range []*[]uint16{&e.Field, &e.Missing} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(e.MissingColumns) == 0 {
		e.MissingColumns = nil
	}
	return e
}
