package health

// This file stores the latest starts and ends of field alarms.

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online/readings"
)

// alarmLog holds the latest starts and ends of field alarms.
type alarmLog struct {
	raised  uint64        // number of raised alarms
	changes []fieldChange // the latest changes, oldest first
	changed uint64        // number of changes
}

// healthChanges is the largest number of stored changes.
const healthChanges = 64

type changeKind uint64

const (
	alarmRaised   changeKind = 1 + iota
	alarmEnded               // the field has its usual state again
	alarmAccepted            // the change has lasted so long that it has become usual
)

// fieldChange is the start or end of an alarm.
type fieldChange struct {
	field, kind  int
	what         changeKind
	event        uint64          // event at which the change was detected
	since, until readings.Moment // start and end of the alarm
	value        alarmValue
	comes        form // the form in which the field arrives now
}

// form is the form in which a missing field arrives: comesNull (null), comesNot (absent), or comesAs plus an
// event.Kind (another kind of value). For alarms that are not about missing fields it is 0.
type form uint64

const (
	comesNull form = 1 + iota
	comesNot       // absent
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
	}
	return event.Kind(f - comesAs).String()
}

// add adds a change.
func (a *alarmLog) add(x fieldChange) {
	if x.what == alarmRaised {
		a.raised++
	}
	if len(a.changes) == healthChanges {
		a.changes = a.changes[:copy(a.changes, a.changes[1:])]
	}
	a.changes = append(a.changes, x)
	a.changed++
}

// state encodes or decodes the changes. fields is the number of fields.
func (a *alarmLog) state(c *coder.Coder, fields int) {
	c.Uint(&a.raised)
	c.Uint(&a.changed)
	coder.Length(c, &a.changes, healthChanges)
	for i := range a.changes {
		a.changes[i].state(c, fields)
	}
}

func (x *fieldChange) state(c *coder.Coder, fields int) {
	c.Int(&x.field)
	c.Int(&x.kind)
	c.Uint((*uint64)(&x.what))
	c.Uint(&x.event)
	x.since.State(c)
	x.until.State(c)
	c.Each(&x.value.Now, &x.value.Usual, &x.value.Change, &x.value.before, &x.value.after, &x.value.at, &x.value.expected)
	c.Bool(&x.value.logged)
	c.Uint((*uint64)(&x.comes))
	if x.field < 0 || x.field >= fields || x.kind < 0 || x.kind > alarmStuck || x.comes > comesAs+form(event.Cross) {
		c.Failed = true
	}
}
