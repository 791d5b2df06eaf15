package validate

// This file implements the sample of events that is stored in checkpoints.

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// Reservoir is a uniform sample of the labeled events, for validations after the log has deleted them. It keeps the
// events whose position in the stream has the smallest hash. So the sample depends only on the set of events, not on
// their order or on restarts. Every event has the same chance, including held-out events.
//
// The features use at most limit bytes. If the kept events exceed the size or limit, the events with the largest hashes
// are removed. An event that takes more than a sixteenth of limit is not kept.
type Reservoir struct {
	size   int
	limit  int
	events []keptEvent // ascending by hash
	bytes  int         // size of the features of all kept events
	met    uint64      // number of labeled events offered
	below  uint64      // smallest hash of a removed event; only events with smaller hashes are kept
}

// ReservoirBytes is the limit of a Reservoir.
const ReservoirBytes = 24 << 20

type keptEvent struct {
	hash      uint64
	partition int32
	event.Example
}

func compareHash(a, b keptEvent) int { return cmp.Compare(a.hash, b.hash) }

// bytes returns the size of the features of an event.
func (k *keptEvent) bytes() int { return 12*len(k.Features.Index) + 2*len(k.Field) }

// Offer offers an event to the sample. If it is kept, the Reservoir stores a copy. A nil Reservoir keeps nothing.
func (r *Reservoir) Offer(topic string, partition int32, e *event.Example) {
	if r == nil || r.size == 0 || e.Label == event.Unlabeled || !e.Usable() {
		return
	}
	r.met++
	k := keptEvent{hash: placeHash(topic, partition, e.Offset), partition: partition, Example: *e}
	switch {
	case k.hash >= r.below || 16*k.bytes() > r.limit:
		return
	case len(r.events) == r.size && k.hash >= r.events[r.size-1].hash:
		r.below = k.hash
		return
	}
	k.Example = event.Example{
		Features: event.Vec{Index: slices.Clone(e.Features.Index), Value: slices.Clone(e.Features.Value)},
		Field:    slices.Clone(e.Field), Label: e.Label, Target: e.Target, Weight: e.Weight, Time: e.Time, Offset: e.Offset,
	}
	at, _ := slices.BinarySearchFunc(r.events, k, compareHash)
	r.events = slices.Insert(r.events, at, k)
	r.bytes += k.bytes()
	r.shrink()
}

// shrink removes the events with the largest hashes until the remaining events fit.
func (r *Reservoir) shrink() {
	for len(r.events) > r.size || r.bytes > r.limit {
		k := &r.events[len(r.events)-1]
		r.bytes, r.below = r.bytes-k.bytes(), k.hash
		*k = keptEvent{}
		r.events = r.events[:len(r.events)-1]
	}
}

// Events returns the events of the sample ordered by time. The caller must not change them.
func (r *Reservoir) Events() []event.Example {
	out := make([]event.Example, len(r.events))
	for i := range out {
		out[i] = r.events[i].Example
	}
	slices.SortFunc(out, func(a, b event.Example) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset))
	})
	return out
}

// Encode returns the content of the checkpoint block "reservoir". The same events in any order give the same bytes.
// Encode returns nil if no events are to be kept.
func (r *Reservoir) Encode() []byte {
	if r == nil || r.size == 0 {
		return nil
	}
	c, n := &coder.Coder{}, len(r.events)
	c.Uint(&r.met)
	c.Uint(&r.below)
	c.Int(&n)
	for i := range r.events {
		k := r.events[i] // other goroutines may read the event
		k.code(c)
	}
	return c.Out
}

func (k *keptEvent) code(c *coder.Coder) {
	partition := int64(k.partition)
	c.Uint(&k.hash)
	c.Int64(&partition)
	c.Int(&k.Label)
	c.Each(&k.Target, &k.Weight)
	c.Int64(&k.Time)
	c.Int64(&k.Offset)
	c.Uint32s(&k.Features.Index)
	c.Floats(&k.Features.Value)
	c.WideUint16s(&k.Field)
	k.partition = int32(partition)
}

// NewReservoir returns a Reservoir of at most size events. It continues from data, a result of Encode. If data is nil,
// it starts empty. It never keeps an event whose hash is larger than the hash of a removed event.
func NewReservoir(size int, data []byte) (*Reservoir, error) {
	r := &Reservoir{size: size, limit: ReservoirBytes, below: math.MaxUint64}
	if data == nil || size == 0 {
		return r, nil
	}
	c := coder.Read(data)
	n := 0
	c.Uint(&r.met)
	c.Uint(&r.below)
	c.Int(&n)
	for i := 0; i < n && !c.Failed; i++ {
		var k keptEvent
		k.code(c)
		if !c.Failed && (len(k.Features.Index) != len(k.Features.Value) || len(k.Field) > 0 && len(k.Field) != len(k.Features.Index)) {
			c.Failed = true
		}
		r.events = append(r.events, k)
		r.bytes += k.bytes()
	}
	if !c.Done() {
		return nil, fmt.Errorf("block %s: %d bytes do not fit its format", BlockReservoir, len(data))
	}
	slices.SortFunc(r.events, compareHash)
	r.shrink()
	return r, nil
}

// BlockReservoir is the name of the checkpoint block with the reservoir.
const BlockReservoir = "reservoir"

// ReadReservoir returns the reservoir block of a checkpoint, or nil if it has none.
func ReadReservoir(blocks []event.Block) []byte {
	data, err := event.FindBlock(blocks, BlockReservoir)
	if err != nil {
		return nil
	}
	return data
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
