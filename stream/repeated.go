package stream

// This file detects events that a producer has written twice.

import (
	"blankout/internal/event"

	"github.com/cespare/xxhash/v2"
)

// repeated detects events that a producer has written twice to a partition. The first of the two events has the same
// key (or ID), and its offset is at most window less. The result depends only on the records of the partition, because
// a Consumer that starts in the middle first reads the window before its start.
//
// repeated uses about 56 bytes for each of the last window records that has a key.
type repeated struct {
	window int64
	last   map[uint64]int64 // latest offset by hash of the key
	queue  []keyAt          // keys in the window, sorted by offset
	from   int              // index in queue of the first entry in the window
}

type keyAt struct {
	hash   uint64
	offset int64
}

// of returns the offset of the latest record in the window with the same key, or -1. It also stores the given key and
// offset.
func (r *repeated) of(key []byte, offset int64) int64 {
	if r.last == nil {
		r.last = map[uint64]int64{}
	}
	for r.from < len(r.queue) && r.queue[r.from].offset < offset-r.window {
		old := r.queue[r.from]
		if r.last[old.hash] == old.offset {
			delete(r.last, old.hash)
		}
		r.from++
	}
	if r.from > len(r.queue)/2 && r.from > 1024 {
		r.queue = append(r.queue[:0], r.queue[r.from:]...)
		r.from = 0
	}
	hash := xxhash.Sum64(key)
	before, ok := r.last[hash]
	r.last[hash] = offset
	r.queue = append(r.queue, keyAt{hash, offset})
	if !ok {
		return -1
	}
	return before
}

// refuseRepeated makes e a refused example that keeps its key.
func refuseRepeated(e *event.Example, detail string) {
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing, e.Value = e.Field[:0], e.Missing[:0], nil
	e.Label, e.Weight = event.Unlabeled, 0
	e.Refused = &event.Refusal{Reason: event.ReasonRepeated, Detail: detail}
}
