package stream

// This file finds events that a producer wrote twice.

import (
	"blankout/internal/event"

	"github.com/cespare/xxhash/v2"
)

// repeated finds the events of a partition that a producer has written twice: those
// with the key (or id) of another one at most window offsets before. What it finds
// depends on the partition's records alone; a Consumer that starts in the middle
// reads the window before its start again.
//
// It takes about 56 bytes for each of the last window records that has a key.
type repeated struct {
	window int64
	last   map[uint64]int64 // offset by the hash of the key
	queue  []keyAt          // in the order of offsets
	from   int              // entries before it have left the window
}

type keyAt struct {
	hash   uint64
	offset int64
}

// of returns the offset of the latest record within the window that has the key,
// or -1, and remembers this one.
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

// refuseRepeated makes a refused example of an example, which keeps its key.
func refuseRepeated(e *event.Example, detail string) {
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing, e.Value = e.Field[:0], e.Missing[:0], nil
	e.Label, e.Weight = event.Unlabeled, 0
	e.Refused = &event.Refusal{Reason: event.ReasonRepeated, Detail: detail}
}
