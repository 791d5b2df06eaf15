package validate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// This file implements the sample of events for validations by "auto".

// Sample is a uniform sample of the labeled events offered. It keeps the events whose position in the stream has a hash
// below a threshold. The threshold decreases so that the events fit into the limit of bytes. A Sample is kept only in
// memory and starts empty with every process. Its events are packed in append-only chunks, so a copy made by Freeze
// keeps its contents.
type Sample struct {
	limit     int // largest number of bytes of all chunks
	bytes     int
	threshold uint64
	chunks    [][]byte
	kept      int
}

// SampleBytes is the size limit of a learner's Sample. A validation uses a copy made by Freeze. The memory of removed
// events cannot be freed before the validation ends, so both samples take up to 64 MiB.
const SampleBytes = 24 << 20

const chunkBytes = 256 << 10

// NewSample returns an empty Sample of at most limit bytes. It keeps at most a quarter of the events. A validation
// under autoFraction never uses more than this quarter.
func NewSample(limit int) *Sample { return &Sample{limit: limit, threshold: math.MaxUint64 / 4} }

// Len returns the number of kept events.
func (s *Sample) Len() int {
	if s == nil {
		return 0
	}
	return s.kept
}

// Offer offers an event to the sample. If it is kept, the Sample stores a copy. A nil Sample keeps nothing.
func (s *Sample) Offer(topic string, partition int32, e *event.Example) {
	if s == nil || e.Label == event.Unlabeled || !e.Usable() || e.Weight == 0 {
		return
	}
	hash, size := placeHash(topic, partition, e.Offset), packedBytes(e)
	if size > s.limit {
		return
	}
	for hash < s.threshold && !s.room(size) {
		s.halve()
	}
	if hash >= s.threshold {
		return
	}
	last := &s.chunks[len(s.chunks)-1]
	*last = pack(*last, hash, partition, e)
	s.kept++
}

// room ensures that the last chunk has size free bytes. It returns false if this would need a chunk beyond the limit.
func (s *Sample) room(size int) bool {
	if n := len(s.chunks); n > 0 && cap(s.chunks[n-1])-len(s.chunks[n-1]) >= size {
		return true
	}
	need := max(size, min(chunkBytes, s.limit/8))
	if s.bytes+need > s.limit {
		return false
	}
	s.chunks, s.bytes = append(s.chunks, make([]byte, 0, need)), s.bytes+need
	return true
}

// halve removes the events with the larger half of the hashes.
func (s *Sample) halve() {
	old := s.chunks
	s.threshold, s.chunks, s.bytes, s.kept = s.threshold/2, nil, 0, 0
	for i, chunk := range old {
		old[i] = nil
		for len(chunk) > 0 {
			size := packedSize(chunk)
			if packedHash(chunk) < s.threshold && s.room(size) {
				last := &s.chunks[len(s.chunks)-1]
				*last = append(*last, chunk[:size]...)
				s.kept++
			}
			chunk = chunk[size:]
		}
	}
}

// Freeze returns a copy that shares the memory of the events.
func (s *Sample) Freeze() *Sample {
	c := *s
	c.chunks = slices.Clone(s.chunks)
	return &c
}

// draw returns about n packed events in the order of arrival.
func (s *Sample) draw(n int) (events [][]byte) {
	below := s.threshold
	if n < s.kept {
		below = uint64(float64(s.threshold) * float64(n) / float64(s.kept))
	}
	for _, chunk := range s.chunks {
		for len(chunk) > 0 {
			size := packedSize(chunk)
			if packedHash(chunk) < below {
				events = append(events, chunk[:size])
			}
			chunk = chunk[size:]
		}
	}
	return events
}

// packedHead is the size of the fixed part of a packed event: its size, its hash, six numbers and four lengths. Its
// lists follow.
const packedHead = 4 + 8 + 4 + 5*8 + 4*4

