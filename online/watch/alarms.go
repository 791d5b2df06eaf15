package watch

// This file remembers the latest alarms about fields that were raised and have ended.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
)

// Alarms holds what became of the latest alarms.
type Alarms struct {
	raised  uint64        // alarms so far
	changes []fieldChange // the latest, oldest first
	changed uint64        // number of all of them
}

// healthChanges is how many changes are remembered.
const healthChanges = 64

// changeKind says what has become of an alarm.
type changeKind uint64

const (
	alarmRaised   changeKind = 1 + iota
	alarmEnded               // the field is as usual again
	alarmAccepted            // it has been as it is for so long that this is the usual now
)

// fieldChange is an alarm that was raised or has ended.
type fieldChange struct {
	field, kind  int
	what         changeKind
	event        uint64 // when that was found out
	since, until Moment // of the alarm
	value        alarmValue
	comes        form // as what the field comes now
}

// form is as what a field comes: comesNull, comesNot, comesNoMore, or comesAs plus a
// event.Kind; 0 if that is not the matter.
type form uint64

const (
	comesNull   form = 1 + iota
	comesNot         // it is left out
	comesNoMore      // it is left out, as it is of most events
	comesAs
)

func (f form) String() string {
	switch f {
	case 0:
		return ""
	case comesNull:
		return "null"
	case comesNot:
		return "left out"
	case comesNoMore:
		return "no more"
	}
	return event.Kind(f - comesAs).String()
}

// add remembers a change.
func (a *Alarms) add(x fieldChange) {
	if x.what == alarmRaised {
		a.raised++
	}
	if len(a.changes) == healthChanges {
		a.changes = a.changes[:copy(a.changes, a.changes[1:])]
	}
	a.changes = append(a.changes, x)
	a.changed++
}

// state codes the changes, about so many fields at most.
func (a *Alarms) state(c *coder.Coder, fields int) {
	c.Uint(&a.raised)
	c.Uint(&a.changed)
	n := uint64(len(a.changes))
	c.Uint(&n)
	if c.Decode {
		if n > healthChanges {
			c.Failed = true
			return
		}
		a.changes = make([]fieldChange, n)
	}
	for i := range a.changes {
		a.changes[i].state(c, fields)
	}
}

func (x *fieldChange) state(c *coder.Coder, fields int) {
	c.Int(&x.field)
	c.Int(&x.kind)
	c.Uint((*uint64)(&x.what))
	c.Uint(&x.event)
	x.since.state(c)
	x.until.state(c)
	c.Each(&x.value.Now, &x.value.Usual, &x.value.Change, &x.value.before, &x.value.after, &x.value.at)
	c.Bool(&x.value.logged)
	c.Uint((*uint64)(&x.comes))
	if x.field < 0 || x.field >= fields || x.kind < 0 || x.kind > alarmStuck || x.comes > comesAs+form(event.Cross) {
		c.Failed = true
	}
}
