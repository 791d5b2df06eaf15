package run

// This file keeps some of the newest events. The server uses them to compute how predictions change if a field is
// missing.

import (
	"slices"
	"sync"

	"blankout/internal/event"
)

const (
	// The ring keeps recentEvents of the newest labeled events. In a long stream it samples one event in recentEvery.
	// The ring skips events with more than recentFeatures features.
	recentEvents, recentEvery = 512, 8
	recentFeatures            = 2048
)

// recentRing holds the newest sampled events. The loop adds events, and other goroutines read copies.
type recentRing struct {
	mu      sync.Mutex
	events  []event.Example // the oldest event is at index first
	first   int
	offered uint64
}

// offer adds a copy of an event if the event is sampled.
func (r *recentRing) offer(e *event.Example) {
	if r == nil || e.Label == event.Unlabeled || !e.Usable() {
		return
	}
	r.offered++
	if r.offered > recentEvents && r.offered%recentEvery != 0 || e.Features.Len() > recentFeatures {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < recentEvents {
		r.events = append(r.events, event.Example{})
		r.put(&r.events[len(r.events)-1], e)
		return
	}
	r.put(&r.events[r.first], e)
	r.first = (r.first + 1) % recentEvents
}

// clear discards all events, but keeps the number of offered events.
func (r *recentRing) clear() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.first = nil, 0
}

func (r *recentRing) put(to, e *event.Example) {
	to.Features.Index = append(to.Features.Index[:0], e.Features.Index...)
	to.Features.Value = append(to.Features.Value[:0], e.Features.Value...)
	to.Field = append(to.Field[:0], e.Field...)
	if e.Field == nil {
		to.Field = nil
	}
	to.Missing = append(to.Missing[:0], e.Missing...)
	to.Label, to.Target, to.Weight, to.Time, to.Offset = e.Label, e.Target, e.Weight, e.Time, e.Offset
}

// Recent returns copies of some of the newest labeled events, the oldest first.
func (r *Runner) Recent() []event.Example {
	ring := &r.recent
	ring.mu.Lock()
	defer ring.mu.Unlock()
	out := make([]event.Example, len(ring.events))
	for i := range out {
		e := ring.events[(ring.first+i)%len(out)]
		e.Features = event.Vec{Index: slices.Clone(e.Features.Index), Value: slices.Clone(e.Features.Value)}
		e.Field, e.Missing = slices.Clone(e.Field), slices.Clone(e.Missing)
		out[i] = e
	}
	return out
}
