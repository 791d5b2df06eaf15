package watch

// This file watches fields that few events hold: whether one comes no more.

import (
	"math"
	"math/bits"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// Rare watches the fields whose absence means nothing, because most events lack them.
//
// An appearance counts if no other has counted within rareApart events, so that one that comes in
// bursts does not count for more than the bursts do. n of them in t events, and none in g since:
// where they come by chance that has the probability (1 + g/t)^-n, as t is gamma distributed and
// g exponentially. An alarm comes where that is below e^-healthLimit, and where g is twice the
// longest that the field has been away before.
type Rare struct {
	events uint64         // so far
	watch  model.FieldSet // the fields that are watched, found out at the end of each block
	fields []rareField    // by id
}

// rareField is about one field. Events are numbered as they are met, from 1.
type rareField struct {
	all, count      float64 // appearances, and those that count
	since, counted  uint64  // they are counted from the one, and the latest that counts is the other
	last            uint64  // the latest of all
	at, back        Moment  // the latest, not of an alarm; and the first since the alarm
	longest, before uint64  // the longest gap since count was halved, and before that
	alarm           bool
	error           float64 // that was forecast when the alarm was raised, -1 for none
}

const (
	rareApart = 64
	// rareLeast is the fewest appearances that tell what is usual. At rareMost they are
	// halved.
	rareLeast, rareMost = 128, 2048
	// rareMissing is the share of events that must usually lack a field of which each
	// absence is counted: a rise from there is too small for the other alarm.
	rareMissing = 0.9
)

func (r *Rare) take(m *Met) {
	if !m.Named {
		return
	}
	r.events++
	for i, word := range r.watch {
		if i == len(m.Present) {
			break
		}
		for word &= m.Present[i]; word != 0; word &= word - 1 {
			r.fields[i<<6|bits.TrailingZeros64(word)].come(r.events, Moment{m.Number, m.Event.Time})
		}
	}
}

// come takes up an appearance.
func (f *rareField) come(event uint64, at Moment) {
	f.longest = max(f.longest, event-f.last)
	f.last = event
	f.all++
	switch {
	case !f.alarm:
		f.at = at
	case f.back == Moment{}:
		f.back = at
	}
	if event-f.counted < rareApart && f.count > 0 {
		return
	}
	f.counted = event
	if f.count++; f.count == rareMost {
		f.all, f.count = f.all/2, f.count/2
		f.since += (event - f.since) / 2
		f.before, f.longest = f.longest, 0
	}
}

// vanished says whether the field comes no more.
func (f *rareField) vanished(event uint64) bool {
	gap := event - f.last
	return f.count >= rareLeast && gap >= 2*max(f.longest, f.before) && f.count*math.Log1p(float64(gap)/float64(f.last-f.since)) >= healthLimit
}

func (r *Rare) review(m *Met, h *Fields) {
	for len(r.fields) < len(h.fields) {
		r.fields = append(r.fields, rareField{})
	}
	r.watch = r.watch.Room(len(r.fields))
	clear(r.watch)
	for id := range r.fields {
		f := &r.fields[id]
		if !f.alarm && (!h.fields[id].rare() || h.kinds.later.Has(uint16(id))) {
			*f = rareField{}
			continue
		}
		if f.since == 0 {
			f.since, f.counted, f.last, f.at = r.events, r.events, r.events, Moment{m.Number, m.Event.Time}
		}
		r.watch.Add([]uint16{uint16(id)})
		x := fieldChange{field: id, kind: alarmVanished, what: alarmOn, event: m.Number, since: f.at}
		switch {
		case !f.alarm && f.vanished(r.events):
			f.alarm, f.error, x.what = true, m.Error, alarmRaised
		case !f.alarm:
			continue
		case f.back != Moment{}:
			x.what, x.until = alarmEnded, f.back
			f.alarm, f.at, f.back = false, f.back, Moment{}
		case r.events-f.last >= alarmEvents:
			x.what = alarmAccepted
		}
		usual := f.all / float64(f.last-f.since)
		x.value = h.priced(id, Condition{0, usual, -usual}, f.error, usual)
		h.alarms.take(x, false, m.Event.Time)
		if x.what == alarmAccepted {
			*f = rareField{}
		}
	}
}

// rare says whether it is no news that an event lacks the field.
func (f *fieldHealth) rare() bool {
	if f.kind == blankout.Sparse || f.kind == blankout.Cross {
		return false
	}
	m := &f.measures[measureMissing]
	return !f.watched || m.alarm == 0 && m.n >= healthLeast && m.sum >= rareMissing*m.n
}

// State codes what is counted, of so many fields at most.
func (r *Rare) State(c *coder.Coder, fields int) {
	c.Uint(&r.events)
	n := uint64(len(r.fields))
	c.Uint(&n)
	if c.Decode {
		if n > uint64(fields) {
			c.Failed = true
			return
		}
		r.fields, r.watch = make([]rareField, n), model.NewFieldSet(int(n))
	}
	for id := range r.fields {
		f := &r.fields[id]
		for _, p := range []*uint64{&f.since, &f.counted, &f.last, &f.longest, &f.before} {
			c.Uint(p)
		}
		f.at.state(c)
		f.back.state(c)
		c.Bool(&f.alarm)
		c.Each(&f.all, &f.count, &f.error)
		if f.since > 0 {
			r.watch.Add([]uint16{uint16(id)})
		}
	}
}