func packedBytes(e *event.Example) int {
	return packedHead + 12*e.Features.Len() + 2*len(e.Field) + 2*len(e.Missing) + 4*len(e.MissingColumns)
}

func packedSize(b []byte) int { return int(binary.LittleEndian.Uint32(b)) }

func packedHash(b []byte) uint64 { return binary.LittleEndian.Uint64(b[4:]) }

func pack(b []byte, hash uint64, partition int32, e *event.Example) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(packedBytes(e)))
	b = le.AppendUint64(b, hash)
	b = le.AppendUint32(b, uint32(partition))
	for _, x := range [5]uint64{uint64(e.Label), math.Float64bits(e.Target), math.Float64bits(e.Weight), uint64(e.Time), uint64(e.Offset)} {
		b = le.AppendUint64(b, x)
	}
	for _, n := range [4]int{e.Features.Len(), len(e.Field), len(e.Missing), len(e.MissingColumns)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, index := range e.Features.Index {
		b = le.AppendUint32(b, index)
	}
	for _, value := range e.Features.Value {
		b = le.AppendUint64(b, math.Float64bits(value))
	}
	for _, list := range [2][]uint16{e.Field, e.Missing} {
		for _, id := range list {
			b = le.AppendUint16(b, id)
		}
	}
	for _, column := range e.MissingColumns {
		b = le.AppendUint32(b, column)
	}
	return b
}

// packedPlace returns the partition and the offset of the event that is packed in b.
func packedPlace(b []byte) (partition int32, offset int64) {
	return int32(binary.LittleEndian.Uint32(b[12:])), int64(binary.LittleEndian.Uint64(b[48:]))
}

// unpack decodes an event that pack wrote. It reuses the slices of e.
func unpack(b []byte, e *event.Example) {
	le := binary.LittleEndian
	number := func(i int) uint64 { return le.Uint64(b[16+8*i:]) }
	length := func(i int) int { return int(le.Uint32(b[56+4*i:])) }
	*e = event.Example{Label: int(number(0)), Target: math.Float64frombits(number(1)), Weight: math.Float64frombits(number(2)), Time: int64(number(3)), Offset: int64(number(4)),
		Features: event.Vec{Index: e.Features.Index[:0], Value: e.Features.Value[:0]}, Field: e.Field[:0], Missing: e.Missing[:0], MissingColumns: e.MissingColumns[:0]}
	features, fields, missing, columns := length(0), length(1), length(2), length(3)
	b = b[packedHead:]
	for i := range features {
		e.Features.Index = append(e.Features.Index, le.Uint32(b[4*i:]))
		e.Features.Value = append(e.Features.Value, math.Float64frombits(le.Uint64(b[4*features+8*i:])))
	}
	b = b[12*features:]
	for i := range fields {
		e.Field = append(e.Field, le.Uint16(b[2*i:]))
	}
	b = b[2*fields:]
	for i := range missing {
		e.Missing = append(e.Missing, le.Uint16(b[2*i:]))
	}
	b = b[2*missing:]
	for i := range columns {
		e.MissingColumns = append(e.MissingColumns, le.Uint32(b[4*i:]))
	}
	if fields == 0 {
		e.Field = nil // nil means that all features are of the anonymous field
	}
}

// placeHash returns the hash of an event's position in the stream.
func placeHash(topic string, partition int32, offset int64) uint64 {
	hash := uint64(14695981039346656037) // FNV-1a hash of the topic
	for i := range len(topic) {
		hash = (hash ^ uint64(topic[i])) * 1099511628211
	}
	return mix(mix(hash^uint64(partition)<<32) + uint64(offset))
}

// The part below implements the sample of events that is stored in checkpoints.

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

// HeldOut reports whether a record belongs to the holdout, a fraction 1/k of all records. The result depends only on
// the position of the record, so it is the same in every process.
func HeldOut(partition int32, offset int64, k uint64) bool {
	return k > 0 && mix(uint64(offset)+uint64(partition)<<48)%k == 0
}
